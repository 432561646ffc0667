// Dependencies in a model: a graph of steps, each one layer at one position. Sequential steps, the paths
// between positions and reach are counted in it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace qkv::comparison {

class DependencyGraph {
 public:
  using Node = std::size_t;

  // What needs no computation: a token.
  Node add_input();
  // A step that needs the results of others.
  Node add_step(std::vector<Node> needs);

  // How many steps must follow each other, however many are computed at once.
  std::int64_t sequential_steps() const;
  // To each node how many steps lie on the shortest way from `from`; none where there is no way.
  std::vector<std::optional<std::int64_t>> paths_from(Node from) const;

 private:
  std::vector<std::vector<Node>> needs_;
  std::vector<std::int64_t> depth_;  // steps on the longest way to a node, it included
};

// The graph of a model over tokens 0, 1 ... of one sequence.
struct SequenceGraph {
  DependencyGraph graph{};
  std::vector<DependencyGraph::Node> inputs{}, outputs{};
};

// The longest of the shortest ways between an input and an output that depends on it.
std::int64_t longest_path(const SequenceGraph& sequence);
// How many positions before its own the last output depends on, at most.
std::int64_t reach(const SequenceGraph& sequence);

}  // namespace qkv::comparison
