// RelativeTable: checks its shape, and maps two positions to a bucket.
#include "qkv/attention/relative_table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/mathematics.h"
#include "core/refuse.h"

namespace qkv {
namespace {

constexpr std::int64_t kMostBuckets = std::int64_t{1} << 24;

// The bucket of a distance in one direction. In f32, step by step as in the models' own code: where the logarithm is a
// whole number, another precision could choose the neighbour.
std::int64_t t5_bucket(std::int64_t distance, std::int64_t buckets, std::int64_t max_distance) {
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return distance;
  if (distance >= max_distance) return buckets - 1;
  const float ratio = log(static_cast<float>(distance) / static_cast<float>(exact));
  const auto range = static_cast<float>(log(static_cast<double>(max_distance) / static_cast<double>(exact)));
  const float steps = ratio / range * static_cast<float>(buckets - exact);
  return std::min(exact + static_cast<std::int64_t>(steps), buckets - 1);
}

}  // namespace

RelativeTable::RelativeTable(Kind kind, TensorView values) : kind_(kind), values_(values) {
  if (!is_floating(values.dtype()))
    refuse("relative table", "table values are {}; they must be of a floating type", name_of(values.dtype()));
  if (values.rank() != 2 || values.size(0) < 1 || values.size(0) > kMostBuckets) {
    refuse("relative table", "table values {} must be [buckets, {}] with 1 to {} buckets", to_string(values.shape()),
           kind == Kind::shaw ? "head_dim" : "heads", kMostBuckets);
  }
}

RelativeTable RelativeTable::clipped(TensorView values) {
  RelativeTable table(Kind::clipped, values);
  if (values.size(0) % 2 == 0)
    refuse("relative table", "clipped values {} must have 2 n + 1 rows", to_string(values.shape()));
  table.max_distance_ = values.size(0) / 2;
  return table;
}

RelativeTable RelativeTable::shaw(TensorView values) {
  RelativeTable table(Kind::shaw, values);
  table.max_distance_ = values.size(0) / 2;
  if (values.size(0) % 2 == 0 || table.max_distance_ > kMostShawDistance) {
    refuse("relative table", "Shaw's values {} must have 2 n + 1 rows, n at most {}", to_string(values.shape()),
           kMostShawDistance);
  }
  return table;
}

RelativeTable RelativeTable::t5(TensorView values, const T5Buckets& buckets) {
  RelativeTable table(Kind::t5, values);
  const std::int64_t count = buckets.bidirectional ? values.size(0) / 2 : values.size(0);
  if (count < 2 || (buckets.bidirectional && values.size(0) % 2 != 0)) {
    refuse("relative table", "T5 values {} must have {}", to_string(values.shape()),
           buckets.bidirectional ? "an even number of rows, at least 4" : "at least 2 rows");
  }
  if (buckets.max_distance <= count / 2 || buckets.max_distance > kMostBuckets) {
    refuse("relative table", "T5 max_distance {} must be {} to {} for {} buckets", buckets.max_distance, count / 2 + 1,
           kMostBuckets, values.size(0));
  }
  table.bidirectional_ = buckets.bidirectional;
  table.max_distance_ = buckets.max_distance;
  return table;
}

RelativeTable RelativeTable::swin(TensorView values, std::int64_t height, std::int64_t width) {
  RelativeTable table(Kind::swin, values);
  if (height < 1 || width < 1 || height > 1024 || width > 1024) {
    refuse("relative table", "a window of {} x {} must be 1 to 1024 high and wide", height, width);
  }
  if (values.size(0) != (2 * height - 1) * (2 * width - 1)) {
    refuse("relative table", "table values {} must have (2 * {} - 1) * (2 * {} - 1) rows", to_string(values.shape()),
           height, width);
  }
  table.height_ = height;
  table.width_ = width;
  return table;
}

std::int64_t RelativeTable::bucket(std::int64_t p, std::int64_t j) const {
  const std::int64_t distance = j - p;
  switch (kind_) {
    case Kind::clipped:
    case Kind::shaw:
      return std::clamp(distance, -max_distance_, max_distance_) + max_distance_;
    case Kind::t5: {
      if (!bidirectional_) return t5_bucket(std::max<std::int64_t>(-distance, 0), values_.size(0), max_distance_);
      const std::int64_t half = values_.size(0) / 2;
      return t5_bucket(std::abs(distance), half, max_distance_) + (distance > 0 ? half : 0);
    }
    case Kind::swin:
      break;
  }
  const std::int64_t down = p / width_ - j / width_, right = p % width_ - j % width_;
  return (down + height_ - 1) * (2 * width_ - 1) + right + width_ - 1;
}

}  // namespace qkv
