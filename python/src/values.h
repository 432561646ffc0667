// Masks, biases and scores of qkv.options as values of C++, which keep their arrays alive.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
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
};

using MaskValue = Kept<Mask>;
using BiasValue = Kept<Bias>;
using ScoreValue = Kept<Score>;

// The value; its arrays are moved into `arrays`.
template <class Value>
Value keep(Kept<Value> kept, std::vector<Array>& arrays) {
  arrays.insert(arrays.end(), kept.arrays.begin(), kept.arrays.end());
  return std::move(kept.value);
}

// The calls that made a value of this class of qkv.options, (name, arguments) each; not valid for anything else.
nb::object parts_of(nb::handle object, const char* kind);

// TypeError for anything else. `take` reads arrays of floats.
using TakeFloats = Array (*)(nb::handle, std::string_view);
MaskValue take_mask(nb::handle object, std::string_view name);
BiasValue take_bias(nb::handle object, std::string_view name, TakeFloats take = &take_floats);
ScoreValue take_score(nb::handle object, std::string_view name, TakeFloats take = &take_floats);

// One call of a static method. Lists among its arguments become arrays.
MaskValue mask_part(std::string_view name, nb::list& arguments);
BiasValue bias_part(std::string_view name, const nb::list& arguments, TakeFloats take);
ScoreValue score_part(std::string_view name, const nb::list& arguments, TakeFloats take);

}  // namespace qkv::python
