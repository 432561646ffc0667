// Declares, reads and writes the arrays of a command.
#include "inputs/array_files.h"

#include <fmt/format.h>

#include "inputs/options.h"
#include "io/files/files.h"
#include "qkv/files.h"
#include "signals.h"

namespace qkv::app {

void InputArray::read() {
  if (!numbers.empty()) arrays.push_back(Tensor::of({std::ssize(numbers)}, numbers));
  for (const std::string& path : paths) {
    check_interruption();
    arrays.push_back(read_array(path));
  }
}

void InputArray::read_as(Dtype dtype) {
  for (const std::string& path : paths) {
    check_interruption();
    arrays.push_back(read_parameter(name, path, dtype));
  }
}

namespace {

template <class Array>
Array& add(Command& command, std::deque<Array>& list, const std::string& option, const std::string& help,
           const Rules& rules) {
  Array& array = list.emplace_back();
  array.name = option;
  const Value files{.target = &array.paths, .type = "FILE", .check = check_file_name, .count = 1, .takes_words = false};
  command.add({{option, files, help, rules}});
  return array;
}

template <class Array>
void add_names(const std::deque<Array>& list, std::vector<NamedFile>& files) {
  for (const ArrayOption& array : list) {
    for (const std::string& path : array.paths) files.push_back({array.name.c_str(), path});
  }
}

}  // namespace

InputArray& ArrayFiles::input(const std::string& option, const std::string& help, const Rules& rules) {
  return add(command_, inputs_, option, help, rules);
}

InputArray& ArrayFiles::numbers(const std::string& option, const std::string& help, const Rules& rules) {
  InputArray& array = inputs_.emplace_back();
  array.name = option;
  const auto take = [&array](const std::string& text) {
    array.numbers = parse_wholes(text);
    if (!array.numbers.empty()) return std::string();
    array.paths = {text};
    const bool is_file = text.find('.') != std::string::npos && check_file_name(text).empty();
    return is_file ? "" : fmt::format("\"{}\" must be whole numbers N,N,... or a file of them", text);
  };
  command_.add({{option, {Check(take), "FILE|N,N,..."}, help, rules}});
  return array;
}

ArrayOption& ArrayFiles::output(const std::string& option, const std::string& help, const Rules& rules) {
  return add(command_, outputs_, option, help, rules);
}

void ArrayFiles::check(std::vector<NamedFile> other_inputs, std::vector<NamedFile> other_outputs) const {
  add_names(inputs_, other_inputs);
  add_names(outputs_, other_outputs);
  check_outputs(other_inputs, other_outputs);
}

std::vector<NamedFile> ArrayFiles::names() const {
  std::vector<NamedFile> files;
  add_names(inputs_, files);
  add_names(outputs_, files);
  return files;
}

MutableTensorView ArrayFiles::allocate(const std::string& path, const Dims& shape, Dtype dtype) {
  if (path.empty()) return {};
  return results_.emplace_back(path, Tensor::uninitialized(shape, dtype)).second;
}

void ArrayFiles::write() const {
  std::vector<io::NpyFile> files;
  for (const auto& [path, array] : results_) files.push_back({path, array});
  io::write_npy_files(files);
}

}  // namespace qkv::app
