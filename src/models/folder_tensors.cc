// Reads the tensors of a model.safetensors by our names, and checks them first.
#include "models/folder_tensors.h"

#include <fmt/format.h>

#include "io/elements.h"
#include "layers/basic/expect_tensor.h"
#include "layers/basic/rows.h"
#include "qkv/error.h"

namespace qkv {

FolderTensors::FolderTensors(const std::string& folder)
    : path_(folder + "/model.safetensors"), source_(path_), header_(io::read_safetensors_header(source_, path_)) {
  for (const io::SafetensorsEntry& entry : header_.entries) wanted_[entry.name] = &entry;
}

void FolderTensors::pass_over(const std::function<bool(std::string_view name)>& is_needless) {
  std::erase_if(wanted_, [&](const auto& entry) { return is_needless(entry.first); });
}

void FolderTensors::tie(const std::string& other, const std::string& name) {
  if (contains(other) && contains(name)) ties_[other] = name;
}

void FolderTensors::expect(std::vector<TensorName> names) {
  Entries left = wanted_;
  for (const auto& [other, name] : ties_) {
    const io::SafetensorsEntry &a = *left.at(other), &b = *left.at(name);
    if (a.shape != b.shape || a.dtype != b.dtype) refuse_tie(other, name);
    left.erase(other);
  }
  for (const TensorName& named : names) {
    Dims shape = named.shape;
    shape[0] /= static_cast<std::int64_t>(named.theirs.size());
    for (const std::string& name : named.theirs) {
      std::optional<TensorForm> form;
      if (const auto found = left.find(name); found != left.end()) form = {found->second->shape, found->second->dtype};
      expect_tensor(path_, name, form, shape);
      left.erase(name);
    }
  }
  if (!left.empty()) refuse_left_over(path_, std::string(left.begin()->first), left.size());
  expected_ = std::move(names);
}

std::map<std::string, Tensor> FolderTensors::read() {
  std::map<std::string, Tensor> theirs =
      io::read_safetensors_elements(source_, header_, [&](const std::string& name) { return contains(name); }, path_);
  for (const auto& [other, name] : ties_) {
    if (io::bytes_of(theirs.at(other)) != io::bytes_of(theirs.at(name))) refuse_tie(other, name);
    theirs.erase(other);
  }
  std::map<std::string, Tensor> ours;
  for (const TensorName& named : expected_) {
    std::vector<Tensor> parts;
    for (const std::string& name : named.theirs) {
      Tensor part = std::move(theirs.at(name));
      theirs.erase(name);
      parts.push_back(part.dtype() == Dtype::f32 ? std::move(part) : convert(part, Dtype::f32));
    }
    ours[named.ours] = stack_rows(std::move(parts));
  }
  return ours;
}

void FolderTensors::refuse_tie(const std::string& other, const std::string& name) const {
  throw FormatError(fmt::format("{}: tensor \"{}\" must be equal to {}: they are tied", path_, other, name));
}

}  // namespace qkv
