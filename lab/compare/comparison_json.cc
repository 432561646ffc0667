// A comparison as JSON.
#include <nlohmann/json.hpp>

#include "io/json/json_events.h"
#include "lab/compare/compare.h"

namespace qkv {
namespace {

using Json = nlohmann::ordered_json;

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(io::json_number(value));
  return list;
}

Json json_of(const std::vector<ComparedPoint>& points) {
  Json list = Json::array();
  for (const ComparedPoint& point : points) {
    list.push_back({{"at", point.at}, {"mean", io::json_number(point.mean())}, {"values", numbers(point.values)}});
  }
  return list;
}

Json json_of(const ComparedGrowth& growth) {
  return {{"lengths", growth.lengths},
          {"values", numbers(growth.values)},
          {"exponent", growth.exponent ? Json(growth.exponent->value) : Json()},
          {"exponent_error", growth.exponent ? Json(growth.exponent->error) : Json()}};
}

Json json_of(const ComparedTask& task) {
  return {{"task", task.task},   {"model", task.model},   {"parameters", task.parameters},
          {"asked", task.asked}, {"chance", task.chance}, {"accuracy", json_of(task.accuracy)}};
}

Json json_of(const ComparedGradient& gradient) {
  return {{"model", gradient.model},
          {"when", gradient.when},
          {"ratio", io::json_number(gradient.ratio())},
          {"norm", json_of(gradient.norm)}};
}

Json json_of(const ComparedClipping& clipping) {
  return {{"model", clipping.model},
          {"clip", clipping.clip},
          {"largest_norm", numbers(clipping.largest)},
          {"median_norm", numbers(clipping.median)},
          {"accuracy", numbers(clipping.accuracy)}};
}

Json json_of(const ComparedStructure& structure) {
  return {{"model", structure.model},
          {"work", structure.work},
          {"parameters", structure.parameters},
          {"sequential_steps", json_of(structure.sequential_steps)},
          {"longest_path", json_of(structure.longest_path)},
          {"operations_at_once", json_of(structure.operations_at_once)},
          {"operations_in_turn", json_of(structure.operations_in_turn)},
          {"reach_length", structure.reach_length},
          {"reach", structure.reach},
          {"measured_reach", structure.measured_reach}};
}

Json json_of(const ComparedCost& cost) {
  return {{"model", cost.model},
          {"work", cost.work},
          {"phase", cost.phase},
          {"threads", cost.threads},
          {"seconds", json_of(cost.seconds)},
          {"memory", cost.memory ? json_of(*cost.memory) : Json()}};
}

template <class Item>
Json list_of(const std::vector<Item>& items) {
  Json list = Json::array();
  for (const Item& item : items) list.push_back(json_of(item));
  return list;
}

}  // namespace

std::string to_json(const Comparison& comparison) {
  return Json{{"seed", comparison.seed},
              {"effort", comparison.effort == CompareEffort::quick ? "quick" : "full"},
              {"tasks", list_of(comparison.tasks)},
              {"gradients", list_of(comparison.gradients)},
              {"clipping", list_of(comparison.clipping)},
              {"structure", list_of(comparison.structure)},
              {"cost", list_of(comparison.cost)}}
      .dump();
}

}  // namespace qkv
