// Checks JSON by a JSON Schema, as far as docs/explain.schema.json uses it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "io/files_for_test.h"

namespace qkv::test {

class JsonSchema {
 public:
  // Of one kind, so that the reason is named.
  explicit JsonSchema(const std::string& kind) : root_(Json::parse(slurp(QKV_SOURCE_DIR "/docs/explain.schema.json"))) {
    bool is_listed = false;
    for (const Json& one : root_.at("oneOf")) is_listed = is_listed || one.at("$ref") == "#/$defs/" + kind;
    if (!is_listed) throw std::invalid_argument("json schema: " + kind + " is no kind");
    root_.erase("oneOf");
    root_["$ref"] = "#/$defs/" + kind;
  }

  // What is wrong, with its place; empty: nothing.
  std::string check(const nlohmann::json& value) const { return check(root_, value, "$"); }

 private:
  using Json = nlohmann::json;

  static bool is_of(const std::string& type, const Json& value) {
    return type == "integer"  ? value.is_number_integer()
           : type == "number" ? value.is_number()
                              : type == value.type_name();
  }

  std::string check(const Json& schema, const Json& value, const std::string& at) const {
    if (schema.contains("type") && !is_of(schema.at("type"), value)) {
      return at + " is no " + schema.at("type").get<std::string>();
    }
    for (const auto& [key, rule] : schema.items()) {
      std::string wrong;
      if (key == "$ref") {
        wrong = check(root_.at("$defs").at(rule.get<std::string>().substr(8)), value, at);
      } else if (key == "const") {
        if (value != rule) wrong = at + " is not " + rule.dump();
      } else if (key == "enum") {
        if (std::find(rule.begin(), rule.end(), value) == rule.end()) wrong = at + " is " + value.dump().substr(0, 60);
      } else if (key == "minimum" || key == "maximum") {
        const bool below = value.get<double>()<rule.get<double>(), above = value.get<double>()> rule.get<double>();
        if (key == "minimum" ? below : above) wrong = at + " is out of its bounds";
      } else if (key == "minItems" || key == "maxItems") {
        const bool few = value.size()<rule.get<std::size_t>(), many = value.size()> rule.get<std::size_t>();
        if (key == "minItems" ? few : many) wrong = at + " has " + std::to_string(value.size()) + " items";
      } else if (key == "items") {
        for (std::size_t i = 0; i < value.size() && wrong.empty(); ++i) {
          wrong = check(rule, value[i], at + "[" + std::to_string(i) + "]");
        }
      } else if (key == "required") {
        for (const Json& name : rule) {
          if (!value.contains(name.get<std::string>())) wrong = at + " lacks " + name.get<std::string>();
        }
      } else if (key == "properties") {
        for (const auto& [name, member] : value.items()) {
          if (wrong.empty() && rule.contains(name)) wrong = check(rule.at(name), member, at + "." + name);
        }
      } else if (key == "additionalProperties") {
        for (const auto& [name, member] : value.items()) {
          if (!schema.at("properties").contains(name)) wrong = at + " has an unknown " + name;
        }
      } else if (key == "anyOf" || key == "oneOf") {
        std::string last;
        std::size_t fit = 0;
        for (const Json& one : rule) {
          const std::string own = check(one, value, at);
          fit += own.empty() ? 1 : 0;
          if (own.find(".kind") == std::string::npos && !own.empty()) last = own;
        }
        if (fit == 0 || (key == "oneOf" && fit > 1)) wrong = last.empty() ? at + " fits nothing" : last;
      } else if (key != "type" && key != "$schema" && key != "title" && key != "$defs") {
        throw std::invalid_argument("json schema: " + key + " is not known here");
      }
      if (!wrong.empty()) return wrong;
    }
    return {};
  }

  Json root_;
};

inline void expect_valid(const nlohmann::json& json, const std::string& kind) {
  EXPECT_EQ(json.at("kind"), kind);
  EXPECT_EQ(JsonSchema(kind).check(json), "");
}

}  // namespace qkv::test
