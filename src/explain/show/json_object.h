// Common parts of the objects of `explain --json`: first members, numbers, plans, and maps of heads
// (docs/explain_json.md). JSON as text that is always valid.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "io/json/json_events.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/explain/explain_model.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

using OrderedJson = nlohmann::ordered_json;

// schema, kind, version, target, dtype and title; and the model's fingerprint, if it is known.
OrderedJson json_object(const char* kind, const std::string& target, Dtype dtype, const std::string& title,
                        const std::string& fingerprint = {});

// What `make` gives for each of a range.
template <class Range, class Make>
OrderedJson json_list(const Range& range, const Make& make) {
  OrderedJson list = OrderedJson::array();
  for (const auto& each : range) list.push_back(make(each));
  return list;
}

// A number that was computed in f32, in as many digits as read back to it.
OrderedJson json_number_f32(double value);

// Nested arrays of an f64 tensor; null if it was not kept. `dtype`: of the computation.
OrderedJson json_numbers(const TensorView& values, Dtype dtype = Dtype::f64);

// One line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const OrderedJson& value);

OrderedJson to_object(const AttentionPlan& plan);
OrderedJson to_object(const std::optional<AttentionPlan>& plan);  // null: there is none

// Measures of a head, by name.
inline constexpr std::pair<const char*, double HeadSummary::*> kHeadMeasures[] = {
    {"entropy", &HeadSummary::entropy},
    {"distance", &HeadSummary::distance},
    {"first", &HeadSummary::first},
    {"previous", &HeadSummary::previous},
    {"next", &HeadSummary::next},
    {"itself", &HeadSummary::itself},
    {"separators", &HeadSummary::separators},
    {"induction", &HeadSummary::induction},
    {"duplicate", &HeadSummary::duplicate}};

// The map of weights [queries, keys]; an empty view: not kept.
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
