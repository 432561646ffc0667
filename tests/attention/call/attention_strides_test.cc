// Views of any strides give the bits of their row-major copies.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 4, kLength = 150, kSize = 24;

// The same numbers as `values` [batch, heads, length, size] behind the last `kSize` of 31 elements a row, with the
// dimensions in memory in another order.
struct Scattered {
  Scattered(const TensorView& values, int first, int second) {
    const TensorView turned = values.transpose(first, second);
    Dims shape = turned.shape();
    shape[3] = 31;
    memory = testing::filled(shape, testing::kNan, values.dtype());
    const MutableTensorView inside = memory.view().slice(3, 31 - turned.size(3), 31);
    convert(turned, inside);
    view = inside.transpose(first, second);
  }
  Tensor memory;
  MutableTensorView view;
};

// Every dimension but the last walks backwards in memory.
struct Reversed {
  explicit Reversed(const TensorView& values) : memory(Tensor::zeros(values.shape(), values.dtype())) {
    Dims strides = memory.view().strides(), last;
    for (int dim = 0; dim < 3; ++dim) {
      strides[dim] = -strides[dim];
      last.push_back(values.size(dim) - 1);
    }
    last.push_back(0);
    std::byte* start =
        memory.view().bytes() + memory.view().offset_of(last) * static_cast<std::int64_t>(size_of(values.dtype()));
    const MutableTensorView writable(start, values.dtype(), values.shape(), strides);
    convert(values, writable);
    view = writable;
  }
  Tensor memory;
  TensorView view;
};

struct Inputs {
  explicit Inputs(Dtype dtype) {
    Random random(1);
    q = testing::normal(random, {kBatch, kHeads, kLength, kSize}, dtype);
    k = testing::normal(random, {kBatch, kHeads, kLength, kSize}, dtype);
    v = testing::normal(random, {kBatch, kHeads, kLength, kSize}, dtype);
  }
  Tensor q, k, v;
};

constexpr Dtype kFloating[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16};

QKV_ON_EACH_TARGET(AttentionStrides);

TEST_P(AttentionStrides, TransposedAndUnaligned) {
  for (const Dtype dtype : kFloating) {
    const Inputs in(dtype);
    const Tensor wanted = attention(in.q, in.k, in.v, {.mask = Mask::causal()});
    const Scattered q(in.q, 1, 2), k(in.k, 0, 1), v(in.v, 0, 2), out(wanted, 1, 2);
    convert(testing::filled(wanted.shape(), 0, dtype), out.view);
    attention(q.view, k.view, v.view, out.view, {.mask = Mask::causal()});
    EXPECT_TRUE(testing::same_bits(out.view, wanted));
    // Nothing beside the view was written.
    for (const double beside : testing::values(out.memory.view().slice(3, 0, 31 - kSize)))
      ASSERT_TRUE(std::isnan(beside));
  }
}

TEST_P(AttentionStrides, OnePackedProjection) {
  for (const Dtype dtype : kFloating) {
    Random random(2);
    const Tensor packed = testing::normal(random, {kBatch, kLength, 3, kHeads, kSize}, dtype);
    const auto role = [&](std::int64_t index) { return packed.view().select(2, index).transpose(1, 2); };
    const Tensor wanted = attention(Tensor::copy(role(0)), Tensor::copy(role(1)), Tensor::copy(role(2)));
    Tensor out = Tensor::zeros({kBatch, kLength, kHeads, kSize}, dtype);
    attention(role(0), role(1), role(2), out.view().transpose(1, 2));
    EXPECT_TRUE(testing::same_bits(out.view().transpose(1, 2), wanted));
  }
}

// Many blocks of queries over keys within one tensor, of which more are there than are brought together at once.
TEST_P(AttentionStrides, ManyBlocks) {
  constexpr std::int64_t kQueries = 400, kKeys = 1000, kWide = 80;
  Random random(5);
  const Tensor packed = testing::normal(random, {kKeys, 3, 2, kWide});
  const auto role = [&](std::int64_t index) { return packed.view().select(1, index).transpose(0, 1); };
  const TensorView q = role(0).slice(1, 0, kQueries), k = role(1), v = role(2);
  const Tensor keys = Tensor::copy(k), values = Tensor::copy(v);
  for (const auto& [mask, threads] : {std::pair(Mask(), 1), {Mask::causal(Align::bottom_right), 3}}) {
    const AttentionOptions options{.mask = mask, .threads = threads};
    const Tensor wanted = attention(Tensor::copy(q), keys, values, options);
    EXPECT_TRUE(testing::same_bits(attention(q, k, v, options), wanted)) << threads;
    EXPECT_TRUE(testing::same_bits(attention(q, keys, v, options), wanted)) << threads;
    EXPECT_TRUE(testing::same_bits(attention(q, k, values, options), wanted)) << threads;
  }
}

TEST_P(AttentionStrides, Negative) {
  const Inputs in(Dtype::f32);
  const Reversed q(in.q), k(in.k), v(in.v);
  EXPECT_TRUE(testing::same_bits(attention(q.view, k.view, v.view), attention(in.q, in.k, in.v)));
}

TEST_P(AttentionStrides, Zero) {
  const Inputs in(Dtype::f32);
  const Dims shape = in.k.shape();
  const TensorView k = in.k.view().slice(0, 0, 1).slice(1, 2, 3).broadcast_to(shape);
  const TensorView v = in.v.view().slice(2, 3, 4).broadcast_to(shape);
  const TensorView q = in.q.view().slice(0, 1, 2).slice(2, 0, 1).broadcast_to(shape);
  EXPECT_TRUE(testing::same_bits(attention(q, k, v), attention(Tensor::copy(q), Tensor::copy(k), Tensor::copy(v))));
}

// Of sequences of one packed batch, some have so many queries that their keys are brought together, others do not.
TEST_P(AttentionStrides, PackedSequences) {
  constexpr std::int64_t kKvHeads = 2, kWide = 32;
  const std::vector<std::int32_t> starts = {0, 400, 403, 553, 553, 554, 944};
  Random random(6);
  const Tensor packed = testing::normal(random, {starts.back(), kHeads + 2 * kKvHeads, kWide});
  const Tensor offsets = Tensor::of<std::int32_t>({static_cast<std::int64_t>(starts.size())}, starts);
  const TensorView q = packed.view().slice(1, 0, kHeads), k = packed.view().slice(1, kHeads, kHeads + kKvHeads),
                   v = packed.view().slice(1, kHeads + kKvHeads, kHeads + 2 * kKvHeads);
  for (const int threads : {1, 3}) {
    const AttentionOptions alone{.mask = Mask::causal(), .threads = threads};
    AttentionOptions options = alone;
    options.offsets_query = options.offsets_key = offsets;
    const Tensor out = attention(q, k, v, options);
    for (std::size_t b = 0; b + 1 < starts.size(); ++b) {
      const auto own = [&](const TensorView& rows) {
        return Tensor::copy(rows.slice(0, starts[b], starts[b + 1]).transpose(0, 1));
      };
      EXPECT_TRUE(testing::same_bits(own(out), attention(own(q), own(k), own(v), alone))) << threads << ", " << b;
    }
  }
}

TEST_P(AttentionStrides, OneQueryAlone) {
  for (const Dtype dtype : kFloating) {
    const Inputs in(dtype);
    const TensorView q = in.q.view().slice(2, 0, 1), one_key = in.k.view().slice(2, 3, 4);
    const Reversed backwards(in.k);
    const Scattered beside(in.k, 1, 2);
    const TensorView repeated = one_key.broadcast_to(in.k.shape());
    for (const TensorView& k : {TensorView(backwards.view), TensorView(beside.view), repeated}) {
      for (const TensorView& v : {in.v.view(), k}) {
        EXPECT_TRUE(testing::same_bits(attention(q, k, v), attention(q, Tensor::copy(k), Tensor::copy(v))));
      }
    }
  }
}

TEST_P(AttentionStrides, MasksBiasesAndExtras) {
  const Inputs in(Dtype::f32);
  Random random(3);
  // Keys before queries in memory, and a mask that only the head and the key choose.
  const Tensor turned_bias = testing::normal(random, {1, kHeads, kLength, kLength});
  const Tensor turned_mask = testing::coin_flips(random, {kLength, kHeads, 1, 1}, 0.7, Dtype::u8);
  const TensorView bias = turned_bias.view().transpose(2, 3), mask = turned_mask.view().transpose(0, 3);
  const Tensor plain_bias = Tensor::copy(bias), plain_mask = Tensor::copy(mask);
  const testing::Outcome wanted =
      testing::attend(in.q, in.k, in.v, {.mask = Mask::boolean(plain_mask), .bias = Bias::view(plain_bias)});

  const Scattered out(wanted.out, 1, 2);
  Tensor log_sum_exp = Tensor::zeros({kLength, kHeads, kBatch});
  Tensor weights = Tensor::zeros({kLength, kHeads, kBatch, kLength}),
         logits = Tensor::zeros({kLength, kHeads, kBatch, kLength});
  const testing::Outcome again =
      testing::attend(in.q, in.k, in.v, {.mask = Mask::boolean(mask), .bias = Bias::view(bias)});
  attention(in.q, in.k, in.v, out.view, {.mask = Mask::boolean(mask), .bias = Bias::view(bias)},
            {.log_sum_exp = log_sum_exp.view().transpose(0, 2),
             .weights = weights.view().transpose(0, 2),
             .logits = logits.view().transpose(0, 2)});
  EXPECT_TRUE(testing::same_bits(again.out, wanted.out));
  EXPECT_TRUE(testing::same_bits(out.view, wanted.out));
  EXPECT_TRUE(testing::same_bits(log_sum_exp.view().transpose(0, 2), wanted.log_sum_exp));
  EXPECT_TRUE(testing::same_bits(weights.view().transpose(0, 2), wanted.weights));
  EXPECT_TRUE(testing::same_bits(logits.view().transpose(0, 2), wanted.logits));
}

TEST_P(AttentionStrides, LeadingDimensionsAreBatch) {
  const Inputs in(Dtype::f32);
  const Tensor wanted = attention(in.q, in.k, in.v);
  Random random(4);
  const Dims five{1, kBatch, kHeads, kLength, kSize}, six{kBatch, 1, 1, kHeads, kLength, kSize};
  for (const Dims& shape : {five, six}) {
    const Tensor out = attention(in.q.view().reshape(shape), in.k.view().reshape(shape), in.v.view().reshape(shape));
    EXPECT_EQ(out.shape(), shape);
    EXPECT_TRUE(testing::same_bits(out.view().reshape(wanted.shape()), wanted));
  }
  const auto matrix = [](const Tensor& tensor) { return tensor.view().select(0, 1).select(0, 2); };
  const Tensor head = attention(matrix(in.q), matrix(in.k), matrix(in.v));
  EXPECT_TRUE(testing::same_bits(head, matrix(wanted)));
  // Leading dimensions that no single stride can walk.
  const Tensor grid = testing::normal(random, {3, 2, kHeads, 9, 8});
  const TensorView turned = grid.view().transpose(0, 1);
  EXPECT_TRUE(testing::same_bits(attention(turned, turned, turned),
                                 attention(Tensor::copy(turned), Tensor::copy(turned), Tensor::copy(turned))));
}

}  // namespace
}  // namespace qkv
