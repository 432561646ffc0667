// Names tensors, and converts them between the two sides.
#include "models/tensor_names.h"

#include <algorithm>

#include "layers/basic/rows.h"

namespace qkv::inline models {

void TensorNames::add(const std::string& ours, const Dims& shape, const std::vector<std::string>& theirs) {
  std::vector<std::pair<std::string, std::int64_t>> rows;
  for (const std::string& name : theirs) rows.emplace_back(name, shape[0] / std::ssize(theirs));
  add_rows(ours, shape, rows);
}

void TensorNames::add_rows(const std::string& ours, const Dims& shape,
                           const std::vector<std::pair<std::string, std::int64_t>>& theirs) {
  TensorName named{.ours = ours, .shape = shape, .theirs = {}, .parts = {}};
  for (const auto& [name, rows] : theirs) {
    named.theirs.push_back(prefix_ + name);
    named.parts.push_back(shape);
    named.parts.back()[0] = rows;
  }
  all_.push_back(std::move(named));
}

void TensorNames::add_formed(const std::string& ours, const Dims& shape, const std::string& theirs, const Dims& part,
                             const std::function<Tensor(const Tensor&)>& form) {
  all_.push_back({.ours = ours, .shape = shape, .theirs = {prefix_ + theirs}, .parts = {part}, .form = form});
}

void TensorNames::add_part(const std::string& ours, const Dims& shape, const std::string& theirs, const Dims& part,
                           std::int64_t first) {
  add_formed(ours, shape, theirs, part, {});
  all_.back().first_row = first;
}

void TensorNames::add_reshaped(const std::string& ours, const Dims& shape, const std::string& theirs,
                               const Dims& part) {
  add_formed(ours, shape, theirs, part, {});
}

void TensorNames::add_head(const std::string& name, const Dims& shape, const Dims& part, const std::string& theirs) {
  all_.push_back({.ours = name,
                  .shape = shape,
                  .theirs = {theirs.empty() ? name : theirs},
                  .parts = {part.empty() ? shape : part}});
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
  if (named.form) whole = named.form(whole);
  if (named.first_row) {
    return Tensor::copy(whole.view().slice(0, *named.first_row, *named.first_row + named.shape[0]));
  }
  return whole.shape() == named.shape ? std::move(whole) : Tensor::copy(whole.view().reshape(named.shape));
}

void TensorNames::add_theirs(const std::string& ours, const TensorView& value, Dtype dtype,
                             std::map<std::string, Tensor>& theirs) const {
  const TensorName& named = *std::ranges::find(all_, ours, &TensorName::ours);
  if (named.first_row) {
    Tensor& whole = theirs.try_emplace(named.theirs.front(), Tensor::zeros(named.parts.front(), dtype)).first->second;
    convert(value, whole.view().slice(0, *named.first_row, *named.first_row + value.size(0)));
    return;
  }
  std::int64_t begin = 0;
  const std::int64_t per_row = value.element_count() / value.size(0);
  for (std::size_t i = 0; i < named.theirs.size(); ++i) {
    const std::int64_t end = begin + element_count(named.parts[i]) / per_row;
    theirs[named.theirs[i]] = convert(value.slice(0, begin, end).reshape(named.parts[i]), dtype);
    begin = end;
  }
}

}  // namespace qkv::inline models
