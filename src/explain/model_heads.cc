// The heads of a BERT-family model at work on one text: an observer keeps what the kernel computed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "explain/head_trace.h"
#include "explain/require.h"
#include "qkv/explain/explain_model.h"
#include "qkv/layers/sequences.h"

namespace qkv {
namespace {

void run(const Bert& model, const Encoding& text, const BertOptions& options, Listener::Listen listen) {
  const auto count = static_cast<std::int64_t>(text.ids.size());
  require(count > 0, "the text has no tokens");
  require(count <= model.config().positions, "the text has {} tokens; the model reads at most {}", count,
          model.config().positions);
  Listener listener(std::move(listen));
  model.forward({text.ids, text.type_ids, offsets_of(std::vector<std::int64_t>{count})}, options, &listener);
}

}  // namespace

HeadSummary summarize_head(const TensorView& weights, std::span<const std::uint8_t> special) {
  require(weights.rank() == 2 && weights.size(0) > 0 && weights.size(1) > 0 &&
              static_cast<std::int64_t>(special.size()) == weights.size(1),
          "weights must be [queries, keys] with a mark per key, got {} and {} marks", to_string(weights.shape()),
          special.size());
  const Tensor exact = convert(weights, Dtype::f64);
  const double* weight = exact.data<double>();
  const std::int64_t count = weights.size(0), keys = weights.size(1);
  HeadSummary sum;
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t j = 0; j < keys; ++j, ++weight) {
      if (*weight > 0) sum.entropy -= *weight * std::log(*weight);
      sum.distance += *weight * static_cast<double>(std::abs(i - j));
      if (j == 0) sum.first += *weight;
      if (j == i - 1) sum.previous += *weight;
      if (j == i + 1) sum.next += *weight;
      if (j == i) sum.itself += *weight;
      if (j > 0 && special[static_cast<std::size_t>(j)] != 0) sum.separators += *weight;
    }
  }
  for (double* part :
       {&sum.entropy, &sum.distance, &sum.first, &sum.previous, &sum.next, &sum.itself, &sum.separators}) {
    *part /= static_cast<double>(count);
  }
  return sum;
}

HeadSurvey survey_heads(const Bert& model, const Encoding& text, const SurveyOptions& options) {
  HeadSurvey survey;
  survey.tokens = text.tokens;
  std::int64_t layer = 0;
  run(model, text, options.run, [&](std::string_view name, const TensorView& value) {
    if (!name.ends_with(".weights")) return;
    for (std::int64_t head = 0; head < value.size(1); ++head) {
      survey.heads.push_back({{layer, head}, summarize_head(value.select(1, head), text.special)});
      if (options.keep_weights) survey.heads.back().weights = part_of(value, head);
    }
    ++layer;
  });
  return survey;
}

HeadTrace trace_head(const Bert& model, const Encoding& text, const HeadIndex& index, const BertOptions& options) {
  const BertConfig& config = model.config();
  check_index(index, config.layers, config.heads);
  HeadTrace trace;
  trace.title = fmt::format("Layer {}, head {}", index.layer, index.head);
  trace.index = index;
  trace.heads = config.heads;
  trace.model_dim = config.model_dim;
  trace.tokens = trace.keys = text.tokens;
  const std::string scope = fmt::format("layers.{}.", index.layer);
  run(model, text, options,
      [&](std::string_view name, const TensorView& value) { keep_part(trace, scope, name, value); });
  complete(trace, text.special);
  return trace;
}

std::vector<std::int64_t> keys_by_weight(const TensorView& weights, std::int64_t token) {
  std::vector<std::pair<double, std::int64_t>> ranked;
  for (std::int64_t key = 0; key < weights.size(1); ++key) {
    const double weight = weights.at<double>({token, key});
    ranked.emplace_back(std::isnan(weight) ? 1 : -weight, key);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::int64_t> keys;
  for (const auto& [rank, key] : ranked) keys.push_back(key);
  return keys;
}

std::int64_t find_token(std::span<const std::string> tokens, const std::string& name) {
  if (const auto found = std::find(tokens.begin(), tokens.end(), name); found != tokens.end()) {
    return found - tokens.begin();
  }
  std::int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  if (whole && number >= 0 && number < static_cast<std::int64_t>(tokens.size())) return number;
  constexpr std::size_t kMostListed = 64;
  std::string list;
  for (const std::string& token : tokens.first(std::min(tokens.size(), kMostListed))) list += " " + token;
  if (tokens.size() > kMostListed) list += " ...";
  throw std::invalid_argument(
      fmt::format("explain: there is no token \"{}\"; the tokens, 0 to {}, are:{}", name, tokens.size() - 1, list));
}

}  // namespace qkv
