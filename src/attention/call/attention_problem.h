// A call of attention() after every argument was checked: sizes, and where each head of each sequence lies.
// Forward and backward begin here.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "attention/call/attention_rules.h"
#include "attention/call/memory_count.h"
#include "attention/tile/attention_task.h"
#include "qkv/attention.h"

namespace qkv {

inline constexpr std::int64_t kMaxLength = std::int64_t{1} << 30;  // of queries and of keys

class AttentionProblem {
 public:
  // std::invalid_argument, naming sizes, for whatever does not fit (see attention.h).
  AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options);

  // What boolean masks hide of whole blocks, where that is not known and is of use: one query alone reads a row of
  // bytes. Stopped if the stop token asks for it.
  void compile_mask(int threads) { rules_.compile_booleans(*this, threads, stop_); }

  // Where the forward pass writes. std::invalid_argument as above.
  void set_outputs(const MutableTensorView& out, const AttentionExtras& extras);

  // A log-sum-exp of its own, where rows without keys are looked for and none was asked for. After the memory that this
  // takes was compared with the limit.
  void complete_outputs();

  // Head h of sequence b, with the outputs that were set.
  AttentionTask task(std::int64_t b, std::int64_t h) const;

  // Whether heads of a group differ in their queries alone, and each query gives an output and its log-sum-exp only.
  bool may_fold_heads() const;

  std::int64_t query_length(std::int64_t b) const;
  std::int64_t key_length(std::int64_t b) const;

  // Views that belong to the call, beside its inputs: checked and brought to the form [batch dimensions ..., heads,
  // rows, size], or without the size. `name` stands in messages.
  TensorView query_rows(std::string_view name, const TensorView& view, std::int64_t size) const;
  TensorView key_rows(std::string_view name, const TensorView& view, std::int64_t size) const;
  TensorView query_scalars(std::string_view name, const TensorView& view) const;
  // Address of the first row, of such a view, of sequence b and its query or key/value head.
  const std::byte* query_address(const TensorView& view, std::int64_t b, std::int64_t h) const;
  const std::byte* key_address(const TensorView& view, std::int64_t b, std::int64_t kv_head) const;
  // All of its rows.
  Rows rows_of_queries(const TensorView& view, std::int64_t b, std::int64_t h) const;
  Rows rows_of_keys(const TensorView& view, std::int64_t b, std::int64_t kv_head) const;

  // What was made of the arguments, and what compile_mask() will make.
  const MemoryCount& memory() const { return memory_; }

  // Batch dimensions that masks and biases broadcast to.
  Dims mask_batch() const { return packed ? Dims{batch} : batch_shape_; }

  Dtype storage = Dtype::f32;              // of q, k and v
  Dtype accumulation = Dtype::f32;         // f64 for f64
  Precision precision = Precision::exact;  // of prefill: what was asked for, if there is a kernel for it
  bool packed = false;                     // queries; and keys, unless these are paged
  bool paged = false;
  EmptyRows empty_rows = EmptyRows::zero;
  std::int64_t batch = 1, heads = 1, kv_heads = 1;
  std::int64_t q_len = 0, k_len = 0;  // packed or paged: of the longest sequence
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;

 private:
  void set_pages(const TensorView& k, const TensorView& v, const TensorView& block_table);
  void check_pages() const;
  void check_lengths(const Mask& mask);
  void check_score(const Score& score);
  void set_statistics(const AttentionExtras& extras);
  void set_places_of(AttentionTask& task, std::int64_t b, std::int64_t h) const;
  void require_accumulation(std::string_view name, const TensorView& view) const;
  void check_rows(const TensorView& rows, const TensorView& row_weights) const;
  // Shape of batch, heads and queries, or of batch and key/value heads and keys, in the form above.
  Dims query_shape() const;
  Dims key_shape() const;
  TensorView brought_to(std::string_view name, const TensorView& view, const Dims& shape) const;

  TensorView q_, k_, v_;    // [batch dimensions ..., heads, rows, size]; pages instead of the batch
  TensorView block_table_;  // paged
  MutableTensorView out_, log_sum_exp_, weights_, logits_;
  Tensor own_log_sum_exp_;
  MutableTensorView row_maximum_, entropy_, top_keys_, top_weights_, received_, block_weights_;
  std::vector<std::int64_t> offsets_query_, offsets_key_;  // packed form
  std::vector<std::int64_t> lengths_;                      // of the mask, per sequence; empty: all keys
  Dims batch_shape_;
  double scale_ = 1, soft_cap_ = 0;
  Score score_;
  DropoutRule dropout_;
  std::stop_token stop_;
  MemoryCount memory_;
  AttentionRules rules_;
};

// The threads that were asked for, or the default: of every pass.
int threads_of(const AttentionOptions& options);

// Writable elements behind a view that was brought to another form.
inline std::byte* writable(const std::byte* address) { return const_cast<std::byte*>(address); }

}  // namespace qkv
