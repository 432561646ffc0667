/// \file
/// Rows of a table, chosen by number: as torch.nn.Embedding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "qkv/api.h"
#include "qkv/layers/packed_parameter.h"
#include "qkv/layers/weights.h"

namespace qkv {

struct EmbeddingConfig {
  std::int64_t count = 0;  ///< rows of the table: words, positions or types
  std::int64_t dim = 0;
  std::optional<std::int32_t> padding{};  ///< a row without a gradient, so that training leaves it as it is
  bool projects = false;                  ///< an output projection is tied to the table: projection()
};

/// Safe for concurrent forward(); only update() modifies it.
class QKV_API Embedding {
 public:
  /// Takes weight [count, dim].
  Embedding(const EmbeddingConfig& config, Weights& weights, const std::string& scope = "");

  /// Row ids[i] -> row i of the result [n, dim]. std::invalid_argument if an id is not in the table.
  Tensor forward(std::span<const std::int32_t> ids) const;
  /// Adds the rows to the rows of out [n, dim].
  void add(std::span<const std::int32_t> ids, Tensor& out) const;

  /// Adds the rows of grad_out [n, dim], in their order, to the gradient of the table if it is wanted.
  void backward(std::span<const std::int32_t> ids, const TensorView& grad_out);

  /// The table. One that projects has its value here only while a gradient is wanted; table() always gives it, in
  /// `storage` if it is kept in panels alone.
  const Parameter& weight() const { return weight_.own(); }
  Parameter& weight() { return weight_.own(); }
  TensorView table(Tensor& storage) const { return weight_.value(storage); }

  /// The right operand of x table^T, of one that projects: in full storage the table itself is kept in it.
  const PackedMatrix& projection() const;

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;
  void update(const ParameterUpdater& updater, const std::string& scope = "");

 private:
  void check(std::span<const std::int32_t> ids, const char* name, const TensorView& rows) const;

  PackedMatrix rounded() const;

  EmbeddingConfig config_;
  PackedParameter weight_;
  WeightStorage storage_;
  PackedMatrix rounded_;  ///< for a projection in fewer bits
};

}  // namespace qkv
