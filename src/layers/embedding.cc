#include "qkv/embedding.h"

#include <fmt/format.h>

#include <stdexcept>

#include "layers/check_size.h"

namespace qkv {

Embedding::Embedding(const EmbeddingConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("embedding", "count", config.count);
  check_size("embedding", "dim", config.dim);
  weight_ = weights.take(scope + "weight", {config.count, config.dim});
}

Tensor Embedding::forward(std::span<const std::int32_t> ids) const {
  Tensor out = Tensor::zeros({static_cast<std::int64_t>(ids.size()), config_.dim}, weight_.dtype());
  add(ids, out);
  return out;
}

void Embedding::add(std::span<const std::int32_t> ids, Tensor& out) const {
  const auto run = [&]<class T>(T) {
    T* to = out.data<T>();
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= config_.count) {
        throw std::invalid_argument(
            fmt::format("embedding: number {} is not in a table of {} rows", id, config_.count));
      }
      const T* row = weight_.data<T>() + id * config_.dim;
      for (std::int64_t i = 0; i < config_.dim; ++i) to[i] += row[i];
      to += config_.dim;
    }
  };
  if (out.shape() != Dims{static_cast<std::int64_t>(ids.size()), config_.dim} || out.dtype() != weight_.dtype()) {
    throw std::invalid_argument(fmt::format("embedding: the result is {} {}; it must be {} [{}, {}]",
                                            name_of(out.dtype()), to_string(out.shape()), name_of(weight_.dtype()),
                                            ids.size(), config_.dim));
  }
  out.dtype() == Dtype::f64 ? run(double{}) : run(float{});
}

void Embedding::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
}

}  // namespace qkv
