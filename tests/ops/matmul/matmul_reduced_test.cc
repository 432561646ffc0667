// Products of reduced precision: the sums of TDPBF16PS, on every target and by emulated tiles, and those of VDPBF16PS,
// both written down anew from their documentation.
#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "ops/matmul/matmul_columns.h"
#include "ops/matmul/tiled_panel.h"
#include "qkv/matmul.h"
#include "qkv/target.h"
#include "simd/tile_emulation.h"

namespace qkv {
namespace {

QKV_ON_EACH_TARGET(MatmulReduced);

Tensor normal_matrix(const Dims& shape, std::uint64_t seed, double scale) {
  Random random(seed);
  return testing::normal(random, shape, Dtype::f32, scale);
}

float factor(float x) { return testing::flushed(static_cast<float>(BFloat16(testing::flushed(x)))); }

float element(const TensorView& view, std::int64_t i, std::int64_t k) {
  return factor(view.data<float>()[i * view.stride(0) + k * view.stride(1)]);
}

// Element [row][column] of a b^T after `start` was there; b [n, k].
float summed(const TensorView& a, const TensorView& b, std::int64_t row, std::int64_t column, float start) {
  if (a.size(1) == 0) return start;  // even if subnormal
  float sum = testing::flushed(start);
  for (std::int64_t first = 0; first < a.size(1); first += 32) {
    float halves[2] = {};
    for (std::int64_t k = first; k < std::min(first + 32, a.size(1)); ++k) {
      halves[k % 2] = testing::flushed(std::fma(element(a, row, k), element(b, column, k), halves[k % 2]));
    }
    sum = testing::flushed(sum + testing::flushed(halves[0] + halves[1]));
  }
  return sum;
}

// The same by VDPBF16PS, 512 pairs a sum.
float summed_in_pairs(const TensorView& a, const TensorView& b, std::int64_t row, std::int64_t column, float start) {
  float sum = testing::flushed(start);
  for (std::int64_t first = 0; first < a.size(1); first += 1024) {
    float of_pairs = 0;
    for (std::int64_t k = first; k < std::min(first + 1024, a.size(1) + a.size(1) % 2); ++k) {
      const std::int64_t other = k ^ 1;  // the second of a pair first
      if (other >= a.size(1)) continue;
      of_pairs = testing::flushed(std::fma(element(a, row, other), element(b, column, other), of_pairs));
    }
    sum = testing::flushed(sum + of_pairs);
  }
  return sum;
}

using Sum = decltype(&summed);

struct ReducedSizes {
  std::int64_t m, k, n;
};

// Depths around a chain and around a stretch of the panel; 17 rows and more widen panels.
constexpr ReducedSizes kReducedSizes[] = {{1, 1, 1},     {3, 7, 5},      {8, 64, 48}, {9, 65, 49},
                                          {13, 0, 5},    {17, 1100, 31}, {40, 33, 9}, {300, 20, 3},
                                          {2, 2100, 50}, {35, 192, 53},  {64, 96, 64}};

// The storages that the selected target multiplies by.
std::vector<std::pair<WeightStorage, Sum>> storages() {
  if (selected_target() != "avx512-bf16") return {{WeightStorage::reduced, summed}};
  return {{WeightStorage::reduced, summed}, {WeightStorage::reduced_pairs, summed_in_pairs}};
}

// Of products that are subnormal, or whose sums are; and of ordinary ones.
std::vector<double> scales() {
  for (const Target& target : targets()) {
    if (target.selected && target.fused) return {1, 1e-19, 3e-20, 1e-37};
  }
  return {1};
}

void expect_summed(Sum sum, const TensorView& a, const TensorView& b, const TensorView& before, const TensorView& bias,
                   const TensorView& out) {
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    for (std::int64_t j = 0; j < out.size(1); ++j) {
      const float start = before ? before.data<float>()[i * out.size(1) + j] : 0;
      float expected = sum(a, b, i, j, start);
      if (bias) expected = testing::flushed(testing::flushed(expected) + testing::flushed(bias.data<float>()[j]));
      ASSERT_EQ(out.data<float>()[i * out.size(1) + j], expected) << i << ", " << j;
    }
  }
}

TEST_P(MatmulReduced, HasTheSumsOfTheInstruction) {
  for (const auto& [m, k, n] : kReducedSizes) {
    for (const double scale : scales()) {
      SCOPED_TRACE(::testing::Message() << m << " x " << k << " x " << n << ", " << scale);
      const Tensor a = normal_matrix({m, k}, 1, scale), b = normal_matrix({n, k}, 2, scale),
                   bias = normal_matrix({n}, 3, scale * scale), before = normal_matrix({m, n}, 4, scale * scale);
      for (const auto& [storage, sum] : storages()) {
        const PackedMatrix packed(b.view().transpose(0, 1), 0, storage);
        Tensor out = testing::filled({m, n}, testing::kNan);
        matmul(a, packed, out, {.threads = 3});
        expect_summed(sum, a, b, {}, {}, out);
        for (const TensorView& added : {bias.view(), TensorView()}) {
          out = Tensor::copy(before);
          matmul(a, packed, out, {.bias = added, .accumulate = true, .threads = 2});
          expect_summed(sum, a, b, before, added, out);
        }
      }
    }
  }
}

TEST_P(MatmulReduced, TransposedHasThemToo) {
  for (const auto& [k, m, n] : kReducedSizes) {
    SCOPED_TRACE(::testing::Message() << m << " x " << k << " x " << n);
    const Tensor wide = normal_matrix({k, m + 3}, 5, 1), b = normal_matrix({k, n}, 6, 1),
                 before = normal_matrix({m, n}, 7, 1);
    const TensorView part = wide.view().slice(1, 2, 2 + m);
    const Tensor a = Tensor::copy(part);
    for (const auto& [storage, sum] : storages()) {
      Tensor out = Tensor::copy(before);
      matmul_transposed(PackedMatrix(a), PackedMatrix(b, 0, storage), out, {.accumulate = true, .threads = 3});
      expect_summed(sum, a.view().transpose(0, 1), b.view().transpose(0, 1), before, {}, out);
      out = Tensor::copy(before);
      matmul_transposed_rows(part, PackedMatrix(b, 0, storage), out, {.accumulate = true, .threads = 2});
      expect_summed(sum, a.view().transpose(0, 1), b.view().transpose(0, 1), before, {}, out);
    }
  }
}

// Numbers that no bf16 holds, and what a sum passes beyond the largest float.
TEST_P(MatmulReduced, InfinitiesAndNan) {
  const double kinds[] = {1, -3e38, 3e38, 3.4e38, testing::kInfinity, testing::kNan};
  for (const double x : kinds) {
    for (const double y : kinds) {
      const Tensor a = testing::filled({1, 1}, x), b = testing::filled({1, 1}, y);
      for (const auto& [storage, sum] : storages()) {
        Tensor out = testing::filled({1, 1}, 0);
        matmul(a, PackedMatrix(b, 0, storage), out);
        const float expected = sum(a, b, 0, 0, 0), got = out.data<float>()[0];
        EXPECT_TRUE(got == expected || (std::isnan(got) && std::isnan(expected))) << x << " " << y << ": " << got;
      }
    }
  }
}

TEST_P(MatmulReduced, KeepsHalfTheMemory) {
  const Tensor b = normal_matrix({192, 96}, 8, 1);
  for (const auto& [storage, sum] : storages()) {
    const PackedMatrix packed(b, 0, storage);
    EXPECT_EQ(packed.panels().dtype(), Dtype::bf16);
    Tensor back = Tensor::uninitialized({192, 96});
    packed.unpack(back);
    EXPECT_TRUE(testing::same_bits(back, convert(convert(b, Dtype::bf16), Dtype::f32)));
  }
}

TEST_P(MatmulReduced, PairsNeedTheirTarget) {
  if (storages().size() == 2) return;
  EXPECT_EQ(test::message_of<std::invalid_argument>(
                [] { PackedMatrix(testing::filled({2, 2}, 1), 0, WeightStorage::reduced_pairs); }),
            "matmul: reduced_pairs needs the target avx512-bf16; the selected one is " + selected_target());
}

// Of the kernel for tiles, which few CPUs have: words of two neighbours by an emulation of the instruction.
TEST(TiledPanel, HasTheSumsOfTdpbf16ps) {
  std::vector<ReducedSizes> sizes(std::begin(kReducedSizes), std::end(kReducedSizes));
  sizes.insert(sizes.end(), {{40, 33, kTiledColumns}, {2 * kTiledRows, 2100, kTiledColumns}});  // whole tiles
  for (const auto& [m, k, n] : sizes) {
    if (n > kTiledColumns) continue;
    for (const double scale : {1.0, 1e-19, 3e-20}) {
      SCOPED_TRACE(::testing::Message() << m << " x " << k << " x " << n << ", " << scale);
      const Tensor a = normal_matrix({m, k}, 1, scale), b = normal_matrix({n, k}, 2, scale),
                   bias = normal_matrix({n}, 3, scale * scale), before = normal_matrix({m, n}, 4, scale * scale);
      const std::int64_t depth = (k + kTiledDepth - 1) / kTiledDepth * kTiledDepth;
      const std::int64_t rows = (m + kTiledRows - 1) / kTiledRows * kTiledRows;
      Tensor left = testing::filled({rows, depth}, 0, Dtype::bf16),
             panel = testing::filled({depth / 2, kTiledColumns, 2}, 0, Dtype::bf16);
      for (std::int64_t i = 0; i < m * k; ++i) {
        const std::int64_t row = i / k, at = i % k, tile = row / kTiledSide * depth / kTiledDepth + at / kTiledDepth;
        left.data<BFloat16>()[(tile * kTiledSide + row % kTiledSide) * kTiledDepth + at % kTiledDepth] =
            BFloat16(testing::flushed(a.data<float>()[i]));
      }
      for (std::int64_t i = 0; i < n * k; ++i) {
        const std::int64_t column = i / k, at = i % k;
        panel.data<BFloat16>()[(at / 2 * kTiledColumns + column) * 2 + at % 2] =
            BFloat16(testing::flushed(b.data<float>()[i]));
      }
      for (const TensorView& added : {bias.view(), TensorView()}) {
        constexpr float kBehind = 1e-40F;  // products would flush it
        Tensor room = testing::filled({rows, n}, kBehind);
        std::copy_n(before.data<float>(), m * n, room.data<float>());
        multiply_tiled_panel<testing::EmulatedTiles>({.left = reinterpret_cast<const float*>(left.data<BFloat16>()),
                                                      .left_stride = depth / 2,
                                                      .left_step = 1,
                                                      .rows = m,
                                                      .panel = panel.data<BFloat16>(),
                                                      .depth = depth,
                                                      .out = room.data<float>(),
                                                      .out_stride = n,
                                                      .columns = n,
                                                      .bias = added ? bias.data<float>() : nullptr,
                                                      .accumulate = true});
        expect_summed(summed, a, b, before, added, room.view().slice(0, 0, m));
        for (std::int64_t i = m * n; i < rows * n; ++i) ASSERT_EQ(room.data<float>()[i], kBehind) << i;
      }
    }
  }
}

}  // namespace
}  // namespace qkv
