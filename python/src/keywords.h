// Keywords of a function, each read by name; TypeError, naming it, for an unknown one.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "qkv/attention.h"
#include "qkv/pictures.h"
#include "values.h"

namespace qkv::python {

class Keywords {
 public:
  // `how`: arrays of floats are read by it.
  Keywords(std::string function, nb::dict given, TakeFloats how = &take_floats)
      : function_(std::move(function)), given_(std::move(given)), take_floats_(how) {}

  // One that is not given leaves its place as it is, as None does: a whole number, another number, a bool, a text, a
  // seed, (height, width) or one number for both, two numbers, a mask, a bias, a score or any object.
  template <class Value>
  void read(const char* name, Value& to) {
    takes_masks_ |= std::is_same_v<Value, Mask>;
    if (const nb::handle value = take(name); value.is_valid()) set(to, value, name);
  }
  // Several, each a name and its place.
  template <class Value, class... Rest>
  void read(const char* name, Value& to, const char* next, Rest&... rest) {
    read(name, to);
    read(next, rest...);
  }
  void read_threads(int& to);
  void read_integers(const char* name, TensorView& to);
  void read_floats(const char* name, TensorView& to);
  // Offsets of ragged rows: int32 [batch + 1].
  void read_offsets(const char* name, TensorView& to);
  // The keywords dropout and seed. ValueError for the first without the second.
  void read_dropout(Dropout& to);

  template <class Choice, std::size_t kCount>
  void read(const char* name, Choice& to, const std::pair<std::string_view, Choice> (&choices)[kCount]) {
    if (const nb::handle value = take(name); value.is_valid()) to = take_choice<Choice>(value, name, choices);
  }

  // Whether it is given and not None; only for keywords that were not read yet.
  bool has(const char* name);
  // TypeError if one is left. Gives what the views that were read borrow from.
  std::vector<Array> finish();

 private:
  nb::handle take(const char* name);  // not valid: not given, or None
  void set(std::int64_t& to, nb::handle value, const char* name) { to = take_whole(value, name); }
  void set(int& to, nb::handle value, const char* name) { to = take_count(value, name); }
  void set(double& to, nb::handle value, const char* name) { to = take_number(value, name); }
  void set(bool& to, nb::handle value, const char* name) { to = take_flag(value, name); }
  void set(std::string& to, nb::handle value, const char* name) { to = take_text(value, name); }
  void set(std::optional<double>& to, nb::handle value, const char* name) { to = take_number(value, name); }
  void set(std::optional<std::int64_t>& to, nb::handle value, const char* name) { to = take_whole(value, name); }
  void set(std::optional<std::uint64_t>& to, nb::handle value, const char* name) { to = take_seed(value, name); }
  void set(std::vector<std::string>& to, nb::handle value, const char* name) { to = take_texts(value, name); }
  void set(PictureSize& to, nb::handle value, const char* name);
  void set(std::optional<std::array<std::int64_t, 2>>& to, nb::handle value, const char* name);
  void set(Mask& to, nb::handle value, const char* name) { to = keep(take_mask(value, name), arrays_); }
  void set(Bias& to, nb::handle value, const char* name) { to = keep(take_bias(value, name, take_floats_), arrays_); }
  void set(Score& to, nb::handle value, const char* name) { to = keep(take_score(value, name, take_floats_), arrays_); }
  void set(nb::object& to, nb::handle value, const char*) { to = nb::borrow(value); }

  std::string function_;
  nb::dict given_;
  TakeFloats take_floats_;
  bool takes_masks_ = false;
  std::vector<std::string_view> found_{};  // of those that are given
  std::vector<Array> arrays_{};
};

// The keywords that every call of attention and of its derivatives takes; keeps their arrays alive.
struct CallOptions {
  AttentionOptions options{};
  std::vector<Array> arrays{};
};

// The last of the keywords of a function: it knows no others.
CallOptions take_options(Keywords& keywords);

// Multiplications and additions of a call at most, as if nothing was masked.
double most_operations(const TensorView& query, const TensorView& key);

}  // namespace qkv::python
