// The walk-through as one JSON object for machines.
#include <nlohmann/json.hpp>

#include "qkv/explain.h"

namespace qkv {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Role role) {
  switch (role) {
    case Role::input:
      return "input";
    case Role::query:
      return "query";
    case Role::key:
      return "key";
    case Role::value:
      return "value";
    case Role::score:
      return "score";
    case Role::weight:
      return "weight";
    case Role::output:
      return "output";
    case Role::none:
      break;
  }
  return "none";
}

// Nested arrays; nlohmann writes infinities as null.
Json numbers(const TensorView& values) {
  Json list = Json::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (values.rank() == 1) {
      list.push_back(values.at<double>({i}));
    } else {
      list.push_back(numbers(values.select(0, i)));
    }
  }
  return list;
}

Json to_object(const Quantity& quantity) {
  Json object = {{"name", quantity.name}, {"role", name_of(quantity.role)}};
  object["shape"] = std::vector<std::int64_t>(quantity.values.shape().begin(), quantity.values.shape().end());
  if (!quantity.rows.empty()) object["rows"] = quantity.rows;
  if (quantity.substituted) object["substituted"] = true;
  object["values"] = numbers(quantity.values);
  return object;
}

Json to_object(const Section& section) {
  Json object;
  if (section.number > 0) object["number"] = section.number;
  object["title"] = section.title;
  object["text"] = Json::array();
  object["tensors"] = Json::array();
  for (const Block& block : section.blocks) {
    for (const Line& line : block.lines) {
      std::string text;
      for (const Span& span : line) text += span.text;
      object["text"].push_back(text);
    }
    for (const Quantity& quantity : block.quantities) object["tensors"].push_back(to_object(quantity));
  }
  return object;
}

}  // namespace

std::string to_json(const Explanation& explanation) {
  Json object = {{"title", explanation.title},   {"score", explanation.score},
                 {"scale", explanation.scale},   {"dtype", "f64"},
                 {"target", explanation.target}, {"steps", Json::array()},
                 {"remarks", Json::array()},     {"output", numbers(explanation.output)}};
  for (const Section& section : explanation.sections) {
    object[section.number > 0 ? "steps" : "remarks"].push_back(to_object(section));
  }
  object["substituted"] = explanation.substituted;
  object["true_output"] = numbers(explanation.true_output);
  object["largest_difference_from_reference"] = explanation.largest_difference;
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace qkv
