// Biases that are arrays, wherever their numbers lie: like the reference, and with the bits of numbers that are read
// one by one. Random combinations: attention_grid_test.cc and its siblings.
#include "attention/tangent/attention_tangents_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::kInfinity;
using testing::kNan;

// The same numbers [batch, heads, queries, keys] in memory of another shape, among NaN.
struct PlacedBias {
  template <class Find>
  PlacedBias(const char* layout, const Tensor& values, const Dims& shape, const Find& find)
      : name(layout), memory(testing::filled(shape, kNan, values.dtype())) {
    const MutableTensorView place = find(memory.view());
    convert(values, place);
    view = place;
  }
  const char* name;
  Tensor memory;
  TensorView view;
};

// The first one is read number by number.
std::vector<PlacedBias> every_layout(const Tensor& values) {
  const std::int64_t batch = values.size(0), heads = values.size(1), rows = values.size(2), columns = values.size(3);
  using View = MutableTensorView;
  std::vector<PlacedBias> all;
  all.emplace_back("every second", values, Dims{batch, heads, rows + 1, columns + 1, 2},
                   [&](const View& memory) { return memory.select(4, 1).slice(2, 0, rows).slice(3, 0, columns); });
  all.emplace_back("row-major", values, values.shape(), [](const View& memory) { return memory; });
  all.emplace_back("rows apart", values, Dims{batch, heads, rows + 1, columns + 13},
                   [&](const View& memory) { return memory.slice(2, 1, rows + 1).slice(3, 3, columns + 3); });
  all.emplace_back("keys by queries", values, Dims{batch, heads, columns, rows + 2},
                   [&](const View& memory) { return memory.slice(3, 1, rows + 1).transpose(2, 3); });
  all.emplace_back("heads last", values, Dims{batch, rows, columns, heads},
                   [](const View& memory) { return memory.transpose(1, 3).transpose(2, 3); });
  all.emplace_back("queries backwards", values, Dims{batch, heads, rows, columns}, [&](const View& memory) {
    Dims strides = memory.strides();
    const std::int64_t last = (rows - 1) * strides[2] * static_cast<std::int64_t>(size_of(values.dtype()));
    strides[2] = -strides[2];
    return View(memory.bytes() + last, values.dtype(), values.shape(), strides);
  });
  return all;
}

struct Results {
  testing::Outcome outcome;
  testing::Gradients gradients;
  testing::Moved moved;
};

Results compute(const testing::MovingArrays& arrays, const AttentionOptions& options) {
  return {testing::attend(arrays.q, arrays.k, arrays.v, options),
          testing::backward(arrays.q, arrays.k, arrays.v, arrays.grad_out, options), testing::jvp(arrays, options)};
}

// Products of a few dozen numbers near 1, and sums of as many: some tens of their rounding errors.
void expect_like_reference(const Results& got, const testing::MovingArrays& arrays, const AttentionOptions& options) {
  const double tolerance = arrays.q.dtype() == Dtype::f64 ? 2e-14 : 1e-5;
  const auto expect_near = [&](const TensorView& ours, const TensorView& exact) {
    EXPECT_LE(testing::difference(ours, exact), tolerance * (1 + testing::largest(exact)));
  };
  const auto exact = reference::attention(arrays.q, arrays.k, arrays.v, options);
  expect_near(got.outcome.out, exact.out);
  expect_near(got.outcome.log_sum_exp, exact.log_sum_exp);
  const auto gradients = reference::attention_backward(arrays.q, arrays.k, arrays.v, arrays.grad_out, options);
  expect_near(got.gradients.query, gradients.query);
  expect_near(got.gradients.key, gradients.key);
  expect_near(got.gradients.value, gradients.value);
  for (std::size_t n = 0; n < gradients.bias.size(); ++n) expect_near(got.gradients.bias[n], gradients.bias[n]);
  const auto moved = reference::attention_jvp(arrays.q, arrays.k, arrays.v, arrays.tangents(), options);
  expect_near(got.moved.out, moved.out);
  expect_near(got.moved.log_sum_exp, moved.log_sum_exp);
}

// `values` in every layout, under `mask`, and twice.
void expect_every_layout(const testing::MovingArrays& arrays, const Tensor& values, const Mask& mask) {
  Results one_by_one;
  for (const PlacedBias& bias : every_layout(values)) {
    SCOPED_TRACE(bias.name);
    const AttentionOptions options{.mask = mask, .bias = Bias::view(bias.view) + Bias::view(bias.view)};
    const Results got = compute(arrays, options);
    if (bias.name == std::string("every second")) {
      one_by_one = got;
      expect_like_reference(got, arrays, options);
      continue;
    }
    expect_same(got.outcome, one_by_one.outcome);
    expect_same(got.gradients, one_by_one.gradients);
    expect_same(got.moved, one_by_one.moved);
  }
}

QKV_ON_EACH_TARGET(BiasArrays);

TEST_P(BiasArrays, EveryLayoutAndBroadcast) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    for (const auto& [q_len, k_len] : {std::pair(1, 1), {1, 130}, {5, 3}, {16, 8}, {50, 33}, {49, 70}}) {
      SCOPED_TRACE(fmt::format("{} {} x {}", name_of(dtype), q_len, k_len));
      const testing::MovingArrays arrays({1, 2, q_len, 8}, {1, 2, k_len, 8}, 8, dtype);
      for (int bits = 0; bits < 8; ++bits) {
        SCOPED_TRACE(bits);
        const auto size = [&](int bit, std::int64_t whole) { return (bits >> bit & 1) != 0 ? 1 : whole; };
        Random random(static_cast<std::uint64_t>(bits));
        expect_every_layout(arrays, testing::normal(random, {1, size(0, 2), size(1, q_len), size(2, k_len)}, dtype),
                            {});
      }
    }
  }
}

// Chunks of 1,024 keys, and the end of the last one.
TEST_P(BiasArrays, ManyKeys) {
  Random random(1);
  const testing::MovingArrays arrays({1, 1, 53, 16}, {1, 1, 1037, 16}, 8);
  expect_every_layout(arrays, testing::normal(random, {1, 1, 53, 1037}), {});
}

// A logit of -infinity hides its key, and a row of them leaves a query without any.
TEST_P(BiasArrays, MinusInfinity) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Random random(2);
    const testing::MovingArrays arrays({1, 2, 51, 8}, {1, 2, 37, 8}, 8, dtype);
    Tensor values = testing::normal(random, {1, 2, 51, 37});
    for (std::int64_t i = 0; i < values.element_count(); ++i) {
      if (random.uniform() < 0.3 || i / 37 % 51 == 17) values.data<float>()[i] = -static_cast<float>(kInfinity);
    }
    expect_every_layout(arrays, convert(values, dtype), {});
    Tensor of_keys = Tensor::copy(values.view().slice(2, 0, 1));
    expect_every_layout(arrays, convert(of_keys, dtype), {});
  }
}

// NaN where the mask hides the pair changes nothing: the reference, without them, says so.
TEST_P(BiasArrays, NanBehindAMask) {
  Random random(3);
  const testing::MovingArrays arrays({1, 2, 60, 8}, {1, 2, 60, 8}, 8);
  Tensor values = testing::normal(random, {1, 2, 60, 60}), visible = Tensor::copy(values);
  for (std::int64_t i = 0; i < values.element_count(); ++i) {
    if (i % 60 > i / 60 % 60) values.data<float>()[i] = static_cast<float>(kNan);
  }
  const Mask mask = Mask::causal();
  for (const PlacedBias& bias : every_layout(values)) {
    SCOPED_TRACE(bias.name);
    const Results got = compute(arrays, {.mask = mask, .bias = Bias::view(bias.view)});
    expect_like_reference(got, arrays, {.mask = mask, .bias = Bias::view(visible)});
  }
}

// Inputs of 16 bits, biases in f32.
TEST_P(BiasArrays, HalfTypes) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    Random random(4);
    const Tensor q = testing::normal(random, {1, 2, 50, 16}, dtype), k = testing::normal(random, {1, 2, 45, 16}, dtype);
    const Tensor values = testing::normal(random, {1, 2, 50, 45});
    testing::Outcome one_by_one;
    for (const PlacedBias& bias : every_layout(values)) {
      SCOPED_TRACE(bias.name);
      const testing::Outcome got = testing::attend(q, k, k, {.bias = Bias::view(bias.view)});
      if (bias.name == std::string("every second")) {
        one_by_one = got;
        const auto exact = reference::attention(q, k, k, {.bias = Bias::view(values)});
        EXPECT_LE(testing::difference(got.logits, exact.logits), 1e-5);
      } else {
        expect_same(got, one_by_one);
      }
    }
  }
}

}  // namespace
}  // namespace qkv
