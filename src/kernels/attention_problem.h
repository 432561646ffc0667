// A call of attention() after every argument was checked: sizes, and where each head of each sequence lies.
// Forward and backward begin here.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_task.h"
#include "qkv/attention.h"

namespace qkv {

struct AttentionProblem {
  // std::invalid_argument, naming sizes, for whatever does not fit (see attention.h).
  AttentionProblem(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
                   const AttentionOptions& options, const AttentionExtras& extras);

  // Head h of sequence b, extras included.
  AttentionTask task(std::int64_t b, std::int64_t h) const;

  std::int64_t query_length(std::int64_t b) const;
  std::int64_t key_length(std::int64_t b) const;

  Dtype storage = Dtype::f32;       // of q, k and v
  Dtype accumulation = Dtype::f32;  // f64 for f64
  bool packed = false;
  std::int64_t batch = 1, heads = 1, kv_heads = 1;
  std::int64_t q_len = 0, k_len = 0;  // packed: of the longest sequence
  std::int64_t query_dim = 0, key_dim = 0, value_dim = 0;

 private:
  void check_mask(const Mask& mask);
  void check_bias(const Bias& bias);
  void check_score(const Score& score);
  void check_extras(const AttentionExtras& extras);

  // Views with one batch dimension's worth of addressing left to do: [batch dimensions ..., heads, length, size].
  TensorView q_, k_, v_;
  MutableTensorView out_, log_sum_exp_, weights_, logits_;
  std::vector<std::int64_t> offsets_query_, offsets_key_;  // packed form
  Dims batch_shape_;
  double scale_ = 1, soft_cap_ = 0;
  Score score_;
  Align align_ = Align::top_left;
  std::int64_t left_ = 0, right_ = 0;
  std::vector<std::int64_t> lengths_;          // per sequence; empty: all keys
  std::vector<TensorView> booleans_, biases_;  // [batch dimensions ..., heads, q_len, k_len]
  std::vector<TensorView> alibi_;              // [batch dimensions ..., heads]
};

}  // namespace qkv
