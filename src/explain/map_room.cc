// Adds up what maps take as text in base64. Tiles count as they are before they are deflated: so they fit whatever the
// weights are, and nothing depends on how well these deflate.
#include "explain/map_room.h"

#include <algorithm>

#include "explain/page_bytes.h"
#include "explain/pyramid.h"
#include "explain/require.h"
#include "qkv/explain/attention_maps.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kLeastGrid = 64, kMostGrid = 4096;
constexpr double kMegabyte = 1e6;

std::size_t unsigned_of(std::int64_t count) { return static_cast<std::size_t>(count); }

// Whole rows, and for each query its strongest keys as 4 bytes each, with their weights.
std::size_t bytes_of_kept_head(const MapSizes& sizes, std::int64_t rows, Dtype dtype) {
  const std::size_t number = dtype == Dtype::f64 ? 8 : 4;
  return unsigned_of(rows) * base64_size(unsigned_of(sizes.keys) * number) +
         base64_size(unsigned_of(sizes.queries * sizes.top) * 4) +
         base64_size(unsigned_of(sizes.queries * sizes.top) * number);
}

// Of heads of all sizes, the first `heads` kept ones alone.
std::size_t bytes_kept(std::span<const MapSizes> all, std::int64_t heads, std::int64_t rows, Dtype dtype) {
  std::size_t sum = 0;
  for (const MapSizes& sizes : all) {
    const std::int64_t some = std::min(heads, sizes.kept);
    sum += unsigned_of(some) * bytes_of_kept_head(sizes, rows, dtype);
    heads -= some;
  }
  return sum;
}

std::size_t bytes_of_pyramids(std::span<const MapSizes> all, std::int64_t grid) {
  std::size_t sum = 0;
  for (const MapSizes& sizes : all) {
    const std::int64_t cells = pyramid_cells(std::min(sizes.queries, grid), std::min(sizes.keys, grid));
    sum += unsigned_of(sizes.heads) * base64_size(unsigned_of(cells));
  }
  return sum;
}

}  // namespace

void check_kept(std::size_t heads, std::size_t rows) {
  require(heads <= AttentionMaps::kMostKept, "{} heads are more than the {} that can be kept", heads,
          AttentionMaps::kMostKept);
  require(rows <= AttentionMaps::kMostRows, "{} rows are more than the {} that can be kept", rows,
          AttentionMaps::kMostRows);
}

std::int64_t finest_grid(std::span<const MapSizes> all, std::int64_t rows, Dtype dtype, std::size_t bytes) {
  std::int64_t kept = 0, longest = 1;
  for (const MapSizes& sizes : all) {
    kept += sizes.kept;
    longest = std::max({longest, sizes.queries, sizes.keys});
  }
  const std::size_t whole = bytes_kept(all, kept, rows, dtype), least = bytes_of_pyramids(all, kLeastGrid);
  if (kept > 0 && whole + least > bytes) {
    std::int64_t fit = kept;
    while (fit > 0 && bytes_kept(all, fit, rows, dtype) + least > bytes) --fit;
    refuse("explain", "{} kept heads with {} rows take {:.1f} MB, a report has room for {:.1f} MB: {} of them fit",
           kept, rows, static_cast<double>(whole + least) / kMegabyte, static_cast<double>(bytes) / kMegabyte, fit);
  }
  std::int64_t finest = 1, most = std::min(kMostGrid, longest);
  while (finest < most) {
    const std::int64_t grid = (finest + most + 1) / 2;
    const bool fits = whole + bytes_of_pyramids(all, grid) <= bytes;
    (fits ? finest : most) = fits ? grid : grid - 1;
  }
  return finest;
}

}  // namespace qkv::inline explaining
