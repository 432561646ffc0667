// Products end where a scope asks them to stop: one question at least for so many multiply-adds on one thread as the
// slowest target does in 50 ms.
#include "attention/attention_testing.h"
#include "qkv/matmul.h"
#include "qkv/target.h"
#include "stop_for_test.h"

namespace qkv {
namespace {

using test::expect_stops;
using testing::normal;

QKV_ON_EACH_TARGET(LayersStop);

TEST_P(LayersStop, InProducts) {
  Random random(1);
  const std::int64_t m = 3, k = 50'000, n = 7;  // deep
  const Tensor a = normal(random, {m, k}), b = normal(random, {k, n});
  Tensor out = Tensor::zeros({m, n});
  const PackedMatrix packed(b);
  expect_stops([&] { matmul(a, packed, out, {.threads = 1}); });
  EXPECT_GE(test::questions_of([&] { matmul(a, packed, out, {.threads = 1}); }), k / 8192);
  expect_stops([&] { PackedMatrix(b, 1); });
  Tensor square = Tensor::zeros({n, n});
  const auto transposed = [&] { matmul_transposed(packed, packed, square, {.threads = 1}); };
  expect_stops(transposed);
  EXPECT_GE(test::questions_of(transposed), k / 8192);
  const Tensor wide = normal(random, {300, 1000}), all = normal(random, {1000, 500});
  Tensor result = Tensor::zeros({300, 500});
  expect_stops([&] { matmul(wide, PackedMatrix(all, 1), result, {.threads = 1}); }, 300 * 1000.0 * 500);
}

// Sums of ones count the multiply-adds that are done; vectors of them are what takes the time.
TEST_P(LayersStop, LittleIsDoneBetweenTwoQuestionsOfAProduct) {
  std::int64_t lanes = 1;
  for (const Target& target : targets()) {
    if (target.selected) lanes = target.lanes;
  }
  const std::int64_t m = 300, k = 2 * 8192 + 100, n = 6 * lanes + 1;
  const auto largest = [&](const Tensor& out, const std::function<void()>& product) {
    return test::largest_gap(product, [&] {
      const double done = std::accumulate(out.data<float>(), out.data<float>() + out.element_count(), 0.0);
      return static_cast<std::int64_t>(done) / lanes;
    });
  };
  const Tensor a = testing::filled({m, k}, 1), b = testing::filled({k, n}, 1);
  for (const WeightStorage storage :
       {WeightStorage::full, WeightStorage::bf16, WeightStorage::int8, WeightStorage::int8_groups}) {
    const PackedMatrix packed(b, 1, storage);
    Tensor out = Tensor::zeros({m, n});
    const std::int64_t gap = largest(out, [&] { matmul(a, packed, out, {.threads = 1}); });
    EXPECT_NEAR(out.data<float>()[m * n - 1], static_cast<double>(k), 1);
    EXPECT_GT(gap, 0);
    EXPECT_LE(gap, kStopWork);
  }
  const PackedMatrix left(testing::filled({k, m}, 1), 1), right(b, 1);
  Tensor out = Tensor::zeros({m, n});
  EXPECT_LE(largest(out, [&] { matmul_transposed(left, right, out, {.threads = 1}); }), kStopWork);
}

// Pieces of the depth give the bits of one.
TEST_P(LayersStop, PiecesOfADeepProductDoNotShow) {
  Random random(2);
  const std::int64_t m = 5, k = 2 * 8192 + 700, n = 50, first = 512 * 20;
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Tensor a = normal(random, {m, k}, dtype), b = normal(random, {k, n}, dtype),
                 bias = normal(random, {n}, dtype);
    Tensor whole = Tensor::zeros({m, n}, dtype), parts = whole;
    matmul(a, b, whole, {.bias = bias});
    matmul(a.view().slice(1, 0, first), b.view().slice(0, 0, first), parts);
    matmul(a.view().slice(1, first, k), b.view().slice(0, first, k), parts, {.bias = bias, .accumulate = true});
    EXPECT_TRUE(testing::same_bits(whole, parts));
    // And of a transposed one.
    const Tensor left = normal(random, {k, m}, dtype);
    const auto rows_of = [&](const Tensor& matrix, std::int64_t begin, std::int64_t end) {
      return PackedMatrix(matrix.view().slice(0, begin, end));
    };
    matmul_transposed(rows_of(left, 0, k), rows_of(b, 0, k), whole);
    matmul_transposed(rows_of(left, 0, first), rows_of(b, 0, first), parts);
    matmul_transposed(rows_of(left, first, k), rows_of(b, first, k), parts, {.accumulate = true});
    EXPECT_TRUE(testing::same_bits(whole, parts));
  }
}

}  // namespace
}  // namespace qkv
