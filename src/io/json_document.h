// A small JSON file as a tree, for configurations and vocabularies from strangers: strictly parsed with bounds on depth
// and on the number of values, without repeated keys. Every access names the field and the rule when it refuses.
//
//   JsonDocument document(text, path);
//   std::int64_t heads = document.root()["num_attention_heads"].integer(1, 1024);
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

// One value of a document, which must outlive it. Every function throws FormatError where the value is of another kind.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& json, const std::string& file, std::string path)
      : json_(&json), file_(&file), path_(std::move(path)) {}

  JsonValue operator[](const std::string& key) const;  // a member that must be there
  // A member that may be missing or null.
  std::optional<JsonValue> find(const std::string& key) const;

  bool is_string() const;
  bool is_number() const;
  bool is_list() const;
  bool is(std::string_view json) const;
  bool boolean() const;
  const std::string& string() const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  double number() const;  // finite; an integer is one too
  std::vector<JsonValue> elements() const;

  // Calls f(key, value) for each member in the order of keys.
  void for_each_member(const std::function<void(const std::string&, const JsonValue&)>& f) const;

  // Throws FormatError "FILE: FIELD RULE".
  [[noreturn]] void refuse(std::string_view rule) const;

 private:
  void require(bool fits, std::string_view kind) const;
  std::string below(const std::string& key) const;

  const nlohmann::json* json_;
  const std::string* file_;
  std::string path_;
};

class JsonDocument {
 public:
  // FormatError if the text is not JSON, nested deeper than 32, or has more than 300,000 values. `file` begins
  // messages.
  JsonDocument(std::string_view text, const std::string& file);
  // The configuration in this file, which has 1 MiB at most; else FormatError. IoError if it cannot be read.
  static JsonDocument of_config(const std::string& path);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return {*json_, file_, ""}; }

 private:
  std::unique_ptr<nlohmann::json> json_;
  std::string file_;
};

}  // namespace qkv::io
