// Masks, biases and scores as values of Python, which keep their arrays alive.
#pragma once

#include <nanobind/nanobind.h>

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
  Value value{};
  std::vector<Array> arrays{};
  std::string text{};  // how Python would make it, for repr()
};
// What two values make, with the arrays of both.
template <class Value>
Kept<Value> joined(Value value, const Kept<Value>& a, const Kept<Value>& b, const char* sign) {
  Kept<Value> both{std::move(value), a.arrays, a.text + sign + b.text};
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
const MaskValue& take_mask(nb::handle object, std::string_view name);
const BiasValue& take_bias(nb::handle object, std::string_view name);
Score take_score(nb::handle object, std::string_view name, std::vector<Array>& arrays);
Align take_align(nb::handle object, std::string_view name);

void bind_masks(nb::module_& module);
void bind_biases(nb::module_& module);
void bind_scores(nb::module_& module);

}  // namespace qkv::python
