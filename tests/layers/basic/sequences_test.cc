// Offsets of lengths, and the lengths that are refused.
#include "qkv/layers/sequences.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace qkv {
namespace {

TEST(Sequences, OffsetsAreRunningSums) {
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{3, 0, 4});
  EXPECT_EQ(std::vector<std::int32_t>(offsets.data<std::int32_t>(), offsets.data<std::int32_t>() + 4),
            (std::vector<std::int32_t>{0, 3, 3, 7}));
  EXPECT_EQ(offsets_of({}).shape(), (Dims{1}));
}

TEST(Sequences, OffsetsRefuseWhatDoesNotFitInThem) {
  EXPECT_THROW(offsets_of(std::vector<std::int64_t>{2, -1}), std::invalid_argument);
  EXPECT_THROW(offsets_of(std::vector<std::int64_t>{std::int64_t{1} << 30, std::int64_t{1} << 30}),
               std::invalid_argument);
}

}  // namespace
}  // namespace qkv
