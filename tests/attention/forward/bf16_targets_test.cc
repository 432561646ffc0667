// Targets that add instructions of bf16 to those of AVX-512 have its bits where these do not multiply.
#include "attention/attention_testing.h"

namespace qkv {
namespace {

// has_own: whether instructions of `target` that AVX-512 lacks multiply numbers of this type.
void expect_bits_of_avx512(const std::string& target, bool (*has_own)(Dtype, std::int64_t q_len)) {
  if (!testing::has_target(target)) GTEST_SKIP() << "no " << target << " here";
  Random random(6);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    for (const std::int64_t q_len : {1, 2, 130}) {
      const Tensor q = testing::normal(random, {2, q_len, 48}, dtype),
                   k = testing::normal(random, {2, 1100, 48}, dtype);
      select_target("avx512");
      const testing::Outcome vectors = testing::attend(q, k, k);
      select_target(target);
      const testing::Outcome own = testing::attend(q, k, k);
      SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", queries " << q_len);
      if (has_own(dtype, q_len)) {
        EXPECT_FALSE(testing::same_bits(own.logits, vectors.logits));
      } else {
        expect_same(own, vectors);
      }
    }
  }
  select_target("");
}

TEST(Bf16Targets, PairsMultiplyBf16Alone) {
  expect_bits_of_avx512("avx512-bf16", [](Dtype dtype, std::int64_t) { return dtype == Dtype::bf16; });
}

TEST(Bf16Targets, TilesMultiplySeveralQueriesOf16BitsAlone) {
  expect_bits_of_avx512("amx", [](Dtype dtype, std::int64_t q_len) { return size_of(dtype) == 2 && q_len > 1; });
}

}  // namespace
}  // namespace qkv
