// Declares, reads and writes the arrays of a command.
#include "array_files.h"

#include "io/npy_files.h"
#include "options.h"
#include "qkv/files.h"
#include "signals.h"

namespace qkv::app {

void InputArray::read() {
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

template <class Array>
Array& ArrayFiles::add(std::deque<Array>& list, const char* option, const char* help) {
  Array& array = list.emplace_back();
  array.name = option;
  array.declared = command_.add_option(option, array.paths, help)
                       ->check(file_name())
                       ->expected(1)
                       ->allow_extra_args(false)
                       ->type_name("FILE");
  return array;
}

InputArray& ArrayFiles::input(const char* option, const char* help) { return add(inputs_, option, help); }

InputArray& ArrayFiles::inputs(const char* option, const char* help) {
  InputArray& array = add(inputs_, option, help);
  array.declared->take_all();
  return array;
}

ArrayOption& ArrayFiles::output(const char* option, const char* help) { return add(outputs_, option, help); }

ArrayOption& ArrayFiles::outputs(const char* option, const char* help) {
  ArrayOption& array = add(outputs_, option, help);
  array.declared->take_all();
  return array;
}

void ArrayFiles::check(std::vector<NamedFile> other_inputs, std::vector<NamedFile> other_outputs) const {
  const auto add_all = [](const auto& list, std::vector<NamedFile>& files) {
    for (const ArrayOption& array : list) {
      for (const std::string& path : array.paths) files.push_back({array.name.c_str(), path});
    }
  };
  add_all(inputs_, other_inputs);
  add_all(outputs_, other_outputs);
  check_outputs(other_inputs, other_outputs);
}

MutableTensorView ArrayFiles::place(const std::string& path, const Dims& shape, Dtype dtype) {
  if (path.empty()) return {};
  return results_.emplace_back(path, Tensor::uninitialized(shape, dtype)).second;
}

void ArrayFiles::write() const {
  std::vector<io::NpyFile> files;
  for (const auto& [path, array] : results_) files.push_back({path, array});
  io::write_npy_files(files);
}

}  // namespace qkv::app
