// Pools rows, and spreads gradients.
#include "models/encoders/pooled_rows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/refuse.h"

namespace qkv::inline models {
namespace {

struct PooledSpan {
  std::int64_t begin, count;  // of the rows that a sequence's vector is the mean of
};

PooledSpan span_of(const TensorView& offsets, std::int64_t b, SentencePooling pooling) {
  const std::int32_t begin = offsets.at<std::int32_t>({b}), end = offsets.at<std::int32_t>({b + 1});
  return {begin, pooling == SentencePooling::first ? std::min(end - begin, 1) : end - begin};
}

}  // namespace

Tensor pooled_rows(const TensorView& rows, const TensorView& offsets, SentencePooling pooling, std::string_view of) {
  const std::int64_t batch = offsets.size(0) - 1, dim = rows.size(1);
  Tensor out = Tensor::uninitialized({batch, dim});
  std::vector<double> sum(static_cast<std::size_t>(dim));
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto [begin, count] = span_of(offsets, b, pooling);
    refuse_unless(count > 0, of, "sequence {} has no tokens", b);
    std::ranges::fill(sum, 0.0);
    for (std::int64_t row = begin; row < begin + count; ++row) {
      const float* from = rows.data<float>() + row * dim;
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += static_cast<double>(from[e]);
    }
    std::ranges::transform(sum, out.data<float>() + b * dim,
                           [n = static_cast<double>(count)](double total) { return static_cast<float>(total / n); });
  }
  return out;
}

Tensor pooled_rows_backward(const Tensor& grad, const TensorView& offsets, SentencePooling pooling) {
  const std::int64_t batch = grad.size(0), dim = grad.size(1);
  Tensor out = Tensor::zeros({offsets.at<std::int32_t>({batch}), dim});
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto [begin, count] = span_of(offsets, b, pooling);
    const float* from = grad.data<float>() + b * dim;
    for (std::int64_t row = begin; row < begin + count; ++row) {
      std::transform(from, from + dim, out.data<float>() + row * dim,
                     [n = static_cast<float>(count)](float value) { return value / n; });
    }
  }
  return out;
}

}  // namespace qkv::inline models
