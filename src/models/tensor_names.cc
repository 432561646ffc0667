// Names tensors, and converts them between the two sides.
#include "models/tensor_names.h"

#include "layers/basic/rows.h"

namespace qkv::inline models {

void TensorNames::add(const std::string& ours, const Dims& shape, const std::vector<std::string>& theirs) {
  TensorName named{.ours = ours, .shape = shape, .theirs = {}, .part = shape};
  for (const std::string& name : theirs) named.theirs.push_back(prefix_ + name);
  named.part[0] /= static_cast<std::int64_t>(theirs.size());
  all_.push_back(std::move(named));
}

void TensorNames::add_row(const std::string& name, std::int64_t size) {
  all_.push_back({.ours = name, .shape = {size}, .theirs = {name}, .part = {1, size}});
}

void TensorNames::add_norm(const std::string& ours, const std::string& theirs, std::int64_t dim) {
  add(ours + ".weight", {dim}, {theirs + ".weight"});
  if (has_norm_bias_) add(ours + ".bias", {dim}, {theirs + ".bias"});
}

void TensorNames::add_linear(const std::string& ours, const std::string& theirs, std::int64_t out, std::int64_t in) {
  add(ours + ".weight", {out, in}, {theirs + ".weight"});
  add(ours + ".bias", {out}, {theirs + ".bias"});
}

void TensorNames::add_attention(const std::string& ours, const std::vector<std::string>& roles, const std::string& out,
                                std::int64_t dim) {
  std::vector<std::string> weights, biases;
  for (const std::string& role : roles) {
    weights.push_back(role + ".weight");
    biases.push_back(role + ".bias");
  }
  add(ours + ".in_proj_weight", {3 * dim, dim}, weights);
  add(ours + ".in_proj_bias", {3 * dim}, biases);
  add_linear(ours + ".out_proj", out, dim, dim);
}

Tensor to_ours(const TensorName& named, std::vector<Tensor> theirs) {
  for (Tensor& part : theirs) {
    if (part.dtype() != Dtype::f32) part = convert(part, Dtype::f32);
  }
  Tensor whole = stack_rows(std::move(theirs));
  return whole.shape() == named.shape ? std::move(whole) : Tensor::copy(whole.view().reshape(named.shape));
}

std::vector<Tensor> to_theirs(const TensorName& named, const TensorView& ours, Dtype dtype) {
  const std::int64_t rows = ours.size(0) / static_cast<std::int64_t>(named.theirs.size());
  std::vector<Tensor> theirs;
  for (std::int64_t begin = 0; begin < ours.size(0); begin += rows) {
    theirs.push_back(convert(ours.slice(0, begin, begin + rows).reshape(named.part), dtype));
  }
  return theirs;
}

}  // namespace qkv::inline models
