// What the tests of attention_jvp() and attention_double_backward() share.
#pragma once

#include "attention/backward/attention_backward_testing.h"
#include "attention/plain_float.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::testing {

inline Dims with_last(Dims shape, std::int64_t size) {
  shape[shape.size() - 1] = size;
  return shape;
}

// Inputs, their tangents and a gradient of the output.
struct MovingArrays {
  MovingArrays(Random& random, const TensorView& query, const TensorView& key, const TensorView& value)
      : q(Tensor::copy(query)),
        k(Tensor::copy(key)),
        v(Tensor::copy(value)),
        tq(normal(random, q.shape(), q.dtype())),
        tk(normal(random, k.shape(), q.dtype())),
        tv(normal(random, v.shape(), q.dtype())),
        grad_out(normal(random, with_last(q.shape(), v.size(-1)), q.dtype())) {}
  // Seeded; queries of this spread.
  MovingArrays(const Dims& query, const Dims& key, std::int64_t value_dim, Dtype dtype = Dtype::f32, double spread = 1)
      : MovingArrays(Random(1), query, key, value_dim, dtype, spread) {}

  AttentionTangents tangents() const { return {.query = tq, .key = tk, .value = tv}; }

  Tensor q, k, v, tq, tk, tv, grad_out;

 private:
  MovingArrays(Random random, const Dims& query, const Dims& key, std::int64_t value_dim, Dtype dtype, double spread)
      : MovingArrays(random, normal(random, query, dtype, spread), normal(random, key, dtype),
                     normal(random, with_last(key, value_dim), dtype)) {}
};

struct Moved {
  Tensor out, log_sum_exp;
};

// The tangents of the outputs, in tensors that held NaN.
inline Moved jvp(const MovingArrays& a, const AttentionOptions& options = {}) {
  const Forward kept = forward(a.q, a.k, a.v, options);
  Moved moved{filled(kept.out.shape(), kNan, a.q.dtype()), filled(kept.log_sum_exp.shape(), kNan, a.q.dtype())};
  attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.tangents(), options,
                {.out = moved.out, .log_sum_exp = moved.log_sum_exp});
  return moved;
}

struct SecondGradients {
  Tensor query, key, value, grad_out;
};

// In tensors that held NaN.
inline SecondGradients double_backward(const MovingArrays& a, const AttentionOptions& options = {}) {
  const Forward kept = forward(a.q, a.k, a.v, options);
  const auto place = [&](const Tensor& like) { return filled(like.shape(), kNan, like.dtype()); };
  SecondGradients second{place(a.q), place(a.k), place(a.v), place(a.grad_out)};
  attention_double_backward(
      a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, a.tangents(), options,
      {.query = second.query, .key = second.key, .value = second.value, .grad_out = second.grad_out});
  return second;
}

// All of these, and the gradients.
struct Derivatives {
  Gradients first;
  Moved moved;
  SecondGradients second;
};

inline Derivatives differentiate(const MovingArrays& a, const AttentionOptions& options = {}) {
  return {backward(a.q, a.k, a.v, a.grad_out, options), jvp(a, options), double_backward(a, options)};
}

}  // namespace qkv::testing
