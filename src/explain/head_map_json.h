// What is kept of the weights of one head of a long input, as members of a JSON object (docs/explain_json.md).
#pragma once

#include <cstdint>
#include <span>

#include "explain/json_object.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

// Of weights [queries, keys]; a view that is not given: not kept.
struct MapViews {
  std::int64_t queries = 0, keys = 0;
  TensorView blocks{};                   // [r, c]
  TensorView top_keys{}, top_weights{};  // [queries, top]
  TensorView rows{};                     // [kept rows, keys]
  std::span<const std::int64_t> row_numbers{};
};

// Rows and columns of a tile, as which levels are written.
inline constexpr std::int64_t kMapTile = 512;

// levels, top and rows.
OrderedJson to_object(const MapViews& map);

}  // namespace qkv::inline explaining
