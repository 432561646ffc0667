// Embedding: looks rows up, and adds gradients to them.
#include "qkv/layers/embedding.h"

#include <fmt/format.h>

#include <stdexcept>

#include "core/visit_dtype.h"
#include "layers/basic/check_size.h"
#include "layers/basic/rows.h"

namespace qkv {

Embedding::Embedding(const EmbeddingConfig& config, Weights& weights, const std::string& scope) : config_(config) {
  check_size("embedding", "count", config.count);
  check_size("embedding", "dim", config.dim);
  if (config.padding && (*config.padding < 0 || *config.padding >= config.count)) {
    throw std::invalid_argument(
        fmt::format("embedding: padding is {}; it must be 0 to {}", *config.padding, config.count - 1));
  }
  weight_.value = weights.take(scope + "weight", {config.count, config.dim});
}

Tensor Embedding::forward(std::span<const std::int32_t> ids) const {
  Tensor out = Tensor::zeros({static_cast<std::int64_t>(ids.size()), config_.dim}, weight_.value.dtype());
  add(ids, out);
  return out;
}

void Embedding::check(std::span<const std::int32_t> ids, const char* name, const TensorView& rows) const {
  const Dtype dtype = weight_.value.dtype();
  if (rows.shape() != Dims{static_cast<std::int64_t>(ids.size()), config_.dim} || rows.dtype() != dtype) {
    throw std::invalid_argument(fmt::format("embedding: {} is {} {}; it must be {} [{}, {}]", name,
                                            name_of(rows.dtype()), to_string(rows.shape()), name_of(dtype), ids.size(),
                                            config_.dim));
  }
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < config_.count) continue;
    throw std::invalid_argument(fmt::format("embedding: id {} is not in a table of {} rows", id, config_.count));
  }
}

void Embedding::add(std::span<const std::int32_t> ids, Tensor& out) const {
  check(ids, "the result", out);
  const auto run = [&]<class T>(T) {
    T* to = out.data<T>();
    for (const std::int32_t id : ids) {
      const T* row = weight_.value.data<T>() + id * config_.dim;
      for (std::int64_t i = 0; i < config_.dim; ++i) to[i] += row[i];
      to += config_.dim;
    }
  };
  visit_f32_f64(out.dtype(), run);
}

void Embedding::backward(std::span<const std::int32_t> ids, const TensorView& grad_out) {
  check(ids, "the gradient", grad_out);
  if (!weight_.has_gradient()) return;
  const LayerRows rows("embedding: gradient", grad_out, config_.dim);
  const auto run = [&]<class T>(T) {
    const T* from = rows.view().data<T>();
    for (const std::int32_t id : ids) {
      T* row = weight_.gradient.data<T>() + id * config_.dim;
      for (std::int64_t i = 0; i < config_.dim && id != config_.padding; ++i) row[i] += from[i];
      from += rows.view().stride(0);
    }
  };
  visit_f32_f64(grad_out.dtype(), run);
}

void Embedding::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  visitor(scope + "weight", weight_);
}

void Embedding::update(const ParameterUpdater& updater, const std::string& scope) {
  updater(scope + "weight", weight_);
}

}  // namespace qkv
