// Buckets of relative positions: by hand, and those of the models' own code (golden/relative_table/make.py).
#include "qkv/attention/relative_table.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "io/files_for_test.h"
#include "qkv/files.h"

namespace qkv {
namespace {

TEST(RelativeTable, ClippedByHand) {
  const Tensor values = Tensor::zeros({5, 2});
  const RelativeTable table = RelativeTable::clipped(values);
  EXPECT_EQ(table.bucket(0, 0), 2);
  EXPECT_EQ(table.bucket(3, 4), 3);
  EXPECT_EQ(table.bucket(4, 3), 1);
  EXPECT_EQ(table.bucket(0, 100), 4);
  EXPECT_EQ(table.bucket(100, 0), 0);
  EXPECT_EQ(table.bucket(-5, 0), 4);
}

// A window of 2 rows and 3 columns; the table has 3 x 5 rows.
TEST(RelativeTable, SwinByHand) {
  const Tensor values = Tensor::zeros({15, 1});
  const RelativeTable table = RelativeTable::swin(values, 2, 3);
  EXPECT_EQ(table.bucket(0, 0), 7);   // no way: (1, 2)
  EXPECT_EQ(table.bucket(5, 0), 14);  // one down, two right: (2, 4)
  EXPECT_EQ(table.bucket(0, 5), 0);   // (0, 0)
  EXPECT_EQ(table.bucket(2, 3), 4);   // one up, two right: (0, 4)
  EXPECT_EQ(table.bucket(1, 2), 6);   // one left: (1, 1)
}

// Rows: buckets, bidirectional, max_distance, j - p, bucket from there on.
TEST(RelativeTable, T5LikeTheModelsOwnCode) {
  const Tensor golden = convert(read_array(QKV_TEST_DATA "/golden/relative_table/t5.csv"), Dtype::i64);
  ASSERT_GT(golden.size(0), 100);
  const auto at = [&](std::int64_t row, std::int64_t column) { return golden.view().at<std::int64_t>({row, column}); };
  for (std::int64_t row = 0; row + 1 < golden.size(0); ++row) {
    const Tensor values = Tensor::zeros({at(row, 0), 1});
    const RelativeTable table = RelativeTable::t5(values, {at(row, 1) != 0, at(row, 2)});
    const bool last = at(row, 3) >= at(row + 1, 3);  // then another setting begins
    for (std::int64_t d = at(row, 3); d < (last ? at(row, 3) + 1000 : at(row + 1, 3)); ++d) {
      ASSERT_EQ(table.bucket(-d, 0), at(row, 4)) << "row " << row << ", distance " << d;
      ASSERT_EQ(table.bucket(1000, 1000 + d), at(row, 4));
    }
  }
}

TEST(RelativeTable, RefusesWhatDoesNotFit) {
  const auto message = [](const auto& make) { return test::message_of<std::invalid_argument>(make); };
  const auto zeros = [](const Dims& shape, Dtype dtype = Dtype::f32) { return Tensor::zeros(shape, dtype); };
  const Tensor even = zeros({4, 2}), odd = zeros({5, 2}), flat = zeros({5}), integers = zeros({5, 2}, Dtype::i32);
  EXPECT_EQ(message([&] { RelativeTable::clipped(even); }),
            "relative table: clipped values [4, 2] must have 2 n + 1 rows");
  EXPECT_NE(message([&] { RelativeTable::clipped(flat); }).find("[5] must be [buckets, heads]"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::clipped(integers); }).find("i32"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::t5(odd); }).find("an even number of rows"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::t5(even, {.max_distance = 1}); }).find("must be 2 to"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::swin(odd, 2, 2); }).find("(2 * 2 - 1) * (2 * 2 - 1)"), std::string::npos);
  EXPECT_NE(message([&] { RelativeTable::swin(odd, 0, 2); }).find("0 x 2"), std::string::npos);
}

}  // namespace
}  // namespace qkv
