// Counts steps, paths, reach and operations of a model.
#include "compare/structure.h"

#include "compare/growth.h"

namespace qkv::comparison {
namespace {

const std::vector<std::int64_t> kGraphLengths = {16, 32, 64, 128};
const std::vector<std::int64_t> kOperationLengths = {64, 128, 256, 512, 1024};

}  // namespace

ComparedStructure structure_of(const Measurable& model, std::uint64_t seed) {
  ComparedStructure structure{.parameters = model.parameters()};
  structure.sequential_steps = growth_of(kGraphLengths, [&](std::int64_t length) {
    return static_cast<double>(model.graph(length).graph.sequential_steps());
  });
  structure.longest_path = growth_of(
      kGraphLengths, [&](std::int64_t length) { return static_cast<double>(longest_path(model.graph(length))); });
  structure.operations_at_once =
      growth_of(kOperationLengths, [&](std::int64_t length) { return model.operations_at_once(length); });
  structure.operations_in_turn =
      growth_of(kOperationLengths, [&](std::int64_t length) { return model.operations_in_turn(length); });
  structure.reach_length = kGraphLengths.back();
  structure.reach = reach(model.graph(structure.reach_length));
  structure.measured_reach = model.measured_reach(structure.reach_length, seed);
  return structure;
}

}  // namespace qkv::comparison
