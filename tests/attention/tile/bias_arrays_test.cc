// Biases that are arrays, wherever their numbers lie: like the reference, and with the bits of numbers that are read
// one by one. Random combinations, also of tables: the grids; torch's numbers of Shaw's table: golden_test.cc.
#include "attention/tangent/attention_tangents_testing.h"
#include "io/files_for_test.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::kInfinity;
using testing::kNan;
using testing::MovingArrays;
using testing::normal;

// The same numbers [batch, heads, queries, keys] in memory of another shape, among NaN.
struct PlacedBias {
  const char* layout;
  Tensor memory;
  TensorView view;
};

// The first one is read number by number.
std::vector<PlacedBias> every_layout(const Tensor& values) {
  using View = MutableTensorView;
  const std::int64_t batch = values.size(0), heads = values.size(1), rows = values.size(2), columns = values.size(3);
  std::vector<PlacedBias> all;
  const auto add = [&](const char* layout, const Dims& shape, const auto& place_in) {
    all.push_back({layout, testing::filled(shape, kNan, values.dtype()), {}});
    const View place = place_in(all.back().memory.view());
    convert(values, place);
    all.back().view = place;
  };
  add("every second", {batch, heads, rows + 1, columns + 1, 2},
      [&](const View& memory) { return memory.select(4, 1).slice(2, 0, rows).slice(3, 0, columns); });
  add("row-major", values.shape(), [](const View& memory) { return memory; });
  add("rows apart", {batch, heads, rows + 1, columns + 13},
      [&](const View& memory) { return memory.slice(2, 1, rows + 1).slice(3, 3, columns + 3); });
  add("keys by queries", {batch, heads, columns, rows + 2},
      [&](const View& memory) { return memory.slice(3, 1, rows + 1).transpose(2, 3); });
  add("heads last", {batch, rows, columns, heads},
      [](const View& memory) { return memory.transpose(1, 3).transpose(2, 3); });
  add("queries backwards", values.shape(), [&](const View& memory) {
    Dims strides = memory.strides();
    strides[2] = -strides[2];
    return View(memory.slice(2, rows - 1, rows).bytes(), values.dtype(), values.shape(), strides);
  });
  return all;
}

// What compute(view) gives is right for the first layout, and has the same bits for the others.
template <class Compute, class ExpectRight>
void expect_every_layout(const Tensor& values, const Compute& compute, const ExpectRight& expect_right) {
  std::optional<decltype(compute(TensorView()))> first;
  for (const PlacedBias& bias : every_layout(values)) {
    SCOPED_TRACE(bias.layout);
    const auto got = compute(bias.view);
    if (first) {
      expect_same(got, *first);
    } else {
      expect_right(got);
      first = got;
    }
  }
}

struct Results {
  testing::Outcome outcome;
  testing::Gradients gradients;
  testing::Moved moved;
};

void expect_same(const Results& a, const Results& b) {
  testing::expect_same(a.outcome, b.outcome);
  testing::expect_same(a.gradients, b.gradients);
  testing::expect_same(a.moved, b.moved);
}

// The bias twice, under a mask.
AttentionOptions options_of(const TensorView& view, const Mask& mask = {}) {
  return {.mask = mask, .bias = Bias::view(view) + Bias::view(view)};
}

// Of inputs of 16 bits, the outputs alone.
Results compute(const MovingArrays& a, const AttentionOptions& options) {
  Results results;
  results.outcome = testing::attend(a.q, a.k, a.v, options);
  if (size_of(a.q.dtype()) == 2) return results;
  results.gradients = testing::backward(a.q, a.k, a.v, a.grad_out, options);
  results.moved = testing::jvp(a, options);
  return results;
}

// Products of a few dozen numbers near 1, and sums of as many: some tens of their rounding errors.
void expect_like_reference(const Results& got, const MovingArrays& a, const AttentionOptions& options) {
  const double tolerance = a.q.dtype() == Dtype::f64 ? 2e-14 : 1e-5;
  const auto expect_near = [&](const TensorView& ours, const TensorView& exact) {
    EXPECT_LE(testing::difference(ours, exact), tolerance * (1 + testing::largest(exact)));
  };
  const auto exact = reference::attention(a.q, a.k, a.v, options);
  expect_near(got.outcome.logits, exact.logits);
  if (size_of(a.q.dtype()) == 2) return;
  expect_near(got.outcome.out, exact.out);
  expect_near(got.outcome.log_sum_exp, exact.log_sum_exp);
  const auto gradients = reference::attention_backward(a.q, a.k, a.v, a.grad_out, options);
  expect_near(got.gradients.query, gradients.query);
  for (std::size_t n = 0; n < gradients.bias.size(); ++n) expect_near(got.gradients.bias[n], gradients.bias[n]);
  expect_near(got.moved.out, reference::attention_jvp(a.q, a.k, a.v, a.tangents(), options).out);
}

void expect_every_layout(const MovingArrays& a, const Tensor& values) {
  expect_every_layout(
      values, [&](const TensorView& view) { return compute(a, options_of(view)); },
      [&](const Results& got) { expect_like_reference(got, a, options_of(values)); });
}

QKV_ON_EACH_TARGET(BiasArrays);

TEST_P(BiasArrays, EveryLayoutAndBroadcast) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
    for (const auto& [q_len, k_len] : {std::pair(1, 1), {1, 130}, {5, 3}, {16, 8}, {50, 33}, {49, 70}}) {
      const MovingArrays arrays({1, 2, q_len, 8}, {1, 2, k_len, 8}, 8, dtype);
      for (int bits = 0; bits < 8; ++bits) {
        SCOPED_TRACE(fmt::format("{} {} x {}, {}", name_of(dtype), q_len, k_len, bits));
        const auto size = [&](int bit, std::int64_t whole) { return (bits >> bit & 1) != 0 ? 1 : whole; };
        Random random(static_cast<std::uint64_t>(bits));
        expect_every_layout(
            arrays, normal(random, {1, size(0, 2), size(1, q_len), size(2, k_len)}, testing::accumulation_of(dtype)));
      }
    }
  }
}

// Chunks of 1,024 keys, and the end of the last one.
TEST_P(BiasArrays, ManyKeys) {
  Random random(1);
  expect_every_layout(MovingArrays({1, 1, 53, 16}, {1, 1, 1037, 16}, 8), normal(random, {1, 1, 53, 1037}));
}

// A logit of -infinity hides its key, and a row of them leaves a query without any.
TEST_P(BiasArrays, MinusInfinity) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Random random(2);
    const MovingArrays arrays({1, 2, 51, 8}, {1, 2, 37, 8}, 8, dtype);
    Tensor values = normal(random, {1, 2, 51, 37});
    for (std::int64_t i = 0; i < values.element_count(); ++i) {
      if (random.uniform() < 0.3 || i / 37 % 51 == 17) values.data<float>()[i] = -static_cast<float>(kInfinity);
    }
    expect_every_layout(arrays, convert(values, dtype));
    expect_every_layout(arrays, convert(values.view().slice(2, 0, 1), dtype));
  }
}

// NaN where the mask hides the pair changes nothing.
TEST_P(BiasArrays, NanBehindAMask) {
  Random random(3);
  const MovingArrays arrays({1, 2, 60, 8}, {1, 2, 60, 8}, 8);
  const Tensor visible = normal(random, {1, 2, 60, 60});
  Tensor values = visible;
  for (std::int64_t i = 0; i < values.element_count(); ++i) {
    if (i % 60 > i / 60 % 60) values.data<float>()[i] = static_cast<float>(kNan);
  }
  const auto masked = [&](const TensorView& view) { return compute(arrays, options_of(view, Mask::causal())); };
  expect_every_layout(values, masked, [&](const Results& got) { expect_same(got, masked(visible)); });
}

TEST(RelativeRowsArguments, Refused) {
  const Tensor q = Tensor::zeros({1, 2, 5, 8}), table = Tensor::zeros({7, 8}), other = Tensor::zeros({7, 6});
  const Tensor even = Tensor::zeros({6, 8}), wide = Tensor::zeros({2 * 513 + 1, 8}), w = Tensor::zeros({8, 8});
  const Bias bias = Bias::table(RelativeTable::shaw(table));
  EXPECT_NO_THROW(attention(q, q, q, {.bias = bias}));
  const auto expect_refused = [](const char* part, const auto& call) {
    const std::string message = test::message_of<std::invalid_argument>(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_refused("at most one table of Shaw's", [&] { attention(q, q, q, {.bias = bias + bias}); });
  expect_refused("[7, 6] must have rows of head_dim 8",
                 [&] { attention(q, q, q, {.bias = Bias::table(RelativeTable::shaw(other))}); });
  expect_refused("score dot or scaled dot", [&] { attention(q, q, q, {.bias = bias, .score = Score::bilinear(w)}); });
  expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(even); });
  expect_refused("2 n + 1 rows, n at most 512", [&] { RelativeTable::shaw(wide); });
}

}  // namespace
}  // namespace qkv
