// Checks JSON by a JSON Schema, as far as docs/explain.schema.json uses it.
#pragma once

#include "io/files_for_test.h"

namespace qkv::test {

class JsonSchema {
 public:
  // Of one kind, so that the reason is named.
  explicit JsonSchema(const std::string& kind) : root_(Json::parse(slurp(QKV_SOURCE_DIR "/docs/explain.schema.json"))) {
    const auto is_kind = [&](const Json& one) { return one.at("$ref") == "#/$defs/" + kind; };
    if (std::ranges::count_if(root_.at("oneOf"), is_kind) != 1) throw std::invalid_argument(kind + " is no kind");
    root_.erase("oneOf");
    root_["$ref"] = "#/$defs/" + kind;
  }

  // What is wrong, with its place; empty: nothing.
  std::string check(const nlohmann::json& value) const { return check(root_, value, "$"); }

 private:
  using Json = nlohmann::json;

  static bool is_of(const std::string& type, const Json& value) {
    if (type == "integer") return value.is_number_integer();
    return type == "number" ? value.is_number() : type == value.type_name();
  }

  std::string check(const Json& schema, const Json& value, const std::string& at) const {
    if (schema.contains("type") && !is_of(schema["type"], value)) return at + " is no " + schema["type"].dump();
    for (const auto& [key, rule] : schema.items()) {
      std::string wrong;
      const auto unless = [&](bool fits, const std::string& reason) {
        if (wrong.empty() && !fits) wrong = at + reason;
      };
      const auto inside = [&](const Json& part, const Json& one, const std::string& place) {
        if (wrong.empty()) wrong = check(part, one, at + place);
      };
      if (key == "$ref") {
        inside(root_.at("$defs").at(rule.get<std::string>().substr(8)), value, "");
      } else if (key == "const") {
        unless(value == rule, " is not " + rule.dump());
      } else if (key == "enum") {
        unless(std::ranges::count(rule, value) > 0, " is " + value.dump().substr(0, 60));
      } else if (key == "minimum" || key == "maximum") {
        unless(key == "minimum" ? value >= rule : value <= rule, " is out of its bounds");
      } else if (key == "minItems" || key == "maxItems") {
        unless(key == "minItems" ? value.size() >= rule : value.size() <= rule, " has too few or too many items");
      } else if (key == "items") {
        for (std::size_t i = 0; i < value.size(); ++i) inside(rule, value[i], "[" + std::to_string(i) + "]");
      } else if (key == "required") {
        for (const std::string name : rule) unless(value.contains(name), " lacks " + name);
      } else if (key == "properties") {
        for (const auto& [name, member] : value.items()) inside(rule.value(name, Json::object()), member, "." + name);
      } else if (key == "additionalProperties") {
        for (const auto& [name, _] : value.items())
          unless(schema["properties"].contains(name), " has an unknown " + name);
      } else if (key == "anyOf") {
        std::string last = " ";
        for (const Json& one : rule) last = last.empty() ? last : check(one, value, at);
        if (!last.empty()) wrong = last;
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
