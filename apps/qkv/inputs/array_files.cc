// Declares, reads and writes the arrays of a command.
#include "inputs/array_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "inputs/options.h"
#include "io/files/files.h"
#include "notes.h"
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

constexpr const char* kStandardOutput = "-";  // as the name of a file

template <class Array>
Array& add(Command& command, std::deque<Array>& list, const std::string& option, const std::string& help,
           const Rules& rules, const Check& check) {
  Array& array = list.emplace_back();
  array.name = option;
  const Value files{.variable = &array.paths, .type = "FILE", .check = check, .count = 1, .takes_words = false};
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
  return add(command_, inputs_, option, help, rules, check_file_name);
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
  const auto check = [](const std::string& text) {
    if (text == kStandardOutput) return std::string();
    const std::string file = io::parse_array_path(text).file;
    const auto ends_in = [&](std::string_view ending) { return io::has_ending(file, ending); };
    if (std::ranges::any_of(io::kArrayEndings, ends_in)) return check_file_name(text);
    return fmt::format("\"{}\" must end in {}, or be -, standard output", text, fmt::join(io::kArrayEndings, ", "));
  };
  return add(command_, outputs_, option, help, rules, check);
}

void ArrayFiles::check() const {
  std::vector<NamedFile> taken;
  add_names(inputs_, taken);
  for (const ArrayOption& array : outputs_) {
    for (const std::string& path : array.paths) {
      const NamedFile& output = {array.name.c_str(), path};
      check_output(taken, output);
      taken.push_back(output);
    }
  }
}

std::vector<NamedFile> ArrayFiles::names() const {
  std::vector<NamedFile> files;
  add_names(inputs_, files);
  add_names(outputs_, files);
  return files;
}

MutableTensorView ArrayFiles::allocate(const std::string& path, const Dims& shape, Dtype dtype) {
  if (path.empty()) return {};
  io::check_array_file(path, shape);
  return results_.emplace_back(path, Tensor::uninitialized(shape, dtype)).second;
}

bool ArrayFiles::writes_standard_output() const {
  return std::ranges::any_of(
      outputs_, [](const ArrayOption& output) { return std::ranges::count(output.paths, kStandardOutput) > 0; });
}

void ArrayFiles::write() const {
  std::vector<io::ArrayFile> files;
  for (const auto& [path, array] : results_) {
    if (path == kStandardOutput) continue;
    const io::ArrayPath parsed = io::parse_array_path(path);
    files.push_back({parsed.file, array, parsed.tensor.value_or("array")});
  }
  io::write_array_files(files);
  for (const io::ArrayFile& written : files) note_written(written.path);
  for (const auto& [path, array] : results_) {
    if (path == kStandardOutput) write_output(io::json_of_array(array));
  }
}

}  // namespace qkv::app
