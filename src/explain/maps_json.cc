// Attention over long inputs as one JSON object: bytes in base64.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "explain/base64.h"
#include "explain/cost.h"
#include "explain/json_object.h"
#include "explain/pyramid.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/target.h"

namespace qkv {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are in memory");

constexpr std::int64_t kTile = 512;

void append_quoted(std::string& text, std::string_view bytes) {
  text += '"';
  append_base64(text, bytes);
  text += '"';
}

std::string_view bytes_in(const TensorView& view) {
  return {
      reinterpret_cast<const char*>(view.bytes()),
      static_cast<std::size_t>(view.element_count()) * (view.dtype() == Dtype::f32 ? sizeof(float) : sizeof(double))};
}

// Row by row of tiles, each of so many rows and columns, or what is left.
void append_level(std::string& text, const PyramidLevel& level) {
  const double largest = largest_mean(level);
  const std::string bytes = bytes_of(level, largest);
  text += fmt::format("{{\"rows\":{},\"columns\":{},\"largest\":{},\"tiles\":[", level.rows, level.columns,
                      json_text(io::json_number(largest)));
  bool first = true;
  for (std::int64_t top = 0; top < level.rows; top += kTile) {
    for (std::int64_t left = 0; left < level.columns; left += kTile) {
      const std::int64_t bottom = std::min(top + kTile, level.rows), width = std::min(kTile, level.columns - left);
      std::string tile;
      for (std::int64_t i = top; i < bottom; ++i) {
        tile.append(bytes, static_cast<std::size_t>(i * level.columns + left), static_cast<std::size_t>(width));
      }
      if (!first) text += ',';
      first = false;
      append_quoted(text, tile);
    }
  }
  text += "]}";
}

// Keys as 32 bits each; -1: none.
void append_top(std::string& text, const AttentionMaps& maps, const MapHead& head) {
  const TensorView keys = maps.top_keys(head);
  std::string bytes(static_cast<std::size_t>(keys.element_count()) * sizeof(std::int32_t), '\0');
  const std::int64_t* key = keys.data<std::int64_t>();
  for (std::int64_t i = 0; i < keys.element_count(); ++i) {
    const auto narrow = static_cast<std::int32_t>(key[i]);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof narrow, &narrow, sizeof narrow);
  }
  text += fmt::format("{{\"count\":{},\"keys\":", keys.size(1));
  append_quoted(text, bytes);
  text += ",\"weights\":";
  append_quoted(text, bytes_in(maps.top_weights(head)));
  text += '}';
}

void append_rows(std::string& text, const AttentionMaps& maps, const MapHead& head) {
  text += '[';
  for (std::size_t i = 0; i < maps.keep_rows().size(); ++i) {
    text += fmt::format("{}{{\"query\":{},\"weights\":", i == 0 ? "" : ",", maps.keep_rows()[i]);
    append_quoted(text, bytes_in(maps.rows(head).select(0, static_cast<std::int64_t>(i))));
    text += '}';
  }
  text += ']';
}

}  // namespace

std::string to_json(const AttentionMaps& maps) {
  const std::string title =
      fmt::format("{} queries, {} keys, {} heads", maps.queries(), maps.keys(), maps.batch() * maps.heads());
  OrderedJson begin = json_object("maps", selected_target(), maps.dtype(), title);
  begin.update({{"queries", maps.queries()},
                {"keys", maps.keys()},
                {"tile", kTile},
                {"whole", maps.whole()},
                {"cost", to_object(maps.cost())}});
  std::string text = json_text(begin);
  text.pop_back();
  text += ",\"heads\":[";
  for (std::int64_t b = 0; b < maps.batch(); ++b) {
    for (std::int64_t h = 0; h < maps.heads(); ++h) {
      const MapHead head{b, h};
      const bool kept = std::ranges::find(maps.keep(), head) != maps.keep().end();
      text += fmt::format("{}{{\"batch\":{},\"head\":{},\"levels\":[", b + h == 0 ? "" : ",", b, h);
      const std::vector<PyramidLevel> levels = pyramid_of(maps.blocks(head), maps.queries(), maps.keys());
      for (std::size_t level = 0; level < levels.size(); ++level) {
        if (level > 0) text += ',';
        append_level(text, levels[level]);
      }
      text += "],\"top\":";
      if (kept && !maps.whole()) {
        append_top(text, maps, head);
      } else {
        text += "null";
      }
      text += ",\"rows\":";
      if (kept) {
        append_rows(text, maps, head);
      } else {
        text += "[]";
      }
      text += '}';
    }
  }
  return text + "]}";
}

}  // namespace qkv
