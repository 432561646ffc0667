// Keywords of a function, each read into its place by name; what nobody asked for is a TypeError that names it.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "qkv/attention/bias.h"
#include "qkv/attention/dropout.h"
#include "qkv/attention/mask.h"
#include "qkv/pictures.h"

namespace qkv::python {

class Keywords {
 public:
  Keywords(std::string function, nb::kwargs given) : function_(std::move(function)), given_(std::move(given)) {}

  // One that is not given leaves its place as it is, as None does. The name that is read last is that of the argument
  // in messages.
  void read(const char* name, std::int64_t& to);
  void read(const char* name, int& to);
  void read_threads(int& to);
  void read(const char* name, double& to);
  void read(const char* name, bool& to);
  void read(const char* name, std::string& to);
  void read(const char* name, std::optional<double>& to);
  void read(const char* name, std::optional<std::uint64_t>& to);
  void read(const char* name, PictureSize& to);  // a whole number, or (height, width)
  void read(const char* name, std::optional<std::array<std::int64_t, 2>>& to);
  void read(const char* name, Mask& to);
  void read(const char* name, Bias& to);
  void read_integers(const char* name, TensorView& to);
  void read_floats(const char* name, TensorView& to);
  // Of ragged rows: int32 [batch + 1].
  void read_offsets(const char* name, TensorView& to);
  void read_texts(const char* name, std::vector<std::string>& to);
  // The keywords dropout and seed. ValueError for the first without the second.
  void read(Dropout& to);

  template <class Choice, std::size_t kCount>
  void read(const char* name, Choice& to, const std::pair<std::string_view, Choice> (&choices)[kCount]) {
    if (const nb::handle value = take(name); value.is_valid()) to = take_choice<Choice>(value, name, choices);
  }

  // TypeError if one is left.
  void finish() const;
  // What the views that were read borrow from.
  const std::vector<Array>& arrays() const { return arrays_; }

 private:
  nb::handle take(const char* name);  // not valid: not given, or None

  std::string function_;
  nb::kwargs given_;
  std::vector<std::string> known_{};
  std::vector<Array> arrays_{};
};

}  // namespace qkv::python
