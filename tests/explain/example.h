// What the tests of explanations share: golden texts and numbers, parts of a walk-through, small models and inputs.
#pragma once

#include <regex>

#include "io/files_for_test.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/translated_text.h"
#include "qkv/files.h"

namespace qkv::test {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kRounding = 1e-6;  // of f32 in a row of weights

inline std::string golden_file(const std::string& name) { return QKV_TEST_DATA "/golden/explain/" + name; }

// The same text on any machine: what rounding alone makes, targets, the line break after one and escape codes are
// written in another way.
inline void expect_golden(const std::string& name, std::string text) {
  text =
      std::regex_replace(text, std::regex("(difference|by|outputs|loops:)\\s+(0(?!\\.?\\d)|[0-9.]+e-1[3-9])"), "$1 ~0");
  text = std::regex_replace(text, std::regex("target [a-z0-9-]+"), "target *");
  text = std::regex_replace(text, std::regex("but for\\s+those\\s+put in"), "but for those put in");
  std::ranges::replace(text, '\x1b', '^');
  const std::string path = golden_file(name);
  if (std::getenv("QKV_WRITE_GOLDEN") != nullptr) write_file(path, text);
  const std::string expected = slurp(path);
  const auto [at, _] = std::ranges::mismatch(text, expected);
  const auto line = std::count(text.begin(), at, '\n') + 1;
  EXPECT_EQ(text, expected) << path << " is another from line " << line << " on";
}

// Nested lists of numbers, as JSON of explanations has them.
inline Tensor tensor_of(const Json& json) {
  Dims shape;
  std::vector<Json> numbers{json};
  while (numbers.at(0).is_array()) {
    shape.push_back(std::ssize(numbers[0]));
    std::vector<Json> parts;
    for (const Json& list : numbers) parts.insert(parts.end(), list.begin(), list.end());
    numbers = std::move(parts);
  }
  std::vector<double> values;
  for (const Json& one : numbers) {
    values.push_back(one.is_string() ? std::strtod(one.get<std::string>().c_str(), nullptr) : one.get<double>());
  }
  return Tensor::of<double>(shape, values);
}

// NaN where it is expected; else within `tolerance`, of large numbers as a share.
inline void expect_near(const TensorView& actual, const TensorView& expected, double tolerance,
                        const std::string& name = "") {
  ASSERT_EQ(actual.shape(), expected.shape()) << name;
  const std::vector<double> found = values_of(actual), wanted = values_of(expected);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]))) continue;
    EXPECT_NEAR(found[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i]))) << name << ", element " << i;
  }
}

inline Tensor matrix(std::int64_t rows, std::int64_t columns, const std::vector<double>& values) {
  return Tensor::of<double>({rows, columns}, values);
}

inline double at(const TensorView& tensor, std::int64_t i, std::int64_t j) { return tensor.at<double>({i, j}); }

// [rows, columns], element by element.
template <class Element>
Tensor filled(std::int64_t rows, std::int64_t columns, const Element& element) {
  Tensor tensor = Tensor::zeros({rows, columns}, Dtype::f64);
  for (std::int64_t i = 0; i < rows * columns; ++i) tensor.data<double>()[i] = element(i / columns, i % columns);
  return tensor;
}

inline double sum_of_row(const TensorView& tensor, std::int64_t row) {
  double sum = 0;
  for (std::int64_t j = 0; j < tensor.size(1); ++j) sum += at(tensor, row, j);
  return sum;
}

// All tensors of the steps, in order.
inline std::vector<Quantity> quantities(const Explanation& explanation) {
  std::vector<Quantity> all;
  for (const Section& section : explanation.sections) {
    for (const Block& block : section.blocks) {
      all.insert(all.end(), block.quantities.begin(), block.quantities.end());
    }
  }
  return all;
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

template <class Call>
std::string refusal(const Call& call) {
  return message_of<std::invalid_argument>(call);
}

// golden/bert/tiny has 2 layers of 3 heads of 4 numbers, and 16 positions.
inline const TextEncoder& tiny() {
  static const TextEncoder model = TextEncoder::load(QKV_TEST_DATA "/golden/bert/tiny");
  return model;
}

inline const Translator& shipped() {
  static const Translator translator = Translator::load(QKV_SOURCE_DIR "/models/en-es");
  return translator;
}

// One id per token; the first and the last one are special.
inline Encoding encoding_of(const Strings& tokens) {
  Encoding text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text.ids.push_back(static_cast<std::int32_t>(3 + 2 * i));
    text.tokens.push_back(tokens[i]);
    text.type_ids.push_back(0);
    text.special.push_back(i == 0 || i + 1 == tokens.size() ? 1 : 0);
  }
  return text;
}

}  // namespace qkv::test
