// Averages of a matrix over blocks, and over blocks of these: what a page draws of a matrix too large to keep; and how
// fine they can be to fit into a report.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Level l has ceil(r / 2^l) x ceil(c / 2^l) cells: the first the block averages themselves, the last at most 64 x 64.
struct PyramidLevel {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> means{};
};

// `blocks` [r, c], f32 or f64: averages over r x c equal parts of a [queries, keys] matrix, as
// AttentionExtras::block_weights has them: query i is in part floor(i r / queries). A cell is the mean of all numbers
// under it, which the parts have unequal numbers of.
std::vector<PyramidLevel> pyramid_of(const TensorView& blocks, std::int64_t queries, std::int64_t keys);

// A byte for each mean: 0 to 254, which is the largest; the root keeps small ones apart. 255: not a number.
//   byte = round(254 sqrt(mean / largest))
inline constexpr int kNoNumber = 255;
double largest_mean(const PyramidLevel& level);
std::string bytes_of(const PyramidLevel& level, double largest);

// Cells of all levels.
std::int64_t pyramid_cells(std::int64_t rows, std::int64_t columns);

// Heads of one size, and what is kept exactly of some of them.
struct MapSizes {
  std::int64_t heads = 0, queries = 0, keys = 0;
  std::int64_t kept = 0;  // heads
  std::int64_t top = 0;   // keys of each query of a kept head
};

// std::invalid_argument for more heads, or rows of a head, than can be kept.
void check_kept(std::size_t heads, std::size_t rows);

// The most rows and columns of block averages of which the pyramids of all heads fit into so many bytes, beside what is
// kept and `rows` whole rows of each kept head. std::invalid_argument, saying how many kept heads fit, if that is too
// much.
std::int64_t finest_grid(std::span<const MapSizes> all, std::int64_t rows, Dtype dtype, std::size_t bytes);

}  // namespace qkv::inline explaining
