// What the operators of qkv.torch are called with besides query, key and value.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <vector>

#include "arrays.h"
#include "inputs/call_options.h"

namespace qkv::python {

// The tensor as the library reads it: the last dimension without gaps.
Array take_rows(nb::handle tensor, std::string_view name);

// `rest`: the tensors of a call, sinks, mask, lengths, documents and seed, any of them None, and each bias; or empty.
// `plain`: causal, left, right, scale, soft_cap and dropout.
CallOptions take_call(const nb::tuple& plain, const std::vector<nb::object>& rest, int threads);

}  // namespace qkv::python
