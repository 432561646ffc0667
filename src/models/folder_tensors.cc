// Reads the tensors of a model's folder by our names, and checks them first.
#include "models/folder_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "io/arrays/safetensors_header.h"
#include "io/files/byte_source.h"
#include "io/files/descriptor.h"
#include "io/files/text.h"
#include "layers/basic/layer_checks.h"
#include "layers/basic/rows.h"
#include "models/panel_file.h"
#include "qkv/error.h"

namespace qkv::inline models {
namespace {

constexpr const char* kIndex = "model.safetensors.index.json";

// The file that lists the tensors.
std::string weights_path(const std::string& folder) {
  const std::string whole = folder + "/model.safetensors", index = folder + "/" + kIndex;
  return !io::is_there(whole) && io::is_there(index) ? index : whole;
}

bool is_index(const std::string& path) { return path.ends_with(kIndex); }

// The index and the header of a file must list the same tensors.
void check_listed(const std::string& path, const io::SafetensorsHeader& header, std::set<std::string> listed) {
  for (const io::SafetensorsEntry& entry : header.entries) {
    if (listed.erase(entry.name) == 0) {
      throw FormatError(
          fmt::format("{}: tensor {} is not listed for this file in {}", path, io::quote(entry.name), kIndex));
    }
  }
  if (!listed.empty()) {
    throw FormatError(fmt::format("{}: tensor {} is missing, but {} lists it for this file", path,
                                  io::quote(*listed.begin()), kIndex));
  }
}

}  // namespace

std::vector<std::string> weight_files(const std::string& folder) {
  std::vector<std::string> files{weights_path(folder)};
  if (!is_index(files[0])) return files;
  for (const auto& [file, names] : io::read_safetensors_index(files[0])) files.push_back(folder + "/" + file);
  return files;
}

FolderTensors::File::File(std::string name)
    : path(std::move(name)),
      source(path),
      header(io::read_safetensors_header(source, path)),
      begin(source.position()) {}

FolderTensors::FolderTensors(const std::string& folder) : folder_(folder), path_(weights_path(folder)) {
  if (is_gguf(folder)) {
    path_ = folder;
    gguf_ = std::make_unique<GgufFolder>(folder);
    for (const io::SafetensorsEntry& entry : gguf_->tensors()) wanted_[entry.name] = {&entry, nullptr, 0};
  } else if (!is_index(path_)) {
    files_.emplace_back(path_);
  } else {
    for (auto& [name, listed] : io::read_safetensors_index(path_)) {
      const File& file = files_.emplace_back(folder + "/" + name);
      check_listed(file.path, file.header, listed);
    }
  }
  for (File& file : files_) {
    std::uint64_t begin = file.begin;
    for (const io::SafetensorsEntry& entry : file.header.entries) {
      wanted_[entry.name] = {&entry, &file, begin};
      begin += entry.bytes;
    }
  }
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
    const io::SafetensorsEntry &a = *left.at(other).tensor, &b = *left.at(name).tensor;
    if (a.shape != b.shape || a.dtype != b.dtype) refuse_tie(other, name);
    left.erase(other);
  }
  const Entries all = left;
  for (const TensorName& named : names) {
    for (std::size_t i = 0; i < named.theirs.size(); ++i) {
      const std::string& name = named.theirs[i];
      const auto found = all.find(name);
      std::optional<TensorForm> form;
      if (found != all.end()) form = {found->second.tensor->shape, found->second.tensor->dtype};
      expect_tensor(form ? path_of(found->second) : path_, name, form, named.parts[i]);
      left.erase(name);  // two of ours may have a part each of it
    }
  }
  if (!left.empty()) {
    refuse_left_over(path_of(left.begin()->second), std::string(left.begin()->first), left.size());
  }
  expected_ = std::move(names);
}

Tensor FolderTensors::read(const Entry& entry) const {
  if (!entry.file) return gguf_->read(entry.tensor->name);
  entry.file->source.seek(entry.begin);
  return io::read_elements(entry.file->source, entry.tensor->shape, entry.tensor->dtype,
                           fmt::format("{}: tensor {}", entry.file->path, io::quote(entry.tensor->name)));
}

WeightStorage FolderTensors::blocks_of(const TensorName& named, WeightStorage storage) const {
  if (block_bytes(storage) == 0 || gguf_ == nullptr || named.form) return WeightStorage::full;
  const WeightStorage kept = gguf_->blocks_of(named.theirs.front());
  const bool alike =
      std::ranges::all_of(named.theirs, [&](const std::string& name) { return gguf_->blocks_of(name) == kept; });
  return alike && (kept == storage || kept == WeightStorage::q8) ? kept : WeightStorage::full;
}

void FolderTensors::expect_blocks(WeightStorage storage) const {
  if (block_bytes(storage) == 0 ||
      std::ranges::any_of(expected_, [&](const TensorName& named) { return blocks_of(named, storage) == storage; })) {
    return;
  }
  const bool q8 = storage == WeightStorage::q8;
  throw FormatError(fmt::format("{}: has no weights in {}; {} keeps those of a GGUF file", path_,
                                q8 ? "Q8_0" : "Q4_0 or Q4_1", q8 ? "q8" : "q4"));
}

Weights FolderTensors::weights(WeightStorage storage) {
  expect_blocks(storage);
  for (const auto& [other, name] : ties_) {
    if (io::bytes_of(read(wanted_.at(other))) != io::bytes_of(read(wanted_.at(name)))) refuse_tie(other, name);
  }
  const auto named_ours = [this](const std::string& ours) -> const TensorName& {
    return *std::ranges::find(expected_, ours, &TensorName::ours);
  };
  const auto read_ours = [this, storage, named_ours](const std::string& ours, const Dims&) {
    const TensorName& named = named_ours(ours);
    std::vector<Tensor> parts;
    if (blocks_of(named, storage) != WeightStorage::full) {
      for (const std::string& name : named.theirs) parts.push_back(gguf_->read_blocks(name));
      return stack_rows(std::move(parts));
    }
    for (const std::string& name : named.theirs) parts.push_back(read(wanted_.at(name)));
    return to_ours(named, std::move(parts));
  };
  Weights weights(read_ours, Dtype::f32, storage);
  weights.set_bf16([this, named_ours](const std::string& ours) {
    const TensorName& named = named_ours(ours);
    return !named.form && std::ranges::all_of(named.theirs, [&](const std::string& name) {
      return wanted_.at(name).tensor->dtype == Dtype::bf16;
    });
  });
  std::vector<std::string> files{path_};
  for (const File& file : files_) {
    if (file.path != path_) files.push_back(file.path);
  }
  // What the rows of a matrix are, heads for one, the config says; a GGUF file has its own.
  if (!is_gguf(folder_)) files.push_back(folder_ + "/config.json");
  weights.set_panels(panels_of(folder_, files, storage));
  return weights;
}

void FolderTensors::refuse_tie(const std::string& other, const std::string& name) const {
  throw FormatError(fmt::format("{}: tensor \"{}\" must be equal to {}: they are tied", path_, other, name));
}

}  // namespace qkv::inline models
