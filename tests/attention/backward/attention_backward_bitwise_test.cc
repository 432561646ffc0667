// Gradients have the same bits for any number of threads, any other sequences in the batch, padded, cropped or packed,
// and any strides.
#include <algorithm>

#include "attention/backward/attention_backward_testing.h"
#include "qkv/threads.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::backward;
using testing::expect_same;
using testing::Gradients;
using testing::normal;

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

struct Arrays {
  Arrays(Dtype dtype, const Dims& query, const Dims& key, std::int64_t value_dim) {
    Random random(1);
    Dims value = key, out = query;
    value[value.size() - 1] = out[out.size() - 1] = value_dim;
    q = normal(random, query, dtype), k = normal(random, key, dtype);
    v = normal(random, value, dtype), grad_out = normal(random, out, dtype);
  }
  Gradients gradients(const AttentionOptions& options) const { return backward(q, k, v, grad_out, options); }
  Tensor q, k, v, grad_out;
};

QKV_ON_EACH_TARGET(AttentionBackwardBitwise);

// Five chunks of keys of one or two heads, so that threads add to the same queries in turn.
TEST_P(AttentionBackwardBitwise, AnyNumberOfThreads) {
  for (const Dtype dtype : kFloating) {
    const Arrays arrays(dtype, {1, 2, 130, 16}, {1, 1, 4200, 16}, 8);
    for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right), Mask::window(1500, 0, Align::bottom_right)}) {
      const Gradients one = arrays.gradients({.mask = mask, .threads = 1});
      for (const int threads : {2, 3, 4, 7, 16}) {
        SCOPED_TRACE(threads);
        expect_same(one, arrays.gradients({.mask = mask, .threads = threads}));
      }
    }
  }
}

// Shares of tables, slopes and sinks are added in one order, too.
TEST_P(AttentionBackwardBitwise, ParametersForAnyNumberOfThreads) {
  Random random(3);
  const Tensor t5 = normal(random, {32, 2}), clipped = normal(random, {9, 2}),
               slopes = normal(random, {2}, Dtype::f32, 0.01);
  const Tensor sinks = normal(random, {2});
  const Arrays arrays(Dtype::f32, {2, 2, 100, 16}, {2, 1, 2100, 16}, 8);
  AttentionOptions options{
      .mask = Mask::causal(Align::bottom_right),
      .bias = Bias::table(RelativeTable::t5(t5)) + Bias::table(RelativeTable::clipped(clipped)) + Bias::alibi(slopes),
      .sinks = sinks};
  options.threads = 1;
  const Gradients one = arrays.gradients(options);
  for (const int threads : {2, 3, 4, 7, 16}) {
    options.threads = threads;
    expect_same(one, arrays.gradients(options));
  }
}

// A caller's pool that runs the tasks from the last to the first.
void reversed_runner(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = tasks - 1; index >= 0; --index) task(context, index, 0);
}

TEST_P(AttentionBackwardBitwise, AnyOrderOfTasks) {
  const Arrays arrays(Dtype::f32, {1, 2, 70, 16}, {1, 2, 3000, 16}, 8);
  const Gradients wanted = arrays.gradients({.threads = 2});
  set_parallel_runner(reversed_runner);
  const Gradients reversed = arrays.gradients({.threads = 2});
  set_parallel_runner(nullptr);
  expect_same(wanted, reversed);
}

std::vector<AttentionOptions> positional_options() {
  static const Tensor slopes = Tensor::of<float>({4}, {0.1f, 0.01f, 0.5f, 0});
  return {{},
          {.mask = Mask::causal(Align::top_left)},
          {.mask = Mask::causal(Align::bottom_right), .bias = Bias::alibi(slopes)},
          {.mask = Mask::window(40, 3, Align::bottom_right), .soft_cap = 3}};
}

TEST_P(AttentionBackwardBitwise, PackedEqualsEachSequenceAlone) {
  const std::vector<std::int32_t> q_rows = {0, 70, 71, 71, 73, 203}, k_rows = {0, 70, 110, 115, 115, 1265};
  const Tensor q_offsets = Tensor::of({6}, q_rows), k_offsets = Tensor::of({6}, k_rows);
  for (const Dtype dtype : kFloating) {
    const Arrays batch(dtype, {203, 4, 16}, {1265, 2, 16}, 24);
    for (AttentionOptions options : positional_options()) {
      AttentionOptions packed_options = options;
      packed_options.offsets_query = q_offsets;
      packed_options.offsets_key = k_offsets;
      const Gradients packed = batch.gradients(packed_options);
      if (dtype == Dtype::f32 && !options.bias.empty()) {  // bits that agree may all be wrong
        const reference::AttentionGradients exact =
            reference::attention_backward(batch.q, batch.k, batch.v, batch.grad_out, packed_options);
        EXPECT_LE(testing::difference(packed.query, exact.query), 1e-5);
        EXPECT_LE(testing::difference(packed.key, exact.key), 1e-5);
        EXPECT_LE(testing::difference(packed.value, exact.value), 1e-5);
        EXPECT_LE(testing::difference(packed.alibi_slopes[0], exact.alibi_slopes[0]), 1e-3);
      }
      for (std::size_t b = 0; b < 5; ++b) {
        SCOPED_TRACE(b);
        const auto queries = [&](const Tensor& all) {
          return all.view().slice(0, q_rows[b], q_rows[b + 1]).transpose(0, 1);
        };
        const auto keys = [&](const Tensor& all) {
          return all.view().slice(0, k_rows[b], k_rows[b + 1]).transpose(0, 1);
        };
        const Gradients alone =
            backward(queries(batch.q), keys(batch.k), keys(batch.v), queries(batch.grad_out), options);
        EXPECT_TRUE(testing::same_bits(queries(packed.query), alone.query));
        EXPECT_TRUE(testing::same_bits(keys(packed.key), alone.key));
        EXPECT_TRUE(testing::same_bits(keys(packed.value), alone.value));
      }
    }
  }
}

TEST_P(AttentionBackwardBitwise, PaddedEqualsCropped) {
  const std::vector<std::int32_t> counts = {1140, 1, 0, 70, 129};
  const Tensor lengths = Tensor::of({5}, counts);
  for (const Dtype dtype : kFloating) {
    const Arrays arrays(dtype, {5, 4, 60, 16}, {5, 2, 1140, 16}, 24);
    for (AttentionOptions options : positional_options()) {
      AttentionOptions padded_options = options;
      padded_options.mask = options.mask & Mask::lengths(lengths);
      const Gradients padded = arrays.gradients(padded_options);
      for (std::int64_t b = 0; b < 5; ++b) {
        SCOPED_TRACE(b);
        const std::int64_t length = counts[static_cast<std::size_t>(b)];
        const auto own = [&](const Tensor& all) { return all.view().select(0, b); };
        const auto crop = [&](const Tensor& all) { return own(all).slice(1, 0, length); };
        const Gradients cropped =
            backward(own(arrays.q), crop(arrays.k), crop(arrays.v), own(arrays.grad_out), options);
        EXPECT_TRUE(testing::same_bits(own(padded.query), cropped.query));
        EXPECT_TRUE(testing::same_bits(crop(padded.key), cropped.key));
        EXPECT_TRUE(testing::same_bits(crop(padded.value), cropped.value));
        EXPECT_EQ(testing::largest(own(padded.key).slice(1, length, 1140)), 0);
      }
    }
  }
}

// Inputs and gradients as slices of one array [batch, length, heads, 3 sizes], with the values backwards in memory.
TEST_P(AttentionBackwardBitwise, AnyStrides) {
  Random random(3);
  for (const Dtype dtype : kFloating) {
    const Tensor joined = normal(random, {2, 50, 3, 48}, dtype), grad = normal(random, {2, 50, 3, 16}, dtype);
    const auto part = [](const auto& all, int index) {
      return all.transpose(1, 2).slice(3, 16 * index, 16 * index + 16);
    };
    const TensorView q = part(joined.view(), 0), k = part(joined.view(), 1), v = part(joined.view(), 2);
    const TensorView grad_out = grad.view().transpose(1, 2);
    const AttentionOptions options{.mask = Mask::causal()};
    const Gradients wanted =
        backward(Tensor::copy(q), Tensor::copy(k), Tensor::copy(v), Tensor::copy(grad_out), options);
    const testing::Forward kept = testing::forward(q, k, v, options);
    Tensor gradients = testing::filled({2, 50, 3, 48}, testing::kNan, dtype);
    attention_backward(
        q, k, v, kept.out, kept.log_sum_exp, grad_out, options,
        {.query = part(gradients.view(), 0), .key = part(gradients.view(), 1), .value = part(gradients.view(), 2)});
    expect_same(wanted, {Tensor::copy(part(gradients.view(), 0)), Tensor::copy(part(gradients.view(), 1)),
                         Tensor::copy(part(gradients.view(), 2))});
  }
}

}  // namespace
}  // namespace qkv
