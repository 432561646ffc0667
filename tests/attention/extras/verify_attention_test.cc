// The receipt finds what is wrong with an output, and little in a right one.
#include "qkv/attention/verify_attention.h"

#include "attention/attention_testing.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::normal;

QKV_ON_EACH_TARGET(VerifyAttention);

TEST_P(VerifyAttention, ARightOutput) {
  Random random(1);
  const Tensor q = normal(random, {2, 4, 70, 16}), k = normal(random, {2, 2, 90, 16});
  const AttentionOptions options{.mask = Mask::causal(Align::bottom_right) & Mask::window(40, 0), .soft_cap = 20};
  const Tensor out = attention(q, k, k, options);
  const AttentionReceipt receipt = verify_attention(q, k, k, out, options, 1000000);
  EXPECT_EQ(receipt.rows, 2 * 4 * 70);
  const Tensor exact = reference::attention(q, k, k, options).out;
  EXPECT_EQ(receipt.worst_error, testing::difference(out, exact));
  EXPECT_EQ(receipt.largest_value, testing::largest(exact));
  EXPECT_EQ(verify_attention(q, k, k, exact, options, 1000000).worst_error, 0);
}

TEST(VerifyAttentionRows, FindsAWrongElement) {
  Random random(2);
  const Tensor q = normal(random, {9, 4, 8}), k = normal(random, {12, 2, 8});
  const Tensor q_offsets = Tensor::of<std::int32_t>({4}, {0, 3, 3, 9});
  const Tensor k_offsets = Tensor::of<std::int32_t>({4}, {0, 4, 5, 12});
  const AttentionOptions options{.offsets_query = q_offsets, .offsets_key = k_offsets};
  Tensor out = attention(q, k, k, options);
  EXPECT_LT(verify_attention(q, k, k, out, options, 36).worst_error, 1e-6);
  out.view().at<float>({7, 3, 5}) += 1;  // query 4 of sequence 2
  const AttentionReceipt receipt = verify_attention(q, k, k, out, options, 36);
  EXPECT_NEAR(receipt.worst_error, 1, 1e-6);
  EXPECT_EQ(receipt.sequence, 2);
  EXPECT_EQ(receipt.head, 3);
  EXPECT_EQ(receipt.query, 4);
  out.view().at<float>({7, 3, 5}) = static_cast<float>(testing::kNan);
  EXPECT_EQ(verify_attention(q, k, k, out, options, 36).worst_error, testing::kInfinity);
  EXPECT_EQ(verify_attention(q, k, k, out, options, 5).rows, 5);
  EXPECT_EQ(verify_attention(q, k, k, out, options, 0).rows, 0);
  EXPECT_THROW(verify_attention(q, k, k, out, options, -1), std::invalid_argument);
  EXPECT_THROW(verify_attention(q, k, k, k, options), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
