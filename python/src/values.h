// Masks, biases and scores as values of Python, which keep their arrays alive.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "qkv/attention/bias.h"
#include "qkv/attention/mask.h"
#include "qkv/attention/score.h"

namespace qkv::python {

// `Value` borrows the arrays.
template <class Value>
struct Kept {
  Value value;
  std::vector<Array> arrays{};
  nb::tuple calls{};  // that made it, (name, arguments) each: for repr(), copies and pickles
};

template <class... Handles>
nb::tuple call_of(const char* name, Handles... arguments) {
  return nb::make_tuple(nb::make_tuple(name, nb::make_tuple(nb::borrow(arguments)...)));
}
// "qkv.Mask.causal() & qkv.Mask.window(2, 0)", of static methods of a class.
std::string text_of_calls(nb::handle type, const nb::tuple& calls, std::string_view sign);
// What a call makes when it is repeated.
nb::object called_again(nb::handle type, nb::handle call);

// What two values make, with the arrays of both.
template <class Value>
Kept<Value> joined(Value value, const Kept<Value>& a, const Kept<Value>& b) {
  Kept<Value> both{std::move(value), a.arrays, nb::tuple(nb::object(a.calls + b.calls))};
  both.arrays.insert(both.arrays.end(), b.arrays.begin(), b.arrays.end());
  return both;
}

using MaskValue = Kept<Mask>;
using BiasValue = Kept<Bias>;
using ScoreValue = Kept<Score>;

// The value, whose arrays are kept in `arrays`.
template <class Value>
Value keep(const Kept<Value>& kept, std::vector<Array>& arrays) {
  arrays.insert(arrays.end(), kept.arrays.begin(), kept.arrays.end());
  return kept.value;
}

// TypeError, saying what was wanted, for anything else.
template <class Value>
const Value& take_kept(nb::handle object, std::string_view name, std::string_view wanted) {
  if (!nb::isinstance<Value>(object) || !nb::inst_ready(object)) refuse_type(object, name, wanted);
  return *nb::inst_ptr<Value>(object);
}

// repr() and what copy and pickle ask; `join` makes one of two.
template <class Value, class Join>
void add_values(nb::class_<Kept<Value>>& type, std::string_view sign, Join join) {
  type.attr("__array_ufunc__") = nb::none();  // an array of NumPy leaves the operators to it
  const nb::handle kind = type;
  type.def("__repr__", [kind, sign](const Kept<Value>& kept) { return text_of_calls(kind, kept.calls, sign); })
      .def(
          "__getstate__", [](const Kept<Value>& kept) { return kept.calls; },
          nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def(
          "__setstate__",
          [kind, join](Kept<Value>& place, const nb::tuple& calls) {
            std::optional<Kept<Value>> made;
            for (const nb::handle call : calls) {
              const nb::object again = called_again(kind, call);
              const auto& part = nb::cast<const Kept<Value>&>(again);
              made = made ? join(*made, part) : part;
            }
            new (&place) Kept<Value>(std::move(made.value()));
          },
          "state"_a, nb::sig("def __setstate__(self, state: tuple[typing.Any, ...]) -> None"));
}

MaskValue take_mask(nb::handle object, std::string_view name);
const BiasValue& take_bias(nb::handle object, std::string_view name);
Score take_score(nb::handle object, std::string_view name, std::vector<Array>& arrays);
Align take_align(nb::handle object, std::string_view name);

void bind_masks(nb::module_& module);
void bind_biases(nb::module_& module);
void bind_scores(nb::module_& module);

}  // namespace qkv::python
