// The lists of tasks and models.
#include "compare/catalog.h"

#include <algorithm>
#include <utility>

#include "core/refuse.h"

namespace qkv::comparison {
namespace {

const std::vector<std::pair<std::string, SequenceKind>> kSequenceKinds = {
    {"rnn", SequenceKind::rnn}, {"lstm", SequenceKind::lstm}, {"lstm-open", SequenceKind::lstm_open},
    {"gru", SequenceKind::gru}, {"cnn", SequenceKind::cnn},   {"transformer", SequenceKind::transformer}};

const std::vector<std::pair<std::string, SequenceTask>> kSequenceTasks = {
    {"recall", SequenceTask::recall}, {"copy", SequenceTask::copy}, {"key-value", SequenceTask::key_value}};

const std::vector<std::pair<std::string, TranslatorKind>> kTranslatorKinds = {
    {"seq2seq-fixed", TranslatorKind::fixed},
    {"seq2seq-additive", TranslatorKind::additive},
    {"seq2seq-dot", TranslatorKind::dot},
    {"transformer", TranslatorKind::transformer}};

constexpr std::int64_t kSmall = 24000, kOfWords = 160'000;

template <class Value>
bool holds(const std::vector<std::pair<std::string, Value>>& values, const std::string& name) {
  return std::any_of(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
}

template <class Value>
Value named(const std::vector<std::pair<std::string, Value>>& values, const std::string& wanted, const char* what) {
  for (const auto& [name, value] : values) {
    if (name == wanted) return value;
  }
  refuse("compare", "\"{}\" is no {}", wanted, what);
}

}  // namespace

const std::vector<CatalogTask>& catalog() {
  static const std::vector<std::string> readers = {"rnn", "lstm", "gru", "cnn", "transformer"};
  static const std::vector<std::string> translators = {"seq2seq-fixed", "seq2seq-additive", "seq2seq-dot",
                                                       "transformer"};
  static const std::vector<CatalogTask> tasks = {
      {.name = "recall",
       .models = readers,
       .question = "a symbol that was read so many tokens before",
       .at = "distance",
       .chance = 1.0 / kSymbols,
       .parameters = kSmall,
       .steps = 1500,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 1000},
      {.name = "copy",
       .models = readers,
       .question = "so many symbols, in their order",
       .at = "length",
       .chance = 1.0 / kSymbols,
       .parameters = kSmall,
       .steps = 2000,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 1000},
      {.name = "key-value",
       .models = readers,
       .question = "the symbols that were read behind so many keys",
       .at = "pairs",
       .chance = 1.0 / kSymbols,
       .parameters = kSmall,
       .steps = 1500,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 1000},
      {.name = "reversal",
       .models = translators,
       .question = "so many symbols, the last one first",
       .at = "length",
       .chance = 1.0 / kSymbols,
       .parameters = kSmall,
       .steps = 2000,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 300},
      {.name = "phrases",
       .models = translators,
       .question = "a phrase of so many words in Spanish, as it was learnt",
       .at = "words",
       .parameters = kOfWords,
       .seeds = 1,
       .steps = 500,
       .batch_tokens = 1024,
       .rate = 3e-3},
  };
  return tasks;
}

const CatalogTask& catalog_task(const std::string& name) {
  for (const CatalogTask& task : catalog()) {
    if (task.name == name) return task;
  }
  refuse("compare", "\"{}\" is no task", name);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const CatalogTask& task : catalog()) {
    for (const std::string& model : task.models) {
      if (std::find(names.begin(), names.end(), model) == names.end()) names.push_back(model);
    }
  }
  return names;
}

bool is_reader(const std::string& model) { return holds(kSequenceKinds, model); }
bool is_translator(const std::string& model) { return holds(kTranslatorKinds, model); }

SequenceTask sequence_task(const std::string& task) { return named(kSequenceTasks, task, "task of sequence models"); }
SequenceKind sequence_kind(const std::string& model) { return named(kSequenceKinds, model, "sequence model"); }
TranslatorKind translator_kind(const std::string& model) { return named(kTranslatorKinds, model, "translator"); }

}  // namespace qkv::comparison
