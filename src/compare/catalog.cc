// The lists of tasks and models, and the search for sizes.
#include "compare/catalog.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <utility>

#include "core/refuse.h"

namespace qkv::comparison {
namespace {

const std::vector<std::pair<std::string, SequenceKind>> kSequenceKinds = {
    {"rnn", SequenceKind::rnn}, {"lstm", SequenceKind::lstm}, {"lstm-open", SequenceKind::lstm_open},
    {"gru", SequenceKind::gru}, {"cnn", SequenceKind::cnn},   {"transformer", SequenceKind::transformer}};

const std::vector<std::pair<std::string, SequenceTask>> kSequenceTasks = {
    {"recall", SequenceTask::recall}, {"copy", SequenceTask::copy}, {"key-value", SequenceTask::key_value}};

constexpr std::int64_t kReaderParameters = 24000;
constexpr std::int64_t kUsualEmbedding = 32;

std::int64_t count(const SequenceModelConfig& config) { return parameter_count(SequenceModel(config, 0)); }

// The size whose count, which grows with it, is nearest to `wanted`.
std::int64_t nearest(std::int64_t wanted, const std::function<std::int64_t(std::int64_t)>& count_of) {
  std::int64_t low = 1, high = 2;
  while (count_of(high) < wanted) low = high, high *= 2;
  while (low + 1 < high) {
    const std::int64_t middle = (low + high) / 2;
    (count_of(middle) <= wanted ? low : high) = middle;
  }
  return std::abs(count_of(low) - wanted) <= std::abs(count_of(high) - wanted) ? low : high;
}

}  // namespace

const std::vector<CatalogTask>& catalog() {
  static const std::vector<std::string> readers = {"rnn", "lstm", "gru", "cnn", "transformer"};
  static const std::vector<CatalogTask> tasks = {
      {.name = "recall",
       .models = readers,
       .question = "a symbol that was read so many tokens before",
       .at = "distance",
       .chance = 1.0 / kSymbols,
       .parameters = kReaderParameters,
       .steps = 1500,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 1000},
      {.name = "copy",
       .models = readers,
       .question = "so many symbols, in their order",
       .at = "length",
       .chance = 1.0 / kSymbols,
       .parameters = kReaderParameters,
       .steps = 2000,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 1000},
      {.name = "key-value",
       .models = readers,
       .question = "the symbols that were read behind so many keys",
       .at = "pairs",
       .chance = 1.0 / kSymbols,
       .parameters = kReaderParameters,
       .steps = 1500,
       .batch_tokens = 2048,
       .rate = 3e-3,
       .examples = 1000},
  };
  return tasks;
}

const CatalogTask& catalog_task(const std::string& name) {
  for (const CatalogTask& task : catalog()) {
    if (task.name == name) return task;
  }
  refuse("compare", "\"{}\" is no task", name);
}

SequenceTask sequence_task(const std::string& task) {
  for (const auto& [name, value] : kSequenceTasks) {
    if (name == task) return value;
  }
  refuse("compare", "\"{}\" is no task of sequence models", task);
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

bool is_reader(const std::string& model) {
  return std::any_of(kSequenceKinds.begin(), kSequenceKinds.end(),
                     [&](const auto& kind) { return kind.first == model; });
}

SequenceKind sequence_kind(const std::string& model) {
  for (const auto& [name, kind] : kSequenceKinds) {
    if (name == model) return kind;
  }
  refuse("compare", "\"{}\" is no sequence model", model);
}

SequenceModelConfig sized(SequenceKind kind, std::int64_t vocab, std::int64_t parameters) {
  SequenceModelConfig config{.kind = kind, .vocab = vocab, .embedding = kUsualEmbedding};
  const auto fit = [&](std::int64_t SequenceModelConfig::* size) {
    config.*size = nearest(parameters, [&](std::int64_t value) {
      SequenceModelConfig tried = config;
      tried.*size = value;
      return count(tried);
    });
  };
  fit(&SequenceModelConfig::width);
  // A state or a channel more is worth up to 4 % of the parameters, a number of an embedding less than 1 %. A
  // Transformer's width is finer than both.
  if (kind != SequenceKind::transformer) fit(&SequenceModelConfig::embedding);
  return config;
}

}  // namespace qkv::comparison
