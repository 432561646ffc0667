// Outputs that share elements with inputs or with each other are refused; slices of one array may interleave.
#include "attention/call/apart.h"

#include "attention/tangent/attention_tangents_testing.h"

namespace qkv {
namespace {

using testing::filled;
using testing::normal;
using testing::refusal;

// A view of any shape, type and strides into 400 bytes, and the bytes that it covers, one by one.
struct RandomView {
  explicit RandomView(Random& random, const std::byte* memory) {
    const Dtype dtypes[] = {Dtype::boolean, Dtype::bf16, Dtype::f32, Dtype::f64};
    const Dtype dtype = dtypes[random.below(4)];
    const auto element = static_cast<std::int64_t>(size_of(dtype));
    Dims shape, strides;
    std::int64_t lowest = 0, highest = 0;
    for (std::uint64_t rank = random.below(5); rank > 0; --rank) {
      const auto extent = static_cast<std::int64_t>(random.below(5));
      const std::int64_t stride =
          (static_cast<std::int64_t>(random.below(25)) - 8) * (random.below(2) == 0 ? 1 : 3) / element;
      shape.push_back(extent), strides.push_back(stride);
      (stride < 0 ? lowest : highest) += stride * std::max<std::int64_t>(extent - 1, 0);
    }
    const auto first = static_cast<std::int64_t>(random.below(60)) / element - lowest;
    view = {memory + first * element, dtype, shape, strides};
    std::vector<std::int64_t> places{first};
    for (int dim = 0; dim < shape.size(); ++dim) {
      std::vector<std::int64_t> more;
      for (const std::int64_t place : places) {
        for (std::int64_t i = 0; i < shape[dim]; ++i) more.push_back(place + i * strides[dim]);
      }
      places = more;
    }
    for (const std::int64_t place : places) {
      for (std::int64_t byte = 0; byte < element; ++byte) bytes.insert(place * element + byte);
    }
  }
  // The same, so many elements further.
  RandomView moved(std::int64_t count) const {
    RandomView other = *this;
    const auto distance = count * static_cast<std::int64_t>(size_of(view.dtype()));
    other.view = {view.bytes() + distance, view.dtype(), view.shape(), view.strides()};
    other.bytes.clear();
    for (const std::int64_t byte : bytes) other.bytes.insert(byte + distance);
    return other;
  }

  TensorView view;
  std::set<std::int64_t> bytes;
};

// What shares a byte is refused; what shares none is not, if ranges are apart or the strides are equal.
TEST(Apart, IsWhatCountingBytesSays) {
  alignas(64) static std::byte memory[4096];
  Random random(1);
  int sharing = 0, interleaved = 0;
  for (int i = 0; i < 30000; ++i) {
    const RandomView a(random, memory);
    RandomView b =
        random.below(2) == 0 ? RandomView(random, memory) : a.moved(static_cast<std::int64_t>(random.below(40)));
    const bool shares = std::any_of(a.bytes.begin(), a.bytes.end(), [&](auto byte) { return b.bytes.contains(byte); });
    sharing += shares ? 1 : 0;
    const bool refused = !refusal([&] { require_apart({{"a", a.view}}, {{"b", b.view}}); }).empty();
    const bool ranges_meet = !a.bytes.empty() && !b.bytes.empty() && *a.bytes.begin() <= *b.bytes.rbegin() &&
                             *b.bytes.begin() <= *a.bytes.rbegin();
    ASSERT_TRUE(shares ? refused : !refused || ranges_meet)
        << to_string(a.view.shape()) << to_string(a.view.strides()) << " at " << a.view.bytes() - memory << ", "
        << to_string(b.view.shape()) << to_string(b.view.strides()) << " at " << b.view.bytes() - memory;
    interleaved += ranges_meet && !refused ? 1 : 0;
  }
  EXPECT_GT(sharing, 3000);
  EXPECT_LT(sharing, 25000);
  EXPECT_GT(interleaved, 500);
}

// Query, key, value and output of a model's packed rows: [batch, length, 4, heads, size].
struct PackedRows {
  explicit PackedRows(Random& random) : rows(normal(random, {2, 5, 4, 3, 8})) {}
  MutableTensorView part(int index) { return rows.view().select(2, index).transpose(1, 2); }
  Tensor rows;
};

TEST(Apart, SlicesOfOneArrayMayInterleave) {
  Random random(2);
  PackedRows packed(random);
  const Tensor wanted =
      attention(Tensor::copy(packed.part(0)), Tensor::copy(packed.part(1)), Tensor::copy(packed.part(2)));
  attention(packed.part(0), packed.part(1), packed.part(2), packed.part(3));
  EXPECT_TRUE(testing::same_bits(packed.part(3), wanted));
}

TEST(Apart, OutputsOfAttention) {
  Random random(3);
  Tensor q = normal(random, {2, 3, 6}), k = normal(random, {2, 3, 6}), both = normal(random, {2, 4, 6});
  Tensor bias = normal(random, {2, 3, 3}), lse = filled({2, 3}, 0), sinks = normal(random, {2}),
         out = filled({2, 3, 6}, 0);
  const auto refuse = [&](const std::string& names, const MutableTensorView& place,
                          const AttentionOptions& options = {}, const AttentionExtras& extras = {}) {
    EXPECT_EQ(refusal([&] { attention(q, k, k, place, options, extras); }),
              names.empty() ? "" : "attention: " + names + ", or may; an output needs memory of its own");
  };
  refuse("out shares elements with query", q);
  refuse("out shares elements with key", k);
  EXPECT_EQ(refusal([&] { attention(both.view().slice(1, 0, 3), k, k, both.view().slice(1, 1, 4)); }),
            "attention: out shares elements with query, or may; an output needs memory of its own");
  refuse("log_sum_exp shares elements with out", out, {}, {.log_sum_exp = out.view().select(2, 5)});
  refuse("weights shares elements with bias", out, {.bias = Bias::view(bias)}, {.weights = bias});
  refuse("logits shares elements with weights", out, {}, {.weights = bias, .logits = bias});
  refuse("entropy shares elements with log_sum_exp", out, {}, {.log_sum_exp = lse, .entropy = lse});
  refuse("row_maximum shares elements with query", out, {}, {.row_maximum = q.view().select(2, 0)});
  Tensor integers = Tensor::zeros({6, 3}, Dtype::i64), of_rows = filled({1, 3}, 0), tops = filled({2, 3, 1}, 0);
  refuse("top_keys shares elements with rows", out, {},
         {.rows = integers.view().slice(0, 5, 6),
          .row_weights = of_rows,
          .top_keys = {integers.view().bytes(), Dtype::i64, {2, 3, 1}, {9, 3, 1}},
          .top_weights = tops});
  AttentionOptions sunk;
  sunk.sinks = sinks;
  refuse("entropy shares elements with sinks", out, sunk,
         {.entropy = {sinks.view().bytes(), Dtype::f32, {2, 3}, {1, 2}}});
}

TEST(Apart, OutputsOfDerivatives) {
  const testing::MovingArrays a({2, 3, 6}, {2, 3, 6}, 6);
  const testing::Forward kept = testing::forward(a.q, a.k, a.v, {});
  const auto place = [](const Tensor& of) { return const_cast<Tensor&>(of).view(); };
  const auto backward = [&](const AttentionGradients& gradients) {
    return [&, gradients] { attention_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, {}, gradients); };
  };
  const auto jvp = [&](const AttentionOutputTangents& outputs) {
    return [&, outputs] { attention_jvp(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.tangents(), {}, outputs); };
  };
  const auto second = [&](const AttentionSecondGradients& gradients) {
    return [&, gradients] {
      attention_double_backward(a.q, a.k, a.v, kept.out, kept.log_sum_exp, a.grad_out, a.tangents(), {}, gradients);
    };
  };
  Tensor spare = filled({2, 3, 6}, 0);
  const std::pair<std::string, std::function<void()>> calls[] = {
      {"", backward({.query = spare})},
      {"the gradient of query shares elements with query", backward({.query = place(a.q)})},
      {"the gradient of key shares elements with grad_out", backward({.key = place(a.grad_out)})},
      {"the gradient of value shares elements with out", backward({.value = place(kept.out)})},
      {"the gradient of value shares elements with the gradient of query", backward({.query = spare, .value = spare})},
      {"", jvp({.out = spare})},
      {"the tangent of out shares elements with the tangent of query", jvp({.out = place(a.tq)})},
      {"shares elements with log_sum_exp", jvp({.log_sum_exp = place(kept.log_sum_exp)})},
      {"", second({.key = spare})},
      {"the gradient of key shares elements with the tangent of value", second({.key = place(a.tv)})},
      {"shares elements with the gradient of query", second({.query = spare, .grad_out = spare})}};
  for (const auto& [message, call] : calls) {
    testing::expect_refused(message, call);
    EXPECT_EQ(refusal(call).empty(), message.empty()) << message;
  }
}

// A place for nothing may have any strides.
TEST(Apart, PlacesWithoutElements) {
  const Tensor q = filled({0, 3, 6}, 0), k = filled({0, 4, 6}, 0);
  float nothing = 0;
  const MutableTensorView out(reinterpret_cast<std::byte*>(&nothing), Dtype::f32, {0, 3, 6}, {0, 0, 0});
  EXPECT_EQ(refusal([&] { attention(q, k, k, out); }), "");
  EXPECT_EQ(refusal([&] { attention(q, k, k, out, {}, {.log_sum_exp = out.select(2, 0)}); }), "");
}

}  // namespace
}  // namespace qkv
