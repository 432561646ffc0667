// What objects of `explain --json` begin with, and their numbers (docs/explain_json.md). JSON as text that is always
// valid.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json_events.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

using OrderedJson = nlohmann::ordered_json;

// schema, kind, version, target, dtype and title.
OrderedJson json_object(const char* kind, const std::string& target, Dtype dtype, const std::string& title);

// A number that was computed in f32, in as many digits as read back to it.
OrderedJson json_number_f32(double value);

// Nested arrays of an f64 tensor; null if it was not kept. `dtype` is that of the computation.
OrderedJson json_numbers(const TensorView& values, Dtype dtype = Dtype::f64);

// One line; bytes that are not UTF-8 become U+FFFD.
std::string json_text(const OrderedJson& value);

}  // namespace qkv::inline explaining
