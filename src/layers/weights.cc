#include "qkv/weights.h"

#include <fmt/format.h>

#include <stdexcept>

#include "io/quote.h"
#include "qkv/error.h"

namespace qkv {

Weights::Weights(std::map<std::string, Tensor> tensors, std::string origin, Dtype dtype, WeightStorage storage)
    : tensors_(std::move(tensors)), origin_(std::move(origin)), dtype_(dtype), storage_(storage) {
  if (dtype != Dtype::f32 && dtype != Dtype::f64) {
    throw std::invalid_argument(fmt::format("weights: layers compute in f32 or f64, not in {}", name_of(dtype)));
  }
  if (dtype == Dtype::f64 && storage != WeightStorage::full) {
    throw std::invalid_argument("weights: matrices of f64 are kept full");
  }
}

Weights::Weights(Draw draw, Dtype dtype) : Weights(std::map<std::string, Tensor>{}, "weights", dtype) {
  draw_ = std::move(draw);
}

Tensor Weights::take(const std::string& name, const Dims& shape) {
  if (draw_) return convert(draw_(name, shape), dtype_);
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw FormatError(fmt::format("{}: tensor \"{}\" {} is missing", origin_, name, to_string(shape)));
  }
  const Tensor& tensor = found->second;
  if (tensor.shape() != shape) {
    throw FormatError(fmt::format("{}: tensor \"{}\" is {}; it must be {}", origin_, name, to_string(tensor.shape()),
                                  to_string(shape)));
  }
  if (!is_floating(tensor.dtype())) {
    throw FormatError(
        fmt::format("{}: tensor \"{}\" is {}; it must be a floating type", origin_, name, name_of(tensor.dtype())));
  }
  Tensor taken = std::move(found->second);
  tensors_.erase(found);
  return taken.dtype() == dtype_ ? std::move(taken) : convert(taken, dtype_);
}

void Weights::expect_empty() const {
  if (tensors_.empty()) return;
  throw FormatError(fmt::format("{}: tensor {}{} belongs to no part of this model", origin_,
                                io::quote(tensors_.begin()->first),
                                tensors_.size() > 1 ? fmt::format(" (and {} more)", tensors_.size() - 1) : ""));
}

}  // namespace qkv
