// 16-bit storage on each target: what is read is exact, infinities and subnormals included, and what is written is the
// accumulated output rounded to the nearest, ties to even.
#include <fmt/format.h>

#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(AttentionStorage);

const std::vector<Dtype> kHalves = {Dtype::bf16, Dtype::f16};

TEST_P(AttentionStorage, OutputIsTheRoundedAccumulation) {
  if (GetParam() == "amx") GTEST_SKIP() << "tiles cut weights into fewer pieces for 16 bits";
  for (const Dtype dtype : kHalves) {
    for (const std::int64_t value_dim : {1, 7, 37}) {
      Random random(3);
      const Tensor q = normal(random, {5, 16}, dtype), k = normal(random, {40, 16}, dtype);
      const Tensor v = normal(random, {40, value_dim}, dtype);
      Tensor wide = Tensor::zeros({5, value_dim}, Dtype::f32), narrow = Tensor::zeros({5, value_dim}, dtype);
      attention(q, k, v, wide);
      attention(q, k, v, narrow);
      EXPECT_TRUE(testing::same_bits(narrow, convert(wide, dtype))) << name_of(dtype) << ", " << value_dim;
    }
  }
}

// 16-bit rows give the bits of the same numbers in f32, also where a thread cannot hold all keys widened and takes
// several blocks of queries in turns, on both sides of a chunk's end. (Where bf16 is multiplied in pairs, or both types
// by tiles, sums have an order of their own: attention_pairs_test.cc, attention_tiles_test.cc.)
TEST_P(AttentionStorage, WideningChangesNoBit) {
  struct Shape {
    std::int64_t heads, q_len, k_len, head_dim, value_dim;
  };
  const std::vector<Shape> shapes = {{2, 53, 300, 17, 33}, {8, 100, 1300, 128, 128}, {1, 50, 70, 1024, 1000}};
  for (const Dtype dtype : kHalves) {
    if (dtype == Dtype::bf16 && GetParam() == "avx512-bf16") continue;
    for (const auto& [heads, q_len, k_len, head_dim, value_dim] : shapes) {
      if (GetParam() == "amx" && head_dim + value_dim <= 1024) continue;
      SCOPED_TRACE(fmt::format("{}, {} keys", name_of(dtype), k_len));
      Random random(5);
      const Tensor q = normal(random, {heads, q_len, head_dim}, dtype), k = normal(random, {1, k_len, head_dim}, dtype),
                   v = normal(random, {1, k_len, value_dim}, dtype);
      const Tensor boolean = testing::coin_flips(random, {heads, q_len, k_len}, 0.7);
      for (const Mask& mask : {Mask::causal(Align::bottom_right), Mask::boolean(boolean)}) {
        const AttentionOptions options{.mask = mask, .threads = 1};
        testing::Outcome wide =
            testing::attend(convert(q, Dtype::f32), convert(k, Dtype::f32), convert(v, Dtype::f32), options);
        wide.out = convert(wide.out, dtype);
        expect_same(testing::attend(q, k, v, options), wide);
      }
    }
  }
}

// One key alone has weight 1: the output is its value, whatever that is.
TEST_P(AttentionStorage, OneKeyGivesItsValueBack) {
  for (const Dtype dtype : kHalves) {
    constexpr std::int64_t kStep = 512;
    for (std::int64_t first = 0; first < 0x10000; first += kStep) {
      std::vector<std::uint16_t> patterns;
      for (std::int64_t i = 0; i < kStep; ++i) patterns.push_back(static_cast<std::uint16_t>(first + i));
      const Tensor bits = Tensor::of({1, kStep}, patterns);
      const TensorView v(bits.view().bytes(), dtype, {1, kStep});
      const Tensor one = testing::filled({1, 4}, 1, dtype);
      Tensor out = Tensor::zeros({1, kStep}, dtype);
      attention(one, one, v, out);
      ASSERT_EQ(testing::difference(out, v), 0) << name_of(dtype) << " from pattern " << first;
    }
  }
}

}  // namespace
}  // namespace qkv
