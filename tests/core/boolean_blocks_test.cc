// Blocks of boolean views against a scan of every pair.
#include <gtest/gtest.h>

#include <algorithm>

#include "attention/attention_testing.h"
#include "core/compiled_mask.h"
#include "qkv/attention/mask.h"

namespace qkv {
namespace {

bool bit(const TensorView& words, Dims block) {
  const std::int64_t key_block = block[block.size() - 1];
  block[block.size() - 1] = key_block / 64;
  return (static_cast<std::uint64_t>(words.at<std::int64_t>(block)) >> key_block % 64 & 1) != 0;
}

// Every block of a mask [planes, queries, keys], element by element.
void expect_blocks(const TensorView& mask, const BooleanBlocks& blocks) {
  ASSERT_TRUE(blocks.are_known());
  const Tensor copy = convert(mask, Dtype::f64);
  for (std::int64_t n = 0; n < mask.size(0); ++n) {
    for (std::int64_t i = 0; i < mask.size(1); i += BooleanBlocks::kQueries) {
      for (std::int64_t j = 0; j < mask.size(2); j += BooleanBlocks::kKeys) {
        std::int64_t seen = 0, pairs = 0;
        for (std::int64_t y = i; y < std::min(i + BooleanBlocks::kQueries, mask.size(1)); ++y) {
          for (std::int64_t x = j; x < std::min(j + BooleanBlocks::kKeys, mask.size(2)); ++x, ++pairs) {
            seen += copy.view().at<double>({n, y, x}) != 0;
          }
        }
        const Dims block{n, i / BooleanBlocks::kQueries, j / BooleanBlocks::kKeys};
        EXPECT_EQ(bit(blocks.some(), block), seen > 0) << to_string(block);
        EXPECT_EQ(bit(blocks.every(), block), seen == pairs) << to_string(block);
      }
    }
  }
}

TEST(BooleanBlocks, AreThoseOfTheElements) {
  Random random(1);
  for (const auto& [queries, keys] : {std::pair{1, 2}, {16, 8}, {17, 9}, {5, 512}, {33, 1030}}) {
    for (const double visible : {0.02, 0.5, 0.99}) {
      Tensor mask = testing::coin_flips(random, {2, queries, keys}, visible);
      expect_blocks(mask, BooleanBlocks(mask, 2));
      testing::repeat_in_squares(mask, 24);
      expect_blocks(mask, BooleanBlocks(mask, 1));
    }
  }
}

TEST(BooleanBlocks, AnyByteButZeroIsVisibleAtAnyStride) {
  Tensor bytes = Tensor::zeros({2, 40, 48}, Dtype::u8);
  for (std::int64_t i = 0; i < bytes.element_count(); ++i)
    bytes.data<std::uint8_t>()[i] = i % 97 < 60 ? 0x80 >> i % 8 : 0;
  expect_blocks(bytes, BooleanBlocks(bytes, 1));
  expect_blocks(bytes.view().transpose(1, 2), BooleanBlocks(bytes.view().transpose(1, 2), 1));
  const TensorView repeated = bytes.view().slice(1, 3, 4).broadcast_to({2, 20, 48});
  expect_blocks(repeated, BooleanBlocks(repeated, 1));
}

TEST(BooleanBlocks, KnowNothingOfWhatHasNoBlocks) {
  const Tensor column = Tensor::zeros({8, 1}, Dtype::boolean), none = Tensor::zeros({0, 8}, Dtype::boolean);
  const Tensor numbers = Tensor::zeros({8, 8});
  for (const Tensor* mask : {&column, &none, &numbers}) EXPECT_FALSE(BooleanBlocks(*mask, 1).are_known());
}

TEST(BooleanBlocks, AreMadeOnceAndShared) {
  const Tensor visible = Tensor::zeros({8, 8}, Dtype::boolean);
  const Mask plain = Mask::causal() & Mask::boolean(visible);
  EXPECT_FALSE(plain.is_compiled());
  EXPECT_TRUE(Mask::causal().is_compiled());
  const Mask compiled = plain.compiled();
  EXPECT_TRUE(compiled.is_compiled());
  EXPECT_EQ(compiled.compiled().boolean_blocks(), compiled.boolean_blocks());
  EXPECT_FALSE((compiled & Mask::boolean(visible)).is_compiled());
}

}  // namespace
}  // namespace qkv
