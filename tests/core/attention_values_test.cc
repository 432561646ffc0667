// Masks, biases, scores and relative tables as values: what each part says, what `&` and `+` make of two, and what is
// refused. Blocks of boolean masks stand beside a scan of every pair; buckets of T5 are those of the models' own code
// (golden/relative_table/make.py).
#include "attention/attention_testing.h"
#include "attention/options/compiled_mask.h"
#include "attention/options/mask_kinds.h"
#include "core/core_for_test.h"
#include "io/files_for_test.h"
#include "qkv/attention/bias.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/relative_table.h"
#include "qkv/attention/score.h"
#include "qkv/files.h"

namespace qkv {
namespace {

constexpr auto kTop = Align::top_left, kBottom = Align::bottom_right;

TEST(Mask, IsAnInterval) {
  const struct {
    const char* name;
    Mask mask;
    std::optional<Align> align;
    std::int64_t left, right, step = 1;
  } rows[] = {
      {"none", Mask(), {}, -1, -1},
      {"causal", Mask::causal(), {}, -1, 0},
      {"causal at the top", Mask::causal(kTop), kTop, -1, 0},
      {"causal at the bottom", Mask::causal(kBottom), kBottom, -1, 0},
      {"aligned window", Mask::window(1, 1, kBottom), kBottom, 1, 1},
      {"the tighter bounds", Mask::window(3, 5) & Mask::window(4, -1) & Mask::window(-1, 2), {}, 3, 2},
      {"window and causal", Mask::window(3, 2) & Mask::causal(), {}, 3, 0},
      {"causal and window", Mask::causal() & Mask::window(3, 2), {}, 3, 0},
      {"causal takes an alignment", Mask::causal() & Mask::window(1, 1, kBottom), kBottom, 1, 0},
      {"window takes an alignment", Mask::window(1, 1) & Mask::causal(kBottom), kBottom, 1, 0},
      {"window leaves an alignment", Mask::causal(kBottom) & Mask::window(1, 1), kBottom, 1, 0},
      {"dilated", Mask::dilated(3, -1, 4), {}, 12, -1, 4},
      {"dilated by nothing", Mask::dilated(0, 0, 7), {}, 0, 0, 7},
      {"dilated to the right", Mask::dilated(-1, 2, 5), {}, -1, 10, 5},
      {"least common multiple", Mask::dilated(-1, -1, 4) & Mask::dilated(-1, -1, 6), {}, -1, -1, 12},
      {"dilated and causal", Mask::dilated(-1, -1, 4) & Mask::causal(), {}, -1, 0, 4},
  };
  for (const auto& row : rows) {
    const MaskBounds bounds = bounds_of(row.mask);
    EXPECT_EQ(std::tuple(row.mask.align(), bounds.left, bounds.right, bounds.step),
              std::tuple(row.align, row.left, row.right, row.step))
        << row.name;
  }
  EXPECT_TRUE(Mask().parts().empty());
  // Nothing overflows; beyond every distance of a call is the query's own position alone.
  constexpr std::int64_t kFar = std::int64_t{1} << 31;
  EXPECT_GE(bounds_of(Mask::dilated(std::int64_t{1} << 62, 1, 1 << 20)).left, kFar);
  EXPECT_GT(bounds_of(Mask::dilated(-1, -1, kFar - 1) & Mask::dilated(-1, -1, kFar / 2 + 1)).step, kFar);
  const Tensor counts = Tensor::zeros({2}, Dtype::i32);
  test::expect_each_refused(
      {[] { Mask::causal(kTop) & Mask::causal(kBottom); }, [&] { Mask::prefix(counts, kTop) & Mask::causal(kBottom); },
       [] { Mask::window(-2, 0); }, [] { Mask::window(0, -2); }, [] { Mask::dilated(-2, 1, 2); },
       [] { Mask::dilated(1, -2, 2); }, [] { Mask::dilated(1, 1, 0); }, [] { Mask::dilated(1, 1, -3); }});
}

TEST(Mask, KeepsAllParts) {
  const Tensor lengths = Tensor::zeros({2}, Dtype::i64), visible = Tensor::zeros({3, 4}, Dtype::boolean);
  const Mask mask = Mask::lengths(lengths) & Mask::boolean(visible) & Mask::boolean(visible);
  const Mask all = Mask::documents(lengths) & (mask & Mask::documents(lengths, visible)) & Mask::lengths(lengths);
  const std::tuple<MaskKind, Dims, Dims> wanted[] = {
      {MaskKind::documents, {2}, {2}}, {MaskKind::lengths, {2}, {}},       {MaskKind::boolean, {3, 4}, {}},
      {MaskKind::boolean, {3, 4}, {}}, {MaskKind::documents, {2}, {3, 4}}, {MaskKind::lengths, {2}, {}}};
  ASSERT_EQ(all.parts().size(), std::size(wanted));
  for (std::size_t n = 0; n < std::size(wanted); ++n) {
    const Mask::Part& part = all.parts()[n];
    EXPECT_EQ(std::tuple(part.kind, part.arrays[0].shape(), part.arrays[1].shape()), wanted[n]) << n;
  }
  const Tensor counts = Tensor::zeros({2}, Dtype::i32);
  EXPECT_EQ(Mask::prefix(counts).align(), std::nullopt);
  EXPECT_EQ(Mask::prefix(counts, kBottom).align(), kBottom);
}

// Every block of a mask [planes, queries, keys], element by element.
void expect_blocks(const TensorView& mask, int threads) {
  const BooleanBlocks blocks(mask, threads);
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
        const std::int64_t row = i / BooleanBlocks::kQueries, column = j / BooleanBlocks::kKeys;
        const auto bit = [&](const TensorView& words) {
          return (words.at<std::int64_t>({n, row, column / 64}) >> column % 64 & 1) != 0;
        };
        EXPECT_EQ(bit(blocks.some()), seen > 0) << n << ", " << row << ", " << column;
        EXPECT_EQ(bit(blocks.every()), seen == pairs) << n << ", " << row << ", " << column;
      }
    }
  }
}

TEST(BooleanBlocks, AreThoseOfTheElements) {
  Random random(1);
  for (const auto& [queries, keys] : {std::pair{1, 2}, {16, 8}, {17, 9}, {5, 512}, {33, 1030}}) {
    for (const double visible : {0.02, 0.5, 0.99}) {
      Tensor mask = testing::coin_flips(random, {2, queries, keys}, visible);
      expect_blocks(mask, 2);
      testing::repeat_in_squares(mask, 24);
      expect_blocks(mask, 1);
    }
  }
}

// Any byte but zero is visible, at any stride.
TEST(BooleanBlocks, OfAnyBytes) {
  Tensor bytes = Tensor::zeros({2, 40, 48}, Dtype::u8);
  for (std::int64_t i = 0; i < bytes.element_count(); ++i)
    bytes.data<std::uint8_t>()[i] = i % 97 < 60 ? 0x80 >> i % 8 : 0;
  expect_blocks(bytes, 1);
  expect_blocks(bytes.view().transpose(1, 2), 1);
  expect_blocks(bytes.view().slice(1, 3, 4).broadcast_to({2, 20, 48}), 1);
  const Tensor column = Tensor::zeros({8, 1}, Dtype::boolean), none = Tensor::zeros({0, 8}, Dtype::boolean);
  const Tensor numbers = Tensor::zeros({8, 8});
  for (const Tensor* other : {&column, &none, &numbers}) EXPECT_FALSE(BooleanBlocks(*other, 1).are_known());
}

TEST(BooleanBlocks, AreMadeOnceAndShared) {
  const Tensor visible = Tensor::zeros({8, 8}, Dtype::boolean);
  const Mask plain = Mask::causal() & Mask::boolean(visible);
  EXPECT_FALSE(plain.is_compiled());
  EXPECT_TRUE(Mask::causal().is_compiled());
  const Mask compiled = plain.compiled();
  EXPECT_TRUE(compiled.is_compiled());
  EXPECT_EQ(compiled.compiled().parts()[1].blocks, compiled.parts()[1].blocks);
  EXPECT_FALSE((compiled & Mask::boolean(visible)).is_compiled());
}

TEST(Bias, SumKeepsEveryPart) {
  const Tensor values = Tensor::zeros({3, 4}), slopes = Tensor::zeros({2});
  EXPECT_TRUE(Bias().empty());
  EXPECT_FALSE(Bias::view(values).empty() || Bias::alibi(slopes).empty());
  const Bias bias = Bias::view(values) + Bias::alibi(slopes) + Bias::view(values);
  ASSERT_EQ(bias.views().size(), 2u);
  EXPECT_EQ(bias.views()[1].shape(), (Dims{3, 4}));
  ASSERT_EQ(bias.alibi_slopes().size(), 1u);
  EXPECT_EQ(bias.alibi_slopes()[0].shape(), (Dims{2}));
  const Bias table = Bias::clipped(values), tables = table + (bias + table);
  EXPECT_FALSE(table.empty());
  ASSERT_EQ(tables.tables().size(), 2u);
  EXPECT_EQ(tables.tables()[1].values().shape(), (Dims{3, 4}));
}

const Tensor kHiddenByFour = Tensor::zeros({3, 4}), kHiddenByFive = Tensor::zeros({3, 5}), kHidden = Tensor::zeros({3});
const Tensor kOther = Tensor::zeros({2}), kOtherByFive = Tensor::zeros({2, 5}), kCube = Tensor::zeros({3, 4, 5});

TEST(Score, RefusesParametersThatDoNotFit) {
  test::expect_each_refused({[] { Score::additive(kCube, kHiddenByFive, kHidden); },
                             [] { Score::additive(kHiddenByFour, kOtherByFive, kHidden); },
                             [] { Score::additive(kHiddenByFour, kHiddenByFive, kOther); },
                             [] { Score::concat(kHidden, kHidden); }, [] { Score::concat(kHiddenByFour, kOther); },
                             [] { Score::bilinear(kCube); }});
}

TEST(RelativeTable, BucketsByHand) {
  const Tensor five = Tensor::zeros({5, 2}), fifteen = Tensor::zeros({15, 1});
  const RelativeTable clipped = RelativeTable::clipped(five);
  // A window of 2 rows and 3 columns; the table has 3 x 5 rows.
  const RelativeTable swin = RelativeTable::swin(fifteen, 2, 3);
  const struct {
    const RelativeTable& table;
    std::int64_t query, key, bucket;
  } rows[] = {
      {clipped, 0, 0, 2},   {clipped, 3, 4, 3},  {clipped, 4, 3, 1}, {clipped, 0, 100, 4},
      {clipped, 100, 0, 0}, {clipped, -5, 0, 4}, {swin, 0, 0, 7},  // no way: (1, 2)
      {swin, 5, 0, 14},                                            // one down, two right: (2, 4)
      {swin, 0, 5, 0},                                             // (0, 0)
      {swin, 2, 3, 4},                                             // one up, two right: (0, 4)
      {swin, 1, 2, 6},                                             // one left: (1, 1)
  };
  for (const auto& row : rows) EXPECT_EQ(row.table.bucket(row.query, row.key), row.bucket) << row.query << row.key;
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
  const auto zeros = [](const Dims& shape, Dtype dtype = Dtype::f32) { return Tensor::zeros(shape, dtype); };
  const Tensor even = zeros({4, 2}), odd = zeros({5, 2}), flat = zeros({5}), integers = zeros({5, 2}, Dtype::i32);
  const std::pair<std::function<void()>, std::string> rows[] = {
      {[&] { RelativeTable::clipped(even); }, "relative table: clipped values [4, 2] must have 2 n + 1 rows"},
      {[&] { RelativeTable::clipped(flat); }, "[5] must be [buckets, heads]"},
      {[&] { RelativeTable::clipped(integers); }, "i32"},
      {[&] { RelativeTable::t5(odd); }, "an even number of rows"},
      {[&] { RelativeTable::t5(even, {.max_distance = 1}); }, "must be 2 to"},
      {[&] { RelativeTable::swin(odd, 2, 2); }, "(2 * 2 - 1) * (2 * 2 - 1)"},
      {[&] { RelativeTable::swin(odd, 0, 2); }, "0 x 2"},
  };
  for (const auto& [make, part] : rows) {
    const std::string message = test::message_of<std::invalid_argument>(make);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace qkv
