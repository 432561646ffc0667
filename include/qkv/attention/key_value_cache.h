/// \file
/// The keys and values of a batch of sequences so far, for attention with new queries.
///
///     KeyValueCache cache({.batch = 2, .kv_heads = 8, .head_dim = 64});
///     cache.append(k, v);                                                        // [batch, kv_heads, new, size]
///     attention(q, cache, out, {.mask = Mask::causal(Align::bottom_right)});     // q [batch, heads, new, head_dim]
///     cache.reorder(std::vector<std::int64_t>{1, 1});                            // both continue sequence 1
///
/// Rows lie in pages of page_rows tokens, which sequences may share: an append writes only its own rows (and copies the
/// other rows of a last page that is shared), reordering copies only table entries, and unused pages are
/// reused. Storage doubles when it is full. Not for use by several threads at once while it changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention.h"

namespace qkv {

struct KeyValueCacheConfig {
  std::int64_t batch = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 0;  ///< 0: head_dim
  Dtype dtype = Dtype::f32;    ///< rows are stored in this type: f32, f64, bf16 or f16
  std::int64_t page_rows = 16;
};

class QKV_API KeyValueCache {
 public:
  explicit KeyValueCache(const KeyValueCacheConfig& config);  ///< std::invalid_argument

  std::int64_t batch() const { return static_cast<std::int64_t>(lengths_.size()); }
  /// Cached keys of sequence b.
  std::int64_t length(std::int64_t b) const { return lengths_.at(static_cast<std::size_t>(b)); }

  /// Appends rows k [batch, kv_heads, new, head_dim] and v [batch, kv_heads, new, value_dim], of any floating type and
  /// strides; the same number for each sequence. std::invalid_argument, with nothing appended, for another shape.
  void append(const TensorView& k, const TensorView& v);
  /// Packed: k [tokens, kv_heads, head_dim], v alike; sequence b gets the rows offsets[b] <= row < offsets[b + 1].
  void append(const TensorView& k, const TensorView& v, const TensorView& offsets);

  /// Sequence b continues the former sequence parents[b]; afterwards there are as many sequences as parents.
  void reorder(std::span<const std::int64_t> parents);
  /// The same for its first lengths[b] tokens. A parent of -1, with length 0: sequence b is empty.
  void reorder(std::span<const std::int64_t> parents, std::span<const std::int64_t> lengths);

  /// Frees the pages of sequence b that hold only tokens before `first`, for reuse: from now on the mask of each call
  /// must hide keys before first_kept(b), for example by Mask::window(). This is not checked.
  void drop_before(std::int64_t b, std::int64_t first);
  /// The first token of sequence b whose page is still there.
  std::int64_t first_kept(std::int64_t b) const { return dropped_.at(static_cast<std::size_t>(b)) * config_.page_rows; }

  /// The inputs of attention(): pages [pages, page_rows, kv_heads, size], and for each sequence its blocks and its
  /// length. Valid until the next change.
  TensorView keys() const { return pages_of(keys_); }
  TensorView values() const { return pages_of(values_); }
  TensorView block_table() const;  ///< i32 [batch, blocks]
  TensorView lengths() const;      ///< i32 [batch]

 private:
  static TensorView pages_of(const Tensor& storage) { return storage.view().transpose(1, 2); }
  std::int32_t& block(std::int64_t b, std::int64_t i) { return table_[static_cast<std::size_t>(b * blocks_ + i)]; }
  void check_rows(const TensorView& k, const TensorView& v, int rank) const;
  void append_rows(std::int64_t b, const TensorView& k, const TensorView& v);
  void make_own(std::int64_t b, std::int64_t i);
  std::int32_t take_page();
  void drop_page(std::int32_t page);
  void drop_blocks(std::int64_t b, std::int64_t end);

  KeyValueCacheConfig config_;
  Tensor keys_, values_;             ///< [pages, kv_heads, page_rows, size]
  std::vector<std::int32_t> uses_;   ///< of each page, by how many sequences
  std::vector<std::int32_t> free_;   ///< pages of no sequence
  std::int64_t blocks_ = 1;          ///< columns of the table
  std::vector<std::int32_t> table_;  ///< [batch, blocks_]
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> dropped_;  ///< of each sequence its first blocks, which have no page
};

/// attention() over the whole cache, including the keys of q's own tokens. Query i of a sequence has position length -
/// q_len + i, which is the number of keys cached before them plus i; a mask that names top_left is refused. q is
/// padded, [batch, heads, q_len, head_dim], or packed with offsets_query.
QKV_API void attention(const TensorView& q, const KeyValueCache& cache, const MutableTensorView& out,
                       AttentionOptions options = {}, const AttentionExtras& extras = {});

/// The same for packed queries (offsets_query), each computed alone, as if later tokens were not cached yet: the bits
/// of one query after the other. `extras` see each query as a sequence of its own.
QKV_API void attention_singly(const TensorView& q, const KeyValueCache& cache, const MutableTensorView& out,
                              AttentionOptions options, const AttentionExtras& extras = {});

}  // namespace qkv
