// The lists of tasks and models, and the sizes of models.
#include "lab/compare/catalog.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
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

template <class Value>
bool holds(const std::vector<std::pair<std::string, Value>>& values, const std::string& name) {
  return std::any_of(values.begin(), values.end(), [&](const auto& value) { return value.first == name; });
}

template <class Value>
Value named(const std::vector<std::pair<std::string, Value>>& values, const std::string& wanted, const char* what) {
  for (const auto& [name, value] : values) {
    if (name == wanted) return value;
  }
  refuse("compare", "\"{}\" is not a {}", wanted, what);
}

}  // namespace

const std::vector<CatalogTask>& catalog() {
  static const std::vector<std::string> readers = {"rnn", "lstm", "gru", "cnn", "transformer"};
  static const std::vector<std::string> translators = {"seq2seq-fixed", "seq2seq-additive", "seq2seq-dot",
                                                       "transformer"};
  static const std::vector<CatalogTask> tasks = {
      {.name = "recall",
       .models = readers,
       .question = "the symbol read N tokens earlier",
       .at = "distance",
       .steps = 1500},
      {.name = "copy", .models = readers, .question = "N symbols, in order", .at = "length", .steps = 2000},
      {.name = "key-value",
       .models = readers,
       .question = "the symbols read after N keys",
       .at = "pairs",
       .steps = 1500},
      {.name = "reversal",
       .models = translators,
       .question = "N symbols, in reverse",
       .at = "length",
       .steps = 2000,
       .examples = 300},
      {.name = "phrases",
       .models = translators,
       .question = "a learned phrase of N words, in Spanish",
       .at = "words",
       .chance = 0,
       .parameters = 160'000,
       .seeds = 1,
       .steps = 500,
       .batch_tokens = 1024,
       .examples = 0},
  };
  return tasks;
}

const CatalogTask& catalog_task(const std::string& name) {
  for (const CatalogTask& task : catalog()) {
    if (task.name == name) return task;
  }
  refuse("compare", "\"{}\" is not a task", name);
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

namespace {

constexpr std::int64_t kUsualEmbedding = 32;

using CountOf = std::function<std::int64_t(std::int64_t size)>;

// The size whose count, which grows with it, is nearest to `wanted`.
std::int64_t nearest(std::int64_t wanted, const CountOf& count_of) {
  std::int64_t low = 1, high = 2;
  while (count_of(high) < wanted) low = high, high *= 2;
  while (low + 1 < high) {
    const std::int64_t middle = (low + high) / 2;
    (count_of(middle) <= wanted ? low : high) = middle;
  }
  return std::abs(count_of(low) - wanted) <= std::abs(count_of(high) - wanted) ? low : high;
}

// Numbers are not drawn to be counted.
Weights zeros() {
  return Weights([](const std::string&, const Dims& shape) { return Tensor::zeros(shape); }, Dtype::f32);
}
std::int64_t count(const SequenceModelConfig& config) { return parameter_count(SequenceModel(config, zeros())); }
std::int64_t count(const TranslatorConfig& config) { return parameter_count(TranslatorModel(config, zeros())); }

// The number near `wanted` that recurrent translators come nearest to, all of them: a number more of a state is worth
// up to 6 % of their parameters. It is one that the coarsest of them, the additive, can have.
std::int64_t common_count(const EncoderDecoderTokens& tokens, std::int64_t wanted) {
  std::map<std::pair<TranslatorKind, std::int64_t>, std::int64_t> counts;
  const auto count_of = [&](TranslatorKind kind) {
    return [&counts, &tokens, kind](std::int64_t dim) {
      const auto [found, is_new] = counts.try_emplace({kind, dim});
      if (is_new) found->second = count({.kind = kind, .tokens = tokens, .model_dim = dim});
      return found->second;
    };
  };
  const CountOf additive = count_of(TranslatorKind::additive);
  const std::int64_t middle = nearest(wanted, additive);
  constexpr std::int64_t kAround = 3;
  std::int64_t best = wanted;
  double least = 1;
  for (std::int64_t dim = std::max<std::int64_t>(1, middle - kAround); dim <= middle + kAround; ++dim) {
    const std::int64_t tried = additive(dim);
    double largest = 0;
    for (const TranslatorKind kind : {TranslatorKind::fixed, TranslatorKind::dot}) {
      const CountOf other = count_of(kind);
      const double off = static_cast<double>(other(nearest(tried, other)) - tried);
      largest = std::max(largest, std::abs(off) / static_cast<double>(tried));
    }
    if (largest < least) least = largest, best = tried;
  }
  return best;
}

}  // namespace

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

TranslatorConfig sized(TranslatorKind kind, const EncoderDecoderTokens& tokens, std::int64_t parameters) {
  TranslatorConfig config{.kind = kind, .tokens = tokens};
  const std::int64_t common = common_count(tokens, parameters);
  if (kind != TranslatorKind::transformer) {
    config.model_dim = nearest(common, [&](std::int64_t dim) {
      TranslatorConfig tried = config;
      tried.model_dim = dim;
      return count(tried);
    });
    return config;
  }
  // Layers whose feed-forward is about as wide as usual, twice the model, then exactly as wide as fits.
  constexpr std::int64_t kGrain = 8;  // of heads and sinusoids
  config.model_dim = kGrain * nearest(common, [&](std::int64_t eighths) {
                       TranslatorConfig tried = config;
                       tried.model_dim = kGrain * eighths;
                       tried.ff_dim = 2 * tried.model_dim;
                       return count(tried);
                     });
  config.ff_dim = nearest(common, [&](std::int64_t ff_dim) {
    TranslatorConfig tried = config;
    tried.ff_dim = ff_dim;
    return count(tried);
  });
  return config;
}

}  // namespace qkv::comparison
