// Weights: hands out tensors by name, each once.
#include "qkv/layers/weights.h"

#include "core/refuse.h"
#include "layers/basic/layer_checks.h"

namespace qkv {

Weights::Weights(std::map<std::string, Tensor> tensors, std::string origin, Dtype dtype, WeightStorage storage)
    : Weights(Draw(), dtype, storage) {
  refuse_unless(block_bytes(storage) == 0, "weights", "numbers have no blocks; q8 and q4 keep those of a file");
  tensors_ = std::move(tensors);
  origin_ = std::move(origin);
}

Weights::Weights(Draw draw, Dtype dtype, WeightStorage storage)
    : draw_(std::move(draw)), origin_("weights"), dtype_(dtype), storage_(storage) {
  if (dtype != Dtype::f32 && dtype != Dtype::f64) {
    refuse("weights", "layers compute in f32 or f64, not in {}", name_of(dtype));
  }
  if (dtype == Dtype::f64 && storage != WeightStorage::full) {
    refuse("weights", "f64 matrices need full storage");
  }
}

Tensor Weights::take(const std::string& name, const Dims& shape) {
  Tensor taken = take_stored(name, shape);
  refuse_unless(taken.dtype() != Dtype::u8, origin_, "tensor \"{}\" is in blocks, which are for products alone", name);
  return taken;
}

Tensor Weights::take_stored(const std::string& name, const Dims& shape) {
  const auto found = tensors_.find(name);
  Tensor taken;
  if (found == tensors_.end() && draw_) {
    taken = draw_(name, shape);
  } else {
    std::optional<TensorForm> form;
    if (found != tensors_.end()) form = {found->second.shape(), found->second.dtype()};
    expect_tensor(origin_, name, form, shape);
    taken = std::move(found->second);
    tensors_.erase(found);
  }
  return taken.dtype() == dtype_ || taken.dtype() == Dtype::u8 ? std::move(taken) : convert(taken, dtype_);
}

PackedMatrix Weights::packed(const std::string& name, std::int64_t rows, std::int64_t columns, WeightStorage storage,
                             const std::function<PackedMatrix()>& pack) {
  if (panels_ == nullptr || dtype_ != Dtype::f32) return pack();
  if (std::optional<PackedMatrix> found = panels_->find(name, rows, columns, storage)) return *std::move(found);
  PackedMatrix matrix = pack();
  panels_->keep(name, matrix);
  return matrix;
}

void Weights::expect_empty() const {
  if (!tensors_.empty()) refuse_left_over(origin_, tensors_.begin()->first, tensors_.size());
}

WeightStorage with_precision(WeightStorage storage, Precision precision) {
  if (precision == Precision::exact) return storage;
  if (storage == WeightStorage::int8 || storage == WeightStorage::int8_groups || block_bytes(storage) > 0) {
    refuse("precision", "{} rounds weights to bf16; with weights in int8, q8 or q4 products are those of such weights",
           name_of(precision));
  }
  return precision == Precision::reduced ? WeightStorage::reduced : WeightStorage::reduced_pairs;
}

Precision precision_of(WeightStorage storage) {
  if (storage == WeightStorage::reduced) return Precision::reduced;
  return storage == WeightStorage::reduced_pairs ? Precision::reduced_pairs : Precision::exact;
}

}  // namespace qkv
