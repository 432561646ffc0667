// What the specifications of forward and backward share: a batch cut into sequences, all in f64, and its rows.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "qkv/attention.h"

namespace qkv::reference {

using Vector = std::span<const double>;

double dot(Vector a, Vector b);
// sum += factor * term
void add(std::span<double> sum, double factor, Vector term);

// A copy in f64; of a view that was not given, nothing.
Tensor in_double(const TensorView& view);

Tensor filled(const Dims& shape, double value);

// The index, in an array of this shape that broadcasts, of what stands at `whole`: extents of 1 and missing leading
// dimensions repeat.
Dims broadcast_index(const Dims& shape, const Dims& whole);

// Row `index` of a matrix [rows, size], to read or to write.
template <class View>
auto row(const View& matrix, std::int64_t index) {
  const auto size = static_cast<std::size_t>(matrix.size(1));
  return std::span(matrix.template data<double>() + (size == 0 ? 0 : matrix.offset_of({index, 0})), size);
}

// The same of one head's matrix, of [heads, rows, size].
template <class View>
auto row(const View& matrices, std::int64_t head, std::int64_t index) {
  const auto size = static_cast<std::size_t>(matrices.size(2));
  return std::span(matrices.template data<double>() + (size == 0 ? 0 : matrices.offset_of({head, index, 0})), size);
}

// Which rows belong to which sequence. Arrays are of one form: padded [batch, heads, length, ...] or packed
// [tokens, heads, ...].
class Batch {
 public:
  Batch(const TensorView& query, const TensorView& key, const AttentionOptions& options);

  // An array of q, or of its results, in f64, in the form above.
  Tensor in_form(const TensorView& array) const;
  // The same for k or v; paged ones become padded.
  Tensor keys_in_form(const TensorView& array) const;

  std::int64_t size() const { return size_; }
  // How many query or key rows of a packed batch precede sequence b.
  std::int64_t query_start(std::int64_t b) const {
    return q_offsets_.empty() ? 0 : q_offsets_[static_cast<std::size_t>(b)];
  }
  std::int64_t key_start(std::int64_t b) const {
    return k_offsets_.empty() ? 0 : k_offsets_[static_cast<std::size_t>(b)];
  }
  // Keys of sequence b, of `k_len`, that the mask's lengths leave.
  std::int64_t key_length(std::int64_t b, std::int64_t k_len) const;
  // What query i of sequence b adds to its index to stand among the keys.
  std::int64_t offset(std::int64_t b, std::int64_t q_len, std::int64_t k_len) const;
  std::int64_t longest_key_length() const { return longest_key_length_; }

  // Rows of sequence b, [heads, length, ...], of an array with one row for each query or for each key.
  template <class View>
  View queries(const View& array, std::int64_t b) const {
    return rows(array, q_offsets_, b);
  }
  template <class View>
  View keys(const View& array, std::int64_t b) const {
    const View all = rows(array, k_offsets_, b);
    return block_table_ ? all.slice(1, 0, key_length(b, all.size(1))) : all;  // pages hold no more keys than that
  }

 private:
  template <class View>
  static View rows(const View& array, const std::vector<std::int64_t>& offsets, std::int64_t b) {
    if (offsets.empty()) return array.select(0, b);
    const auto at = static_cast<std::size_t>(b);
    return array.slice(0, offsets[at], offsets[at + 1]).transpose(0, 1);
  }

  std::vector<std::int64_t> q_offsets_, k_offsets_;  // empty: padded form
  std::vector<std::vector<std::int64_t>> lengths_;   // of the mask
  Align align_;
  std::optional<Tensor> block_table_;  // [batch, blocks] of paged keys
  std::int64_t size_ = 1, longest_key_length_ = 0;
};

}  // namespace qkv::reference
