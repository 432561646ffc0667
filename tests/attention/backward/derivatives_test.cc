// The passes of derivatives: how they agree with each other, their bits, what masks hide, and what may be left out.
#include <numeric>
#include <stop_token>

#include "attention/tangent/attention_tangents_testing.h"
#include "jacobian.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using testing::Derivatives;
using testing::differentiate;
using testing::dot;
using testing::double_backward;
using testing::expect_zeros;
using testing::filled;
using testing::kInfinity;
using testing::kNan;
using testing::MovingArrays;
using testing::put;

QKV_ON_EACH_TARGET(AttentionDerivatives);

// <grad_out, tangent of out> = <gradients, tangents>; second derivatives along x, seen from y, are those along y, seen
// from x.
TEST_P(AttentionDerivatives, OfOnePassAreThoseOfTheOthers) {
  const auto along = [](const auto& gradients, const MovingArrays& a) {
    return dot(gradients.query, a.tq) + dot(gradients.key, a.tk) + dot(gradients.value, a.tv);
  };
  // Sums of 13,440 and 161,600 terms near 1, which cancel to a few hundred.
  const auto expect_near = [](double x, double y) { EXPECT_NEAR(x, y, 1e-10 * std::max(1.0, std::abs(y))); };
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(40, 3, Align::bottom_right)}) {
    const MovingArrays a({2, 4, 70, 16}, {2, 2, 1100, 16}, 24, Dtype::f64);
    const Derivatives all = differentiate(a, {.mask = mask});
    expect_near(dot(a.grad_out, all.moved.out), along(all.first, a));
    MovingArrays other = a;
    Random random(5);
    for (Tensor* x : {&other.tq, &other.tk, &other.tv}) *x = testing::normal(random, x->shape(), Dtype::f64);
    expect_near(along(double_backward(other, {.mask = mask}), a), along(all.second, other));
    EXPECT_GT(std::abs(along(all.second, other)), 0.1);
  }
}

// Three chunks of keys, so that threads add to the same queries in turn.
TEST_P(AttentionDerivatives, AnyNumberOfThreads) {
  for (const auto& [dtype, mask] : {std::pair(Dtype::f32, Mask()), {Dtype::f64, Mask::causal(Align::bottom_right)}}) {
    const MovingArrays a({1, 2, 70, 16}, {1, 1, 2100, 16}, 8, dtype);
    const Derivatives one = differentiate(a, {.mask = mask, .threads = 1});
    for (const int threads : {2, 3, 16}) {
      SCOPED_TRACE(threads);
      testing::expect_same(one, differentiate(a, {.mask = mask, .threads = threads}));
    }
  }
}

// The tangents of each query alone, cropped or in a batch.
TEST_P(AttentionDerivatives, ARowDoesNotDependOnItsNeighbours) {
  const MovingArrays all({2, 70, 16}, {2, 150, 16}, 8);
  const Tensor lengths = Tensor::of<std::int32_t>({2}, {150, 97});
  MovingArrays batch = all, second = all;
  for (Tensor* x : {&batch.q, &batch.k, &batch.v, &batch.tq, &batch.tk, &batch.tv}) {
    *x = Tensor::copy(x->view().reshape({2, 1, x->size(1), x->size(2)}));
  }
  const auto crop = [](Tensor& x, std::int64_t begin, std::int64_t end) {
    x = Tensor::copy(x.view().slice(0, 1, 2).slice(1, begin, end));
  };
  for (Tensor* x : {&second.k, &second.v, &second.tk, &second.tv}) crop(*x, 0, 97);
  for (Tensor* x : {&second.q, &second.tq}) crop(*x, 5, 69);
  const testing::Moved whole = testing::jvp(batch, {.mask = Mask::causal() & Mask::lengths(lengths)});
  const testing::Moved part = testing::jvp(second, {.mask = Mask::window(1000, 5)});
  EXPECT_TRUE(testing::same_bits(part.out, whole.out.view().select(0, 1).slice(1, 5, 69)));
}

// Keys 0, 70 and 139 are hidden from everybody, keys 3 and 90 from every second query; query 11 sees nothing, or a
// sink.
TEST_P(AttentionDerivatives, HiddenKeysAndRowsWithoutKeys) {
  const Tensor sinks = Tensor::of<float>({2}, {0.5f, -2});
  Tensor visible = filled({30, 140}, 1, Dtype::u8);
  for (std::int64_t i = 0; i < 30; ++i) {
    for (std::int64_t j = 0; j < 140; ++j) {
      const bool is_hidden = i == 11 || j % 70 == 0 || j == 139 || (i % 2 == 0 && (j == 3 || j == 90));
      if (is_hidden) visible.view().at<std::uint8_t>({i, j}) = 0;
    }
  }
  const Mask mask = Mask::boolean(visible);
  for (const AttentionOptions& options : {AttentionOptions{.mask = mask}, {.mask = mask, .sinks = sinks}}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const MovingArrays clean({2, 30, 16}, {1, 140, 16}, 24, dtype);
      const Derivatives wanted = differentiate(clean, options);
      const auto& [first, moved, second] = wanted;
      for (const Tensor* x : {&first.query, &moved.out, &moved.log_sum_exp, &second.query, &second.grad_out}) {
        expect_zeros(x->view().select(1, 11));
      }
      for (const std::int64_t j : {0, 70, 139}) {
        for (const Tensor* x : {&first.key, &first.value, &second.key, &second.value}) {
          expect_zeros(x->view().select(1, j));
        }
      }
      for (const double poison : {kNan, kInfinity}) {
        MovingArrays poisoned = clean;
        for (const std::int64_t j : {0, 70, 139}) {
          for (Tensor* x : {&poisoned.k, &poisoned.tk, &poisoned.v, &poisoned.tv}) put(*x, {0, j, 5}, poison);
        }
        put(poisoned.q, {1, 11, 3}, poison);
        put(poisoned.tq, {0, 11, 3}, poison);
        put(poisoned.grad_out, {0, 11, 3}, poison);
        testing::expect_same(wanted, differentiate(poisoned, options));
      }
      // NaN that half of the queries see reaches these.
      for (Tensor MovingArrays::* x : {&MovingArrays::tk, &MovingArrays::tv}) {
        MovingArrays seen = clean;
        put(seen.*x, {0, 3, 2}, kNan);
        const Derivatives got = differentiate(seen, options);
        for (std::int64_t i = 0; i < 30; ++i) {
          for (const Tensor* y : {&got.moved.out, &got.second.query}) {
            const std::vector<double> row = testing::values(y->view().select(0, 1).select(0, i));
            const double sum = std::accumulate(row.begin(), row.end(), 0.0);
            ASSERT_EQ(std::isnan(sum), i % 2 == 1 && i != 11) << "query " << i;
          }
        }
      }
    }
  }
}

// NaN and infinities of a query and of its tangent reach no key that it does not see, with a sink or without.
TEST_P(AttentionDerivatives, KeysThatAQueryDoesNotSeeAreClean) {
  const Tensor sinks = Tensor::of<float>({2}, {0.5f, -2});
  const Mask mask = Mask::causal();
  const auto unseen = [](const Tensor& x) { return Tensor::copy(x.view().slice(1, 10, 140)); };
  for (const AttentionOptions& options : {AttentionOptions{.mask = mask}, {.mask = mask, .sinks = sinks}}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const MovingArrays clean({2, 30, 16}, {1, 140, 16}, 24, dtype);
      const testing::SecondGradients wanted = double_backward(clean, options);
      for (const double poison : {kNan, kInfinity, -kInfinity}) {
        for (Tensor MovingArrays::* x : {&MovingArrays::q, &MovingArrays::tq, &MovingArrays::grad_out}) {
          MovingArrays poisoned = clean;
          put(poisoned.*x, {1, 9, 0}, poison);
          const testing::SecondGradients got = double_backward(poisoned, options);
          EXPECT_TRUE(testing::same_bits(unseen(got.key), unseen(wanted.key)));
          EXPECT_TRUE(testing::same_bits(unseen(got.value), unseen(wanted.value)));
          EXPECT_FALSE(std::isfinite(testing::values(got.key)[0])) << "what it sees is not";
        }
      }
    }
  }
}

// The sink has all of the weight; 1e30 is far above what a log-sum-exp of this size can tell.
TEST_P(AttentionDerivatives, RowsOfALargeSinkAloneDoNotMove) {
  const Tensor sinks = Tensor::of<double>({4}, {-1e30, 1e30, -1e4, 1e4});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const std::int64_t k_len : {0, 5}) {
      const MovingArrays a({2, 4, 3, 8}, {2, 4, k_len, 8}, 6, dtype);
      const Tensor hidden = Tensor::zeros({1, 1, 1, k_len}, Dtype::boolean);
      const testing::Moved moved = testing::jvp(a, {.mask = Mask::boolean(hidden), .sinks = sinks});
      expect_zeros(moved.out);
      expect_zeros(moved.log_sum_exp);
    }
  }
}

// The passes over these arrays, after the forward pass, with some of the outputs.
struct Passes {
  void backward(const AttentionGradients& wish) const {
    attention_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, options, wish);
  }
  void jvp(const AttentionTangents& tangents, const AttentionOutputTangents& wish) const {
    attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, tangents, options, wish);
  }
  void double_backward(const AttentionTangents& tangents, const AttentionSecondGradients& wish) const {
    attention_double_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, tangents, options, wish);
  }
  const MovingArrays& a;
  AttentionOptions options{};
  testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
};

TEST_P(AttentionDerivatives, EachAloneHasTheBitsOfAllTogether) {
  const MovingArrays a({2, 70, 16}, {1, 1100, 16}, 8);
  const Derivatives all = differentiate(a);
  Derivatives alone = all;
  auto& [first, moved, second] = alone;
  for (Tensor* x : {&first.query, &first.key, &first.value, &moved.out, &moved.log_sum_exp, &second.query, &second.key,
                    &second.value, &second.grad_out}) {
    *x = filled(x->shape(), 7);
  }
  const Passes passes{a, {.threads = 2}};
  passes.backward({.query = first.query});
  passes.backward({.key = first.key});
  passes.backward({.value = first.value});
  passes.backward({});
  passes.jvp(a.tangents(), {.out = moved.out});
  passes.jvp(a.tangents(), {.log_sum_exp = moved.log_sum_exp});
  passes.double_backward(a.tangents(), {.query = second.query});
  passes.double_backward(a.tangents(), {.key = second.key});
  passes.double_backward(a.tangents(), {.value = second.value});
  passes.double_backward(a.tangents(), {.grad_out = second.grad_out});
  passes.double_backward(a.tangents(), {});
  testing::expect_same(all, alone);
}

// Both passes are linear in the tangents.
TEST_P(AttentionDerivatives, WhatIsNotGivenIsZero) {
  const MovingArrays a({20, 8}, {33, 8}, 5, Dtype::f64);
  const Passes passes{a};
  const auto along = [&](const AttentionTangents& tangents) {
    Tensor out = filled({20, 5}, kNan, Dtype::f64), query = filled({20, 8}, kNan, Dtype::f64);
    Tensor key = filled({33, 8}, kNan, Dtype::f64);
    passes.jvp(tangents, {.out = out});
    passes.double_backward(tangents, {.query = query, .key = key});
    std::vector<double> all = testing::values(out);
    for (const Tensor* x : {&query, &key}) {
      const std::vector<double> more = testing::values(*x);
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  const std::vector<double> of_q = along({.query = a.tq}), of_k = along({.key = a.tk}), of_v = along({.value = a.tv});
  const std::vector<double> of_all = along(a.tangents());
  for (std::size_t i = 0; i < of_all.size(); ++i) ASSERT_NEAR(of_q[i] + of_k[i] + of_v[i], of_all[i], 1e-13) << i;
  for (const double number : along({})) ASSERT_EQ(number, 0);
}

TEST_P(AttentionDerivatives, EmptySizes) {
  for (const Dims& size : {Dims{0, 2, 3, 4}, Dims{1, 0, 3, 4}, Dims{1, 2, 0, 4}, Dims{1, 2, 3, 0}}) {
    SCOPED_TRACE(to_string(size));  // [batch, heads, q_len, k_len]
    const Dims query{size[0], size[1], size[2], 8}, key{size[0], 1, size[3], 8};
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const auto& [first, moved, second] = differentiate({query, key, 8, dtype});
      for (const Tensor* x : {&first.query, &first.key, &first.value, &moved.out, &second.query, &second.key,
                              &second.value, &second.grad_out}) {
        expect_zeros(*x);
      }
    }
    const Tensor q = filled(query, 1, Dtype::bf16), k = filled(key, 1, Dtype::bf16);
    const testing::Gradients halves = testing::backward(q, k, k, q);
    for (const Tensor* x : {&halves.query, &halves.key, &halves.value}) expect_zeros(*x);
  }
}

TEST_P(AttentionDerivatives, StopToken) {
  const MovingArrays a({2, 300, 8}, {1, 60, 8}, 3);
  std::stop_source source;
  const Passes passes{a, {.threads = 3, .stop = source.get_token()}};
  Derivatives got = differentiate(a);
  const Tensor wanted = got.first.query;
  passes.backward({.query = got.first.query});  // a token that asks for nothing changes nothing
  EXPECT_TRUE(testing::same_bits(got.first.query, wanted));
  source.request_stop();
  EXPECT_THROW(passes.backward({.query = got.first.query}), Stopped);
  EXPECT_THROW(passes.jvp(a.tangents(), {.out = got.moved.out}), Stopped);
  EXPECT_THROW(passes.double_backward(a.tangents(), {.query = got.second.query}), Stopped);
}

}  // namespace
}  // namespace qkv
