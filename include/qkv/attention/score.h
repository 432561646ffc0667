/// \file
/// How a query and a key become one number. The logits are scale * score.
#pragma once

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

class QKV_API Score {
 public:
  enum class Kind { scaled_dot, dot, additive, concat, bilinear };

  /// q . k with the default scale 1/sqrt(head_dim). Source: Vaswani et al., "Attention is all you need" (2017).
  static Score scaled_dot() { return Score(Kind::scaled_dot); }
  /// q . k with the default scale 1.
  static Score dot() { return Score(Kind::dot); }
  /// v . tanh(w_query q + w_key k): w_query [hidden, query size], w_key [hidden, key size], v [hidden]. Default
  /// scale 1. Source: Bahdanau et al., "Neural machine translation by jointly learning to align and translate" (2014).
  static Score additive(TensorView w_query, TensorView w_key, TensorView v);
  /// v . tanh(w [q; k]): w [hidden, query size + key size], v [hidden]. Default scale 1.
  /// Source: Luong et al., "Effective approaches to attention-based neural machine translation" (2015), "concat".
  static Score concat(TensorView w, TensorView v);
  /// q^T w k: w [query size, key size]. Default scale 1. Source: Luong et al. (2015), "general".
  static Score bilinear(TensorView w);

  Kind kind() const { return kind_; }
  /// Parameters, all heads the same, in the type of the accumulation (f32, or f64 with f64 inputs). Borrowed.
  const TensorView& w_query() const { return w_query_; }  // additive; concat and bilinear: w
  const TensorView& w_key() const { return w_key_; }      // additive
  const TensorView& v() const { return v_; }              // additive, concat

 private:
  explicit Score(Kind kind) : kind_(kind) {}

  Kind kind_;
  TensorView w_query_;
  TensorView w_key_;
  TensorView v_;
};

/// Whether the score is q . k, which supports the most options.
inline bool is_dot_product(Score::Kind kind) { return kind == Score::Kind::dot || kind == Score::Kind::scaled_dot; }

}  // namespace qkv
