// Rows of a table, chosen by number: as torch.nn.Embedding.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "qkv/weights.h"

namespace qkv {

struct EmbeddingConfig {
  std::int64_t count = 0;  // rows of the table: words, positions or types
  std::int64_t dim = 0;
};

// Immutable after construction: any number of threads may call forward.
class Embedding {
 public:
  // Takes weight [count, dim].
  Embedding(const EmbeddingConfig& config, Weights& weights, const std::string& scope = "");

  // Row ids[i] -> row i of the result [n, dim]. std::invalid_argument if an id is not in the table.
  Tensor forward(std::span<const std::int32_t> ids) const;
  // Adds the rows to those of out [n, dim].
  void add(std::span<const std::int32_t> ids, Tensor& out) const;

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;

 private:
  EmbeddingConfig config_;
  Tensor weight_;
};

}  // namespace qkv
