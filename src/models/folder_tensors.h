// The tensors of a folder's model.safetensors, or of the files that its model.safetensors.index.json names, read under
// our names. Every name, shape and type is checked before an element is read, so that a folder that is refused costs
// no more than its headers.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors_header.h"
#include "models/tensor_names.h"

namespace qkv {

// The files that hold a folder's weights: model.safetensors alone if it exists, as in transformers; else the index and
// the files that it names.
std::vector<std::string> weight_files(const std::string& folder);

class FolderTensors {
 public:
  explicit FolderTensors(const std::string& folder);
  FolderTensors(const FolderTensors&) = delete;
  FolderTensors& operator=(const FolderTensors&) = delete;

  // Of model.safetensors or the index.
  const std::string& path() const { return path_; }
  bool contains(const std::string& name) const { return wanted_.contains(name); }
  // Tensors that nobody needs; they are not read.
  void pass_over(const std::function<bool(std::string_view name)>& is_needless);
  // Where both are there, `other` must be equal to `name`, bit for bit; it is not one of those to be named then.
  void tie(const std::string& other, const std::string& name);

  // FormatError, naming the file and the tensor, unless these are all, each in its shape and of a floating type.
  void expect(std::vector<TensorName> names);

  // What was expected, in f32 under our names.
  std::map<std::string, Tensor> read();

 private:
  struct File {
    explicit File(std::string path);

    std::string path;
    io::FileSource source;
    io::SafetensorsHeader header;
  };
  struct Entry {
    const io::SafetensorsEntry* tensor;
    const File* file;
  };
  using Entries = std::map<std::string_view, Entry>;

  [[noreturn]] void refuse_tie(const std::string& other, const std::string& name) const;

  std::string path_;
  std::deque<File> files_;
  Entries wanted_;
  std::map<std::string, std::string> ties_;  // from the other name to the first
  std::vector<TensorName> expected_;
};

}  // namespace qkv
