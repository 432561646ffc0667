// A JSON file's values by field and rule, for configurations and vocabularies from strangers: strictly parsed with
// bounds on depth and on the number of values, without repeated keys. Every access names the field and the rule when it
// refuses.
//
//   JsonDocument document(text, path);
//   std::int64_t heads = document.root()["num_attention_heads"].integer(1, 1024);
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

// How a number with a fraction or an exponent is read: as the nearest double, or by serde_number().
enum class JsonNumbers { nearest, serde };

// The values of a JSON text, one after the other, sixteen bytes each, and the characters of all its strings: no node of
// the heap for each, so that a vocabulary of 260,000 tokens is read in tens of megabytes.
class JsonTape {
 public:
  enum class Kind : std::uint8_t { null, boolean, negative, natural, real, string, array, object };
  using Index = std::uint32_t;

  static constexpr std::size_t kMostDepth = 32;
  // Keys count, too. Byte-pair vocabularies have most: the 262,144 tokens and 514,906 merges of Gemma 3 are 2,160,000.
  static constexpr std::size_t kMostValues = 2'500'000;

  // FormatError if the text is not JSON, nested deeper than kMostDepth, has more than kMostValues values or a key twice
  // in an object. `file` begins messages.
  JsonTape(std::string_view text, const std::string& file, JsonNumbers numbers = JsonNumbers::nearest);

  // The first value is the document. A container is followed by what it holds: elements, or keys (strings), each
  // followed by its value.
  static constexpr Index kRoot = 0;
  Kind kind(Index at) const { return values_[at].kind; }
  Index next(Index at) const;  // behind a value and all that it holds
  bool boolean(Index at) const { return values_[at].bits != 0; }
  std::int64_t negative(Index at) const { return static_cast<std::int64_t>(values_[at].bits); }
  std::uint64_t natural(Index at) const { return values_[at].bits; }
  double number(Index at) const;  // of all three kinds
  std::string_view string(Index at) const {
    return {reinterpret_cast<const char*>(static_cast<std::uintptr_t>(values_[at].bits)), values_[at].size};
  }
  // The number of elements or members.
  std::size_t size(Index at) const { return values_[at].size; }
  // The keys of an object, sorted.
  std::vector<Index>::const_iterator keys(Index at) const;
  // The value of a key; kRoot, which is none, if it is not there.
  Index find(Index object, std::string_view key) const;
  // Equality of JSON values, for any places and order of keys.
  static bool equal(const JsonTape& a, Index of_a, const JsonTape& b, Index of_b);

 private:
  class Builder;

  // bits: a number's own; the address of a string's characters; of a container its end, and above that where the keys
  // of an object are in keys_.
  struct Value {
    Kind kind;
    std::uint32_t size;
    std::uint64_t bits;
  };
  static constexpr int kEndBits = 32;

  std::deque<Value> values_;  // a vector that grows would hold them twice
  std::vector<Index> keys_;
  std::deque<std::string> characters_;  // of many strings each; they stay where they are
};

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
  void for_each_element(const std::function<void(const JsonValue&)>& f) const;
  std::size_t size() const;  // of an array or an object; else 0
  // One text for equal values, to compare and not to read: sorted keys, no members that are null, numbers as doubles,
  // strings with their lengths.
  std::string canonical() const;

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
  // FormatError if the text is not JSON, nested deeper than 32, or has more than 2,500,000 values. `file` begins
  // messages.
  JsonDocument(std::string_view text, const std::string& file, JsonNumbers numbers = JsonNumbers::nearest)
      : tape_(text, file, numbers), file_(file) {}
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
