// Tensors as nested JSON arrays, and JSON as text that is always valid.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "io/json_number.h"
#include "qkv/tensor.h"

namespace qkv::inline explaining {

using OrderedJson = nlohmann::ordered_json;

// Nested arrays of an f64 tensor.
inline OrderedJson json_numbers(const TensorView& values) {
  OrderedJson list = OrderedJson::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (values.rank() == 1) {
      list.push_back(io::json_number(values.at<double>({i})));
    } else {
      list.push_back(json_numbers(values.select(0, i)));
    }
  }
  return list;
}

// One line; bytes that are not UTF-8 become U+FFFD.
inline std::string json_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace qkv::inline explaining
