// A JSON file's values by field and rule, for configurations and vocabularies from strangers: strictly parsed with
// bounds on depth and on the number of values, without repeated keys. Every access names the field and the rule when it
// refuses.
//
//   JsonDocument document(text, path);
//   std::int64_t heads = document.root()["num_attention_heads"].integer(1, 1024);
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json_tape.h"

namespace qkv::io {

class JsonDocument;

// One value of a document, which must outlive it. Every function throws FormatError where the value is of another kind.
class JsonValue {
 public:
  JsonValue(const JsonDocument& document, JsonTape::Index at) : document_(&document), at_(at) {}

  JsonValue operator[](std::string_view key) const;  // a member that must be there
  // A member that may be missing or null.
  std::optional<JsonValue> find(std::string_view key) const;

  bool is_string() const;
  bool is_number() const;
  bool is_list() const;
  bool is(std::string_view json) const;
  bool boolean() const;
  std::string string() const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  double number() const;  // finite; an integer is one too
  std::vector<JsonValue> elements() const;

  // Calls f(key, value) for each member in the order of keys.
  void for_each_member(const std::function<void(const std::string&, const JsonValue&)>& f) const;

  // Throws FormatError "FILE: FIELD RULE".
  [[noreturn]] void refuse(std::string_view rule) const;

 private:
  void require(bool fits, std::string_view kind) const;
  // The place of a member; JsonTape::kRoot if there is none.
  JsonTape::Index member(std::string_view key) const;
  const JsonTape& tape() const;

  const JsonDocument* document_;
  JsonTape::Index at_;
};

class JsonDocument {
 public:
  // FormatError if the text is not JSON, nested deeper than 32, or has more than 1,000,000 values. `file` begins
  // messages.
  JsonDocument(std::string_view text, const std::string& file) : tape_(text, file), file_(file) {}
  // The configuration in this file, which has 1 MiB at most; else FormatError. IoError if it cannot be read.
  static JsonDocument of_config(const std::string& path);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return {*this, JsonTape::kRoot}; }

 private:
  friend class JsonValue;

  // Where a value is: "model.vocab[3]".
  std::string path_of(JsonTape::Index at) const;

  JsonTape tape_;
  std::string file_;
};

}  // namespace qkv::io
