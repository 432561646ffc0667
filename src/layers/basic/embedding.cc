// Embedding: looks rows up, and adds gradients to them.
#include "qkv/layers/embedding.h"

#include "core/refuse.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "ops/matmul/reduced_rows.h"

namespace qkv {
namespace {

bool in_blocks(const Weights& weights) { return block_bytes(weights.storage()) > 0; }

}  // namespace

Embedding::Embedding(const EmbeddingConfig& config, Weights& weights, const std::string& scope)
    : config_(config),
      // Logits of a vocabulary stay in f32; blocks are the table itself.
      storage_(is_reduced(weights.storage()) || in_blocks(weights) ? WeightStorage::full : weights.storage()) {
  check_size("embedding", "count", config.count);
  check_size("embedding", "dim", config.dim);
  if (config.padding && (*config.padding < 0 || *config.padding >= config.count)) {
    refuse("embedding", "padding is {}; it must be 0 to {}", *config.padding, config.count - 1);
  }
  const std::string name = scope + "weight";
  const bool bf16 = storage_ == WeightStorage::bf16 && weights.is_bf16(name);
  const bool packed = (config.projects && (storage_ == WeightStorage::full || bf16)) || in_blocks(weights);
  weight_ = PackedParameter(weights, name, {config.count, config.dim},
                            packed ? std::vector{config.count} : std::vector<std::int64_t>{},
                            in_blocks(weights) ? weights.storage() : storage_);
  if (config.projects && !packed) {
    rounded_ = weights.packed(name + ".rounded", config.dim, config.count, storage_, [&] { return rounded(); });
  }
}

// Rows that are looked up stay exact.
PackedMatrix Embedding::rounded() const {
  return PackedMatrix(weight_.own().value.view().transpose(0, 1), 0, storage_);
}

const PackedMatrix& Embedding::projection() const { return weight_.is_packed() ? weight_.part() : rounded_; }

Tensor Embedding::forward(std::span<const std::int32_t> ids) const {
  Tensor out = Tensor::zeros({static_cast<std::int64_t>(ids.size()), config_.dim}, weight_.dtype());
  add(ids, out);
  return out;
}

void Embedding::check(std::span<const std::int32_t> ids, const char* name, const TensorView& rows) const {
  const Dtype dtype = weight_.dtype();
  if (rows.shape() != Dims{static_cast<std::int64_t>(ids.size()), config_.dim} || rows.dtype() != dtype) {
    refuse("embedding", "{} is {} {}; it must be {} [{}, {}]", name, name_of(rows.dtype()), to_string(rows.shape()),
           name_of(dtype), ids.size(), config_.dim);
  }
  for (const std::int32_t id : ids) {
    if (id >= 0 && id < config_.count) continue;
    refuse("embedding", "id {} is not in a table of {} rows", id, config_.count);
  }
}

void Embedding::add(std::span<const std::int32_t> ids, Tensor& out) const {
  check(ids, "the result", out);
  const auto run = [&]<class T>(T) {
    T* to = out.data<T>();
    Tensor unpacked = Tensor::uninitialized({config_.dim, 1}, out.dtype());
    StopTurns turns;
    for (const std::int32_t id : ids) {
      turns.next();
      const T* row = unpacked.data<T>();
      if (weight_.is_kept()) {
        row = weight_.own().value.data<T>() + id * config_.dim;
      } else {
        weight_.part().unpack(unpacked, id);
      }
      for (std::int64_t i = 0; i < config_.dim; ++i) to[i] += row[i];
      to += config_.dim;
    }
  };
  visit_f32_f64(out.dtype(), run);
}

void Embedding::backward(std::span<const std::int32_t> ids, const TensorView& grad_out) {
  check(ids, "the gradient", grad_out);
  const MutableTensorView gradient = weight_.gradient();
  if (!gradient) return;
  const LayerRows rows("embedding: gradient", grad_out, config_.dim);
  const auto run = [&]<class T>(T) {
    const T* from = rows.view().data<T>();
    StopTurns turns;
    for (const std::int32_t id : ids) {
      turns.next();
      T* row = gradient.data<T>() + id * config_.dim;
      for (std::int64_t i = 0; i < config_.dim && id != config_.padding; ++i) row[i] += from[i];
      from += rows.view().stride(0);
    }
  };
  visit_f32_f64(grad_out.dtype(), run);
}

void Embedding::visit(const ParameterVisitor& visitor, const std::string& scope) const {
  const auto visit_table = [&](const std::string& name, const Parameter& table) {
    storage_ == WeightStorage::bf16&& weight_.is_packed() ? visitor(name, {.value = table.value})
                                                          : visitor(name, table);
  };
  weight_.visit(visit_table, scope + "weight");
}

void Embedding::update(const ParameterUpdater& updater, const std::string& scope) {
  if (storage_ == WeightStorage::bf16 && weight_.is_packed()) {  // new numbers need not be bf16
    Tensor table;
    weight_ = PackedParameter(Tensor::copy(weight_.value(table)), {});
  }
  weight_.update(updater, scope + "weight");
  const AdoptedStopScope unasked(nullptr);  // what is rounded changes with the table
  if (config_.projects && !weight_.is_packed()) rounded_ = rounded();
}

}  // namespace qkv
