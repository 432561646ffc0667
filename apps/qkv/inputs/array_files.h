// The arrays that a command reads from files and writes to files: each is declared once, with its option.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "command_line.h"
#include "inputs/options.h"
#include "qkv/tensor.h"

namespace qkv::app {

// An option that names a file, or several if it may be repeated.
struct ArrayOption {
  std::string name;
  std::vector<std::string> paths{};

  bool given() const { return !paths.empty(); }
};

struct InputArray : ArrayOption {
  std::vector<std::int64_t> numbers{};  // that stand on the command line instead
  std::vector<Tensor> arrays{};         // of the paths, once they are read

  bool given() const { return ArrayOption::given() || !numbers.empty(); }
  // The first one, or nothing.
  TensorView view() const { return arrays.empty() ? TensorView() : arrays.front().view(); }
  // As they are in the files, or as parameters of this type (read_parameter).
  void read();
  void read_as(Dtype dtype);
};

class ArrayFiles {
 public:
  explicit ArrayFiles(Command& command) : command_(command) {}
  ArrayFiles(const ArrayFiles&) = delete;

  InputArray& input(const std::string& option, const std::string& help, const Rules& rules = {});
  // Whole numbers, in a file or one by one.
  InputArray& numbers(const std::string& option, const std::string& help, const Rules& rules = {});
  ArrayOption& output(const std::string& option, const std::string& help, const Rules& rules = {});

  // UsageError or IoError for outputs that would lose data or could not be written.
  void check() const;

  // All that were named, with the options that named them.
  std::vector<NamedFile> names() const;

  // Room for an array to be written; nothing if no file was named.
  MutableTensorView allocate(const std::string& path, const Dims& shape, Dtype dtype);
  MutableTensorView allocate(const ArrayOption& output, const Dims& shape, Dtype dtype) {
    return output.given() ? allocate(output.paths.front(), shape, dtype) : MutableTensorView();
  }

  // Whether one of the outputs is named -.
  bool writes_standard_output() const;

  // All that there was room for, or nothing.
  void write() const;

 private:
  Command& command_;
  std::deque<InputArray> inputs_{};  // deques, as callers hold references
  std::deque<ArrayOption> outputs_{};
  std::deque<std::pair<std::string, Tensor>> results_{};
};

}  // namespace qkv::app
