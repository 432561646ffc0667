// q, k and v of a call after they were checked: sizes, lengths, and where each head of each sequence lies.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/call/memory_count.h"
#include "attention/tile/attention_task.h"
#include "qkv/attention.h"

namespace qkv::inline attending {

inline constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;  // of queries and of keys
inline constexpr std::int64_t kMaxDim = 1024;  // of heads, values and the hidden layer of additive scores

class AttentionInputs {
 public:
  // std::invalid_argument, naming sizes, for whatever does not fit (see attention.h).
  AttentionInputs(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options);

  std::int64_t query_length(std::int64_t b) const;
  std::int64_t key_length(std::int64_t b) const;
  // Of the keys, those that the mask's lengths leave.
  std::int64_t visible_length(std::int64_t b) const;

  // Views that belong to the call, beside its inputs: checked and brought to the form [batch dimensions ..., heads,
  // rows, size], or without the size. `name` is what messages call them.
  TensorView query_rows(std::string_view name, const TensorView& view, std::int64_t size) const;
  TensorView key_rows(std::string_view name, const TensorView& view, std::int64_t size) const;
  TensorView query_scalars(std::string_view name, const TensorView& view) const;
  // The same of one number per key and query head.
  TensorView key_scalars(std::string_view name, const TensorView& view) const;
  // std::invalid_argument unless the view has the type of the accumulation.
  void require_accumulation(std::string_view name, const TensorView& view) const;

  // Address of the first row, of such a view, of sequence b and its query or key/value head.
  const std::byte* query_address(const TensorView& view, std::int64_t b, std::int64_t h) const;
  const std::byte* key_address(const TensorView& view, std::int64_t b, std::int64_t kv_head) const;
  // All of its rows.
  Rows rows_of_queries(const TensorView& view, std::int64_t b, std::int64_t h) const;
  Rows rows_of_keys(const TensorView& view, std::int64_t b, std::int64_t kv_head) const;

  // What was made of the arguments so far.
  const MemoryCount& memory() const { return memory_; }

  // Batch dimensions that masks and biases broadcast to.
  Dims mask_batch() const { return packed ? Dims{batch} : batch_shape_; }
  // Shape of batch, heads and queries, in the form above.
  Dims query_shape() const;

  Dtype storage = Dtype::f32;       // of q, k and v
  Dtype accumulation = Dtype::f32;  // f64 for f64
  bool packed = false;              // queries; and keys, unless these are paged
  bool paged = false;
  std::int64_t batch = 1, heads = 1, kv_heads = 1;
  std::int64_t q_len = 0, k_len = 0;  // packed or paged: of the longest sequence
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;
  int threads = 1;  // as many as were asked for, or the default

 protected:
  // Rows of head h of sequence b, and how many.
  void set_rows(AttentionTask& task, std::int64_t b, std::int64_t h) const;

  MemoryCount memory_;

 private:
  void check_lengths(const Mask& mask);
  Dims key_shape(std::int64_t of_heads) const;
  TensorView brought_to(std::string_view name, const TensorView& view, const Dims& shape) const;

  TensorView q_, k_, v_;  // [batch dimensions ..., heads, rows, size]; pages instead of the batch
  Tensor block_table_;    // paged; a copy: the caller's memory may change after it was checked
  std::vector<std::int64_t> offsets_query_, offsets_key_;  // packed form
  std::vector<std::int64_t> lengths_;                      // of the mask, per sequence; empty: all keys
  Dims batch_shape_;
};

// Writable elements behind a view that was brought to another form.
inline std::byte* writable(const std::byte* address) { return const_cast<std::byte*>(address); }

}  // namespace qkv::inline attending
