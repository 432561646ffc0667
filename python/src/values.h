// Masks, biases and scores as values of Python, which keep their arrays alive.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

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
using MaskValue = Kept<Mask>;
using BiasValue = Kept<Bias>;
using ScoreValue = Kept<Score>;

Align take_align(nb::handle object);

void bind_masks(nb::module_& module);
void bind_biases(nb::module_& module);
void bind_scores(nb::module_& module);

}  // namespace qkv::python
