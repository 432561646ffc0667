// Begins JSON objects, and writes their numbers, plans, and maps of heads: cells as deflated bytes, kept numbers as the
// bytes of their type, in base64.
#include "explain/show/json_object.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "explain/measure/pyramid.h"
#include "explain/show/report_page.h"
#include "io/base64.h"
#include "qkv/version.h"

namespace qkv::inline explaining {

OrderedJson json_object(const char* kind, const std::string& target, Dtype dtype, const std::string& title,
                        const std::string& fingerprint) {
  OrderedJson object = {{"schema", "qkv/explain/1"}, {"kind", kind},  {"version", version()}, {"target", target},
                        {"dtype", name_of(dtype)},   {"title", title}};
  if (!fingerprint.empty()) object["fingerprint"] = fingerprint;
  return object;
}

OrderedJson json_number_f32(double value) {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number)) return io::json_number(value);
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  double shortest = 0;  // of which a writer of doubles shows the same digits
  std::from_chars(digits, end, shortest);
  return shortest;
}

OrderedJson json_numbers(const TensorView& values, Dtype dtype) {
  if (!values || values.element_count() == 0) return nullptr;
  OrderedJson list = OrderedJson::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (values.rank() > 1) {
      list.push_back(json_numbers(values.select(0, i), dtype));
    } else {
      const double value = values.at<double>({i});
      list.push_back(dtype == Dtype::f32 ? json_number_f32(value) : io::json_number(value));
    }
  }
  return list;
}

std::string json_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

std::string numbers_in_base64(const TensorView& view) {
  const std::size_t size = view.dtype() == Dtype::f32 ? sizeof(float) : sizeof(double);
  return io::encode_base64(
      {reinterpret_cast<const char*>(view.bytes()), static_cast<std::size_t>(view.element_count()) * size});
}

// Row by row of tiles, each of so many rows and columns, or what is left.
OrderedJson to_object(const PyramidLevel& level) {
  const double largest = largest_mean(level);
  const std::string bytes = bytes_of(level, largest);
  OrderedJson tiles = OrderedJson::array();
  for (std::int64_t top = 0; top < level.rows; top += kMapTile) {
    for (std::int64_t left = 0; left < level.columns; left += kMapTile) {
      const std::int64_t bottom = std::min(top + kMapTile, level.rows),
                         width = std::min(kMapTile, level.columns - left);
      std::string tile;
      for (std::int64_t i = top; i < bottom; ++i) {
        tile.append(bytes, static_cast<std::size_t>(i * level.columns + left), static_cast<std::size_t>(width));
      }
      tiles.push_back(io::encode_base64(deflated(tile)));
    }
  }
  return {{"rows", level.rows},
          {"columns", level.columns},
          {"largest", io::json_number(largest)},
          {"tiles", std::move(tiles)}};
}

// Keys as 32 bits each; -1: none.
OrderedJson top_object(const TensorView& keys, const TensorView& weights) {
  std::string bytes(static_cast<std::size_t>(keys.element_count()) * sizeof(std::int32_t), '\0');
  const std::int64_t* key = keys.data<std::int64_t>();
  for (std::int64_t i = 0; i < keys.element_count(); ++i) {
    const auto narrow = static_cast<std::int32_t>(key[i]);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof narrow, &narrow, sizeof narrow);
  }
  return {{"count", keys.size(1)}, {"keys", io::encode_base64(bytes)}, {"weights", numbers_in_base64(weights)}};
}

}  // namespace

OrderedJson to_object(const MapViews& map) {
  OrderedJson levels = OrderedJson::array(), rows = OrderedJson::array();
  for (const PyramidLevel& level : pyramid_of(map.blocks, map.queries, map.keys)) levels.push_back(to_object(level));
  for (std::int64_t i = 0; map.rows && i < map.rows.size(0); ++i) {
    rows.push_back({{"query", map.row_numbers[static_cast<std::size_t>(i)]},
                    {"weights", numbers_in_base64(map.rows.select(0, i))}});
  }
  return {{"levels", std::move(levels)},
          {"top", map.top_keys ? top_object(map.top_keys, map.top_weights) : OrderedJson(nullptr)},
          {"rows", std::move(rows)}};
}

OrderedJson to_object(const AttentionPlan& plan) {
  return {{"kernel", plan.kernel},
          {"target", plan.target},
          {"precision", name_of(plan.precision)},
          {"threads", plan.threads},
          {"block_queries", plan.block_queries},
          {"tile_keys", plan.tile_keys},
          {"chunk_keys", plan.chunk_keys},
          {"tiles", plan.tiles},
          {"skipped_tiles", plan.skipped_tiles},
          {"operations", plan.operations},
          {"bytes", plan.bytes},
          {"workspace", plan.workspace},
          {"remarks", plan.remarks}};
}

OrderedJson to_object(const std::optional<AttentionPlan>& plan) {
  return plan ? to_object(*plan) : OrderedJson(nullptr);
}

}  // namespace qkv::inline explaining
