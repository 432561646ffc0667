// Reads numbers, texts and lists of them, strictly: a bool is no number, a text no list of characters.
#include "arguments.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <limits>

namespace qkv::python {
namespace {

// An int, or an object with __index__.
nb::object index_of(nb::handle object, std::string_view name) {
  if (PyBool_Check(object.ptr()) || nb::hasattr(object, "__dlpack__") || !PyIndex_Check(object.ptr())) {
    refuse_type(object, name, "a whole number");
  }
  return nb::steal(PyNumber_Index(object.ptr()));
}

}  // namespace

std::string name_of_type(nb::handle object) {
  const nb::handle type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  return nb::cast<std::string>(nb::str(nb::object(nb::getattr(type, "__name__"))));
}

bool is_list(nb::handle object) {
  return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()) || PyRange_Check(object.ptr());
}

void refuse_type(nb::handle object, std::string_view name, std::string_view wanted) {
  const bool is_array = nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "item");
  const std::string hint = is_array && wanted.ends_with("number") ? fmt::format("; {}.item() is one", name) : "";
  throw TypeError(fmt::format("{} must be {}, got {}{}", name, wanted, name_of_type(object), hint));
}

double take_number(nb::handle object, std::string_view name) {
  if (PyFloat_Check(object.ptr())) return PyFloat_AsDouble(object.ptr());
  const bool is_number = !PyBool_Check(object.ptr()) && !PyComplex_Check(object.ptr()) &&
                         !nb::hasattr(object, "__dlpack__") &&
                         (PyIndex_Check(object.ptr()) || nb::hasattr(object, "__float__"));
  if (!is_number) refuse_type(object, name, "a number");
  const double value = PyFloat_AsDouble(object.ptr());
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return value;
}

std::int64_t take_whole(nb::handle object, std::string_view name) {
  const nb::object number = PyLong_CheckExact(object.ptr()) ? nb::borrow(object) : index_of(object, name);
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0) throw std::invalid_argument(fmt::format("{} must be a number of at most 63 bits", name));
  return value;
}

int take_count(nb::handle object, std::string_view name) {
  return static_cast<int>(std::clamp<std::int64_t>(take_whole(object, name), -1, std::numeric_limits<int>::max()));
}

int take_threads(nb::handle object) {
  const int count = object.is_none() ? 0 : take_count(object, "threads");
  if (count == 0 && !object.is_none()) throw std::invalid_argument("threads must be a number from 1, or None");
  return count;
}

std::uint64_t take_seed(nb::handle object, std::string_view name) {
  const nb::object number = index_of(object, name);
  const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw std::invalid_argument(fmt::format("{} must be a number from 0 to 2^64 - 1", name));
  }
  return value;
}

bool take_flag(nb::handle object, std::string_view name) {
  if (!PyBool_Check(object.ptr())) refuse_type(object, name, "True or False");
  return object.ptr() == Py_True;
}

std::string take_text(nb::handle object, std::string_view name) { return std::string(text_of(object, name)); }

std::string_view text_of(nb::handle object, std::string_view name) {
  if (!PyUnicode_Check(object.ptr())) refuse_type(object, name, "a str");
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    throw std::invalid_argument(fmt::format("{} holds a lone surrogate, which is no character", name));
  }
  return {text, static_cast<std::size_t>(size)};
}

std::vector<std::int64_t> take_whole_numbers(nb::handle object, std::string_view name) {
  if (PyUnicode_Check(object.ptr()) || !nb::hasattr(object, "__iter__")) refuse_type(object, name, "whole numbers");
  std::vector<std::int64_t> numbers;
  for (nb::handle item : nb::iter(object)) {
    numbers.push_back(take_whole(item, fmt::format("{}[{}]", name, numbers.size())));
  }
  return numbers;
}

nb::object give_text(const std::string& bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace");
  if (text == nullptr) throw nb::python_error();
  return nb::steal(text);
}

std::vector<std::string> take_texts(nb::handle object, std::string_view name) {
  if (PyUnicode_Check(object.ptr()) || PyBytes_Check(object.ptr()) || !nb::hasattr(object, "__iter__")) {
    refuse_type(object, name, "a str or a list of str");
  }
  std::vector<std::string> texts;
  for (nb::handle item : nb::iter(object)) {
    texts.push_back(take_text(item, fmt::format("{}[{}]", name, texts.size())));
  }
  return texts;
}

std::vector<std::vector<std::int32_t>> take_id_lists(nb::handle object, std::string_view name) {
  if (PyUnicode_Check(object.ptr()) || !nb::hasattr(object, "__iter__")) {
    refuse_type(object, name, "a list of lists of ids");
  }
  std::vector<std::vector<std::int32_t>> all;
  for (nb::handle list : nb::iter(object)) {
    std::vector<std::int32_t>& ids = all.emplace_back();
    for (const std::int64_t id : take_whole_numbers(list, fmt::format("{}[{}]", name, all.size() - 1))) {
      if (id < 0 || id > std::numeric_limits<std::int32_t>::max()) {
        throw std::invalid_argument("ids must be from 0 to 2^31 - 1");
      }
      ids.push_back(static_cast<std::int32_t>(id));
    }
  }
  return all;
}

}  // namespace qkv::python
