// Averages of a matrix over blocks, and over blocks of these: what a page draws of a matrix too large to keep.
#pragma once

#include <cstdint>
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

}  // namespace qkv::inline explaining
