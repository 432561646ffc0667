// The walk-through as one JSON object for machines.
#include "explain/json_numbers.h"
#include "qkv/explain.h"

namespace qkv {
namespace {

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

OrderedJson to_object(const Quantity& quantity) {
  OrderedJson object = {{"name", quantity.name}, {"role", name_of(quantity.role)}};
  object["shape"] = std::vector<std::int64_t>(quantity.values.shape().begin(), quantity.values.shape().end());
  if (!quantity.rows.empty()) object["rows"] = quantity.rows;
  if (quantity.substituted) object["substituted"] = true;
  object["values"] = json_numbers(quantity.values);
  return object;
}

OrderedJson to_object(const Section& section) {
  OrderedJson object;
  if (section.number > 0) object["number"] = section.number;
  object["title"] = section.title;
  object["text"] = OrderedJson::array();
  object["tensors"] = OrderedJson::array();
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
  OrderedJson object = {{"title", explanation.title},      {"score", explanation.score},
                        {"scale", explanation.scale},      {"dtype", "f64"},
                        {"target", explanation.target},    {"steps", OrderedJson::array()},
                        {"remarks", OrderedJson::array()}, {"output", json_numbers(explanation.output)}};
  for (const Section& section : explanation.sections) {
    object[section.number > 0 ? "steps" : "remarks"].push_back(to_object(section));
  }
  object["substituted"] = explanation.substituted;
  object["true_output"] = json_numbers(explanation.true_output);
  object["largest_difference_from_reference"] = io::json_number(explanation.largest_difference);
  return json_text(object);
}

}  // namespace qkv
