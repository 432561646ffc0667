#include "reference/batch.h"

#include <algorithm>

namespace qkv::reference {
namespace {

std::vector<std::int64_t> integers(const TensorView& view) {
  const Tensor copy = convert(view, Dtype::i64);
  return {copy.data<std::int64_t>(), copy.data<std::int64_t>() + copy.element_count()};
}

}  // namespace

double dot(Vector a, Vector b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

Tensor in_double(const TensorView& view) { return view ? convert(view, Dtype::f64) : Tensor(); }

Tensor filled(const Dims& shape, double value) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  std::fill_n(tensor.data<double>(), tensor.element_count(), value);
  return tensor;
}

Batch::Batch(const TensorView& query, const TensorView& key, const AttentionOptions& options) {
  if (!options.offsets_query) {
    for (int i = 0; i < query.rank() - 3; ++i) size_ *= query.size(i);
    longest_key_length_ = key.size(-2);
    return;
  }
  q_offsets_ = integers(options.offsets_query);
  k_offsets_ = integers(options.offsets_key);
  size_ = static_cast<std::int64_t>(q_offsets_.size()) - 1;
  for (std::size_t b = 1; b < k_offsets_.size(); ++b) {
    longest_key_length_ = std::max(longest_key_length_, k_offsets_[b] - k_offsets_[b - 1]);
  }
}

Tensor Batch::in_form(const TensorView& array) const {
  if (!q_offsets_.empty()) return in_double(array);
  const auto extent = [&](int from_end) { return from_end <= array.rank() ? array.size(-from_end) : 1; };
  return Tensor::copy(in_double(array).view().reshape({size_, extent(3), extent(2), extent(1)}));
}

}  // namespace qkv::reference
