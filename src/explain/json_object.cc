// Begins JSON objects and writes their numbers.
#include "explain/json_object.h"

#include <charconv>
#include <cmath>

#include "qkv/version.h"

namespace qkv::inline explaining {

OrderedJson json_object(const char* kind, const std::string& target, Dtype dtype, const std::string& title) {
  return {{"schema", "qkv/explain/1"}, {"kind", kind},  {"version", version()}, {"target", target},
          {"dtype", name_of(dtype)},   {"title", title}};
}

OrderedJson json_number_f32(double value) {
  const auto number = static_cast<float>(value);
  if (!std::isfinite(number)) return io::json_number(value);
  char digits[32];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  double shortest = 0;  // of which a writer of doubles shows the same digits
  std::from_chars(digits, end, shortest);
  return shortest;
}

OrderedJson json_numbers(const TensorView& values, Dtype dtype) {
  if (!values || values.element_count() == 0) return nullptr;
  OrderedJson list = OrderedJson::array();
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    if (values.rank() > 1) {
      list.push_back(json_numbers(values.select(0, i), dtype));
    } else {
      const double value = values.at<double>({i});
      list.push_back(dtype == Dtype::f32 ? json_number_f32(value) : io::json_number(value));
    }
  }
  return list;
}

std::string json_text(const OrderedJson& value) {
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

}  // namespace qkv::inline explaining
