// The tensors of a folder's model.safetensors, or of the files that its model.safetensors.index.json names, read under
// our names; or those of a GGUF file, as if they were in one. Every name, shape and type is checked before an element
// is read, so that a folder that is refused costs no more than its headers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/arrays/safetensors_header.h"
#include "models/gguf_folder.h"
#include "models/tensor_names.h"
#include "qkv/layers/weights.h"

namespace qkv::inline models {

// The files that hold a folder's weights: model.safetensors alone if it exists, as in transformers; else the index and
// the files that it names.
std::vector<std::string> weight_files(const std::string& folder);

class FolderTensors {
 public:
  explicit FolderTensors(const std::string& folder);
  FolderTensors(const FolderTensors&) = delete;
  FolderTensors& operator=(const FolderTensors&) = delete;

  bool contains(const std::string& name) const { return wanted_.contains(name); }
  // Tensors that nobody needs; they are not read.
  void pass_over(const std::function<bool(std::string_view name)>& is_needless);
  // Where both are there, `other` must be equal to `name`, bit for bit; it is not one of those to be named then.
  void tie(const std::string& other, const std::string& name);
  bool ties(std::string_view other) const { return ties_.contains(std::string(other)); }

  // FormatError, naming the file and the tensor, unless these are all, each in its shape and of a floating type.
  void expect(std::vector<TensorName> names);

  // What was expected, under our names: each tensor is read when it is taken, in f32, or in the blocks that `storage`
  // keeps: q8 those of Q8_0, q4 those of Q4_0 and Q4_1, too. FormatError if there are none. This must still be there
  // then.
  Weights weights(WeightStorage storage = WeightStorage::full);

 private:
  struct File {
    explicit File(std::string path);

    std::string path;
    io::FileSource source;
    io::SafetensorsHeader header;
    std::uint64_t begin;  // of the elements
  };
  struct Entry {
    const io::SafetensorsEntry* tensor;
    File* file;           // none: it is in the GGUF file
    std::uint64_t begin;  // of its elements in the file
  };
  using Entries = std::map<std::string_view, Entry>;

  Tensor read(const Entry& entry) const;
  // How the blocks of one of our tensors are kept as they are; full: not at all.
  WeightStorage blocks_of(const TensorName& named, WeightStorage storage) const;
  void expect_blocks(WeightStorage storage) const;
  const std::string& path_of(const Entry& entry) const { return entry.file ? entry.file->path : path_; }
  [[noreturn]] void refuse_tie(const std::string& other, const std::string& name) const;

  std::string folder_, path_;
  std::deque<File> files_;
  std::unique_ptr<GgufFolder> gguf_;
  Entries wanted_;
  std::map<std::string, std::string> ties_;  // from the other name to the first
  std::vector<TensorName> expected_;
};

}  // namespace qkv::inline models
