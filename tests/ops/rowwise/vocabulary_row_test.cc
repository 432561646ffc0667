// Largest logits and sums of rows of a vocabulary against plain loops.
#include "attention/attention_testing.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(VocabularyRow);

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(std::size_t count, double spread) {
  Random random(count);
  std::vector<float> row(count);
  for (float& x : row) x = static_cast<float>(spread * random.normal());
  return row;
}

TEST_P(VocabularyRow, LogSumExpIsThatOfDoubles) {
  for (const std::size_t count : {1, 2, 3, 7, 15, 16, 17, 33, 1000, 8003}) {
    for (const double spread : {0.0, 1.0, 100.0, 1e30}) {
      const std::vector<float> row = random_row(count, spread);
      const double top = static_cast<double>(*std::max_element(row.begin(), row.end()));
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
      // The sum of positive powers, each with a relative error of a few 2^-24, times a logarithm's slope of 1.
      EXPECT_NEAR(log_sum_exp(row), top + std::log(sum), 2e-6 + 1e-7 * std::abs(top)) << count << " " << spread;
    }
  }
}

TEST_P(VocabularyRow, LogSumExpOfHostileRows) {
  const std::pair<std::vector<float>, double> rows[] = {{{}, -testing::kInfinity},
                                                        {{-kInfinity, -kInfinity}, -testing::kInfinity},
                                                        {{1, kInfinity}, testing::kInfinity},
                                                        {{-kInfinity, 3}, 3}};
  for (const auto& [row, sum] : rows) EXPECT_EQ(log_sum_exp(row), sum);
  for (std::size_t place = 0; place < 19; ++place) {
    std::vector<float> row(19, 1.0f);
    row[place] = kNan;
    EXPECT_TRUE(std::isnan(log_sum_exp(row))) << place;
  }
}

TEST_P(VocabularyRow, LargestLogitsAreThoseOfASort) {
  for (const std::size_t count : {1, 2, 15, 16, 17, 100, 8003}) {
    std::vector<float> row = random_row(count, 3);
    for (float& x : row) x = std::round(x);  // many equal ones
    std::vector<TokenLogit> sorted;
    for (std::size_t i = 0; i < count; ++i) sorted.push_back({row[i], static_cast<std::int32_t>(i)});
    std::stable_sort(sorted.begin(), sorted.end(), [](auto a, auto b) { return a.logit > b.logit; });
    for (const std::size_t wanted : {1, 2, 8, 200}) {
      SCOPED_TRACE(std::to_string(wanted) + " of " + std::to_string(count));
      std::vector<TokenLogit> best(wanted);
      const std::size_t found = largest_logits(row, best);
      ASSERT_EQ(found, std::min(wanted, count));
      for (std::size_t i = 0; i < found; ++i) {
        EXPECT_EQ(best[i].token, sorted[i].token);
        EXPECT_EQ(best[i].logit, sorted[i].logit);
      }
    }
  }
}

TEST_P(VocabularyRow, LargestLogitsPassOverWhatIsNoNumber) {
  std::vector<float> row(40, kNan);
  row[17] = -kInfinity, row[39] = -2, row[3] = kInfinity;
  std::vector<TokenLogit> best(5);
  ASSERT_EQ(largest_logits(row, best), 2u);
  EXPECT_EQ(best[0].token, 3);
  EXPECT_EQ(best[1].token, 39);
}

}  // namespace
}  // namespace qkv
