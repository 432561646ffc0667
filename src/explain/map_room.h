// What maps of attention take in a report, and how fine they can be to fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "qkv/tensor.h"

namespace qkv::inline explaining {

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
