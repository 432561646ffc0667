// Collects the intermediates of one head, and checks that the layer and head exist.
#include "explain/head_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "explain/intermediates.h"
#include "qkv/target.h"

namespace qkv {
namespace {

// [n, m] of sum over e of left(i, e) * right(e, j).
Tensor product(const TensorView& left, const TensorView& right) {
  Tensor out = Tensor::zeros({left.size(0), right.size(1)}, Dtype::f64);
  double* sum = out.data<double>();
  for (std::int64_t i = 0; i < left.size(0); ++i) {
    for (std::int64_t j = 0; j < right.size(1); ++j, ++sum) {
      for (std::int64_t e = 0; e < left.size(1); ++e) *sum += left.at<double>({i, e}) * right.at<double>({e, j});
    }
  }
  return out;
}

double scaled_difference(const Tensor& logits, const Tensor& scores, double scale) {
  double largest = 0;
  for (std::int64_t i = 0; i < scores.element_count(); ++i) {
    const double logit = logits.data<double>()[i];
    if (logit == -HUGE_VAL) continue;  // hidden
    largest = larger(largest, std::abs(logit - scale * scores.data<double>()[i]));
  }
  return largest;
}

}  // namespace

void check_index(const HeadIndex& index, std::int64_t layers, std::int64_t heads) {
  if (index.layer < 0 || index.layer >= layers) {
    throw std::invalid_argument(
        fmt::format("explain: there is no layer {}; the model has layers 0 to {}", index.layer, layers - 1));
  }
  if (index.head < 0 || index.head >= heads) {
    throw std::invalid_argument(
        fmt::format("explain: there is no head {}; each layer has heads 0 to {}", index.head, heads - 1));
  }
}

Tensor part_of(const TensorView& value, std::int64_t head) { return convert(value.select(1, head), Dtype::f64); }

void keep_part(HeadTrace& trace, std::string_view scope, std::string_view name, const TensorView& value) {
  if (!name.starts_with(scope)) return;
  name.remove_prefix(scope.size());
  for (const auto& [wanted, tensor] :
       {std::pair("query", &trace.query), std::pair("key", &trace.key), std::pair("value", &trace.value),
        std::pair("logits", &trace.logits), std::pair("weights", &trace.weights), std::pair("heads", &trace.output)}) {
    if (name == wanted) *tensor = part_of(value, trace.index.head);
  }
}

void complete(HeadTrace& trace, std::span<const std::uint8_t> special) {
  trace.scale = 1 / std::sqrt(static_cast<double>(trace.query.size(1)));
  trace.scores = product(trace.query, trace.key.view().transpose(0, 1));
  trace.summary = summarize_head(trace.weights, special);
  trace.target = selected_target();
  trace.logits_difference = scaled_difference(trace.logits, trace.scores, trace.scale);
  trace.output_difference = largest_difference(trace.output, product(trace.weights, trace.value));
}

}  // namespace qkv
