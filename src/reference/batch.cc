// Cuts a batch into sequences, all in f64.
#include "reference/batch.h"

#include <algorithm>
#include <utility>

#include "attention/options/mask_kinds.h"

namespace qkv::reference {
namespace {

std::vector<std::int64_t> integers(const TensorView& view) {
  const Tensor copy = convert(view, Dtype::i64);
  return {copy.data<std::int64_t>(), copy.data<std::int64_t>() + copy.element_count()};
}

// The longest sequence that the mask's lengths leave of `capacity` keys.
std::int64_t longest_of(const Mask& mask, std::int64_t capacity) {
  std::vector<std::int64_t> least;
  auto lengths = parts_of(mask, MaskKind::lengths);
  for (const Mask::Part& part : lengths) {
    const std::vector<std::int64_t> counts = integers(part.arrays[0]);
    if (least.empty()) least.assign(counts.size(), capacity);
    for (std::size_t b = 0; b < counts.size(); ++b) least[b] = std::min(least[b], counts[b]);
  }
  if (lengths.empty()) return capacity;
  return least.empty() ? 0 : *std::max_element(least.begin(), least.end());
}

}  // namespace

double dot(Vector a, Vector b) {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
  return sum;
}

void add(std::span<double> sum, double factor, Vector term) {
  for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += factor * term[c];
}

Tensor in_double(const TensorView& view) { return view ? convert(view, Dtype::f64) : Tensor(); }

Tensor filled(const Dims& shape, double value) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  std::fill_n(tensor.data<double>(), tensor.element_count(), value);
  return tensor;
}

Dims broadcast_index(const Dims& shape, const Dims& whole) {
  Dims index;
  for (int dim = 0; dim < shape.size(); ++dim) {
    index.push_back(shape[dim] == 1 ? 0 : whole[whole.size() - shape.size() + dim]);
  }
  return index;
}

Batch::Batch(const TensorView& query, const TensorView& key, const AttentionOptions& options)
    : align_(options.mask.align().value_or(Align::top_left)) {
  for (const Mask::Part& part : parts_of(options.mask, MaskKind::lengths)) lengths_.push_back(integers(part.arrays[0]));
  if (options.block_table) {
    block_table_ = convert(options.block_table, Dtype::i64);
    longest_key_length_ = longest_of(options.mask, block_table_->size(1) * key.size(1));
  }
  if (!options.offsets_query) {
    for (int i = 0; i < query.rank() - 3; ++i) size_ *= query.size(i);
    if (!options.block_table) longest_key_length_ = key.size(-2);
    return;
  }
  q_offsets_ = integers(options.offsets_query);
  size_ = static_cast<std::int64_t>(q_offsets_.size()) - 1;
  if (options.block_table) return;
  k_offsets_ = integers(options.offsets_key);
  for (std::size_t b = 1; b < k_offsets_.size(); ++b) {
    longest_key_length_ = std::max(longest_key_length_, k_offsets_[b] - k_offsets_[b - 1]);
  }
}

std::int64_t Batch::key_length(std::int64_t b, std::int64_t k_len) const {
  for (const std::vector<std::int64_t>& counts : lengths_) k_len = std::min(k_len, counts[static_cast<std::size_t>(b)]);
  return k_len;
}

std::int64_t Batch::offset(std::int64_t b, std::int64_t q_len, std::int64_t k_len) const {
  return align_ == Align::bottom_right ? key_length(b, k_len) - q_len : 0;
}

Tensor Batch::in_form(const TensorView& array) const {
  if (!q_offsets_.empty()) return in_double(array);
  const auto extent = [&](int from_end) { return from_end <= array.rank() ? array.size(-from_end) : 1; };
  return Tensor::copy(in_double(array).view().reshape({size_, extent(3), extent(2), extent(1)}));
}

Tensor Batch::keys_in_form(const TensorView& array) const {
  if (!block_table_) return in_form(array);
  const Tensor pages = in_double(array);  // [pages, rows, kv_heads, size]
  const std::int64_t rows = pages.size(1);
  Tensor keys = filled({size_, pages.size(2), longest_key_length_, pages.size(3)}, 0);
  for (std::int64_t b = 0; b < size_; ++b) {
    for (std::int64_t j = 0; j < longest_key_length_; ++j) {
      const std::int64_t page = std::as_const(*block_table_).view().at<std::int64_t>({b, j / rows});
      if (page < 0 || page >= pages.size(0)) continue;  // beyond the keys of this sequence
      convert(pages.view().select(0, page).select(0, j % rows), keys.view().select(0, b).select(1, j));
    }
  }
  return keys;
}

}  // namespace qkv::reference
