// Builds pyramids of block averages, and adds up what maps take as text in base64. Tiles count as they are before they
// are deflated: so they fit for any weights, and nothing depends on how well these deflate.
#include "explain/measure/pyramid.h"

#include <algorithm>
#include <cmath>

#include "explain/observe/require.h"
#include "io/base64.h"
#include "qkv/explain/attention_maps.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kCoarsest = 64;

std::int64_t halved(std::int64_t size) { return (size + 1) / 2; }

// Numbers in each of `parts` equal parts.
std::vector<double> sizes_of_parts(std::int64_t parts, std::int64_t count) {
  std::vector<double> sizes(static_cast<std::size_t>(parts));
  for (std::int64_t i = 0; i < count; ++i) sizes[static_cast<std::size_t>(i * parts / count)] += 1;
  return sizes;
}

std::vector<double> halved(const std::vector<double>& sizes) {
  std::vector<double> sums((sizes.size() + 1) / 2);
  for (std::size_t i = 0; i < sizes.size(); ++i) sums[i / 2] += sizes[i];
  return sums;
}

}  // namespace

std::vector<PyramidLevel> pyramid_of(const TensorView& blocks, std::int64_t queries, std::int64_t keys) {
  std::vector<PyramidLevel> levels(1);
  levels[0] = {.rows = blocks.size(0), .columns = blocks.size(1)};
  const Tensor exact = convert(blocks, Dtype::f64);
  levels[0].means.assign(exact.data<double>(), exact.data<double>() + exact.element_count());
  std::vector<double> heights = sizes_of_parts(blocks.size(0), queries), widths = sizes_of_parts(blocks.size(1), keys);
  while (std::max(levels.back().rows, levels.back().columns) > kCoarsest) {
    const PyramidLevel& fine = levels.back();
    PyramidLevel coarse{.rows = halved(fine.rows), .columns = halved(fine.columns)};
    coarse.means.resize(static_cast<std::size_t>(coarse.rows * coarse.columns));
    const double* mean = fine.means.data();
    for (std::int64_t i = 0; i < fine.rows; ++i) {
      double* sum = coarse.means.data() + i / 2 * coarse.columns;
      const double height = heights[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < fine.columns; ++j) {
        sum[j / 2] += height * widths[static_cast<std::size_t>(j)] * *mean++;
      }
    }
    heights = halved(heights);
    widths = halved(widths);
    double* sum = coarse.means.data();
    for (const double height : heights) {
      for (const double width : widths) *sum++ /= height * width;
    }
    levels.push_back(std::move(coarse));
  }
  return levels;
}

double largest_mean(const PyramidLevel& level) {
  double largest = 0;
  for (const double mean : level.means) {
    if (std::isfinite(mean)) largest = std::max(largest, mean);
  }
  return largest;
}

std::string bytes_of(const PyramidLevel& level, double largest) {
  std::string bytes;
  bytes.reserve(level.means.size());
  for (const double mean : level.means) {
    const double share = largest > 0 ? std::min(mean / largest, 1.0) : 0;
    bytes += static_cast<char>(std::isfinite(mean) ? static_cast<int>(254 * std::sqrt(share) + 0.5) : kNoNumber);
  }
  return bytes;
}

std::int64_t pyramid_cells(std::int64_t rows, std::int64_t columns) {
  std::int64_t cells = rows * columns;
  while (std::max(rows, columns) > kCoarsest) {
    rows = halved(rows);
    columns = halved(columns);
    cells += rows * columns;
  }
  return cells;
}

namespace {

constexpr std::int64_t kLeastGrid = 64, kMostGrid = 4096;
constexpr double kMegabyte = 1e6;

std::size_t unsigned_of(std::int64_t count) { return static_cast<std::size_t>(count); }

// Whole rows, and for each query its strongest keys as 4 bytes each, with their weights.
std::size_t bytes_of_kept_head(const MapSizes& sizes, std::int64_t rows, Dtype dtype) {
  const std::size_t number = dtype == Dtype::f64 ? 8 : 4;
  return unsigned_of(rows) * io::base64_size(unsigned_of(sizes.keys) * number) +
         io::base64_size(unsigned_of(sizes.queries * sizes.top) * 4) +
         io::base64_size(unsigned_of(sizes.queries * sizes.top) * number);
}

// Bytes for heads of all sizes; only the first `heads` are kept.
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
    sum += unsigned_of(sizes.heads) * io::base64_size(unsigned_of(cells));
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
