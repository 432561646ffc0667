// Common parts of the readers of tokenizer.json.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "io/files/text.h"
#include "io/json/json_document.h"
#include "text/stages/unicode.h"

namespace qkv::text {

using io::JsonValue;

[[noreturn]] inline void refuse_type(const JsonValue& stage, std::string_view known) {
  stage["type"].refuse(fmt::format("is {}; supported: {}", io::quote(stage["type"].string()), known));
}

// Calls `build`, whose std::invalid_argument is a rule that `value` breaks.
template <class Build>
auto build_from(const JsonValue& value, const Build& build) {
  try {
    return build();
  } catch (const std::invalid_argument& broken) {
    value.refuse(fmt::format("breaks a rule: {}", broken.what()));
  }
}

inline std::string optional_string(const JsonValue& stage, const char* key) {
  const auto value = stage.find(key);
  return value ? value->string() : "";
}

inline bool optional_boolean(const JsonValue& stage, const char* key, bool otherwise) {
  const auto value = stage.find(key);
  return value ? value->boolean() : otherwise;
}

// Tokens and ids with their bounds.
struct TokenLimits {
  static constexpr std::size_t kLongestToken = 1024;  // characters: bounds the work at each position of a text

  std::int64_t vocab;  // ids are below

  // `next`: what would follow `count` tokens.
  void check_count(std::size_t count, const JsonValue& next) const {
    if (static_cast<std::int64_t>(count) == vocab) {
      next.refuse(fmt::format("is one too many: the model has {} tokens", vocab));
    }
  }
  std::int32_t id(const JsonValue& value) const { return static_cast<std::int32_t>(value.integer(0, vocab - 1)); }
  std::string text(const JsonValue& value, std::string token) const {
    if (token.size() > kLongestToken && to_code_points(token).size() > kLongestToken) {
      value.refuse(fmt::format("is longer than {} characters", kLongestToken));
    }
    return token;
  }
};

}  // namespace qkv::text
