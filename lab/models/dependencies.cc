// Counts steps and paths in the graph of a model.
#include "lab/models/dependencies.h"

#include <algorithm>

namespace qkv::comparison {

DependencyGraph::Node DependencyGraph::add_input() {
  needs_.emplace_back();
  depth_.push_back(0);
  return needs_.size() - 1;
}

DependencyGraph::Node DependencyGraph::add_step(std::vector<Node> needs) {
  std::int64_t depth = 0;
  for (const Node node : needs) depth = std::max(depth, depth_.at(node));
  needs_.push_back(std::move(needs));
  depth_.push_back(depth + 1);
  return needs_.size() - 1;
}

std::int64_t DependencyGraph::sequential_steps() const {
  return depth_.empty() ? 0 : *std::max_element(depth_.begin(), depth_.end());
}

// A step comes behind all that it needs, so one pass in order is enough.
std::vector<std::optional<std::int64_t>> DependencyGraph::paths_from(Node from) const {
  std::vector<std::optional<std::int64_t>> paths(needs_.size());
  paths.at(from) = 0;
  for (Node node = from + 1; node < needs_.size(); ++node) {
    for (const Node need : needs_[node]) {
      if (paths[need] && (!paths[node] || *paths[need] + 1 < *paths[node])) paths[node] = *paths[need] + 1;
    }
  }
  return paths;
}

std::int64_t longest_path(const SequenceGraph& sequence) {
  std::int64_t longest = 0;
  for (const DependencyGraph::Node input : sequence.inputs) {
    const auto paths = sequence.graph.paths_from(input);
    for (const DependencyGraph::Node output : sequence.outputs) longest = std::max(longest, paths[output].value_or(0));
  }
  return longest;
}

std::int64_t reach(const SequenceGraph& sequence) {
  for (std::size_t i = 0; i < sequence.inputs.size(); ++i) {
    if (!sequence.graph.paths_from(sequence.inputs[i])[sequence.outputs.back()]) continue;
    return static_cast<std::int64_t>(sequence.inputs.size() - 1 - i);
  }
  return 0;
}

}  // namespace qkv::comparison
