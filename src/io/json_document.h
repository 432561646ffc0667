// A small JSON file as a tree, for configurations and vocabularies from strangers: strictly parsed with bounds on depth
// and on the number of values, without repeated keys. Every access names the field and the rule when it refuses.
//
//   JsonDocument document(text, path);
//   std::int64_t heads = document.root()["num_attention_heads"].integer(1, 1024);
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace qkv::io {

struct JsonMember;

// What stands in the file. Members lie in one piece, by key: a vocabulary has tens of thousands.
struct JsonNode {
  using Elements = std::vector<JsonNode>;
  using Members = std::vector<JsonMember>;
  // In the order of the kinds' names in json_document.cc.
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Elements, Members> value;
};

struct JsonMember {
  std::string key;
  JsonNode node;
};

// One value of a document, which must outlive it. Every function throws FormatError where the value is of another kind.
class JsonValue {
 public:
  JsonValue(const JsonNode& node, const std::string& file) : node_(&node), file_(&file) {}

  JsonValue operator[](const std::string& key) const;  // a member that must be there
  // A member that may be missing or null.
  std::optional<JsonValue> find(const std::string& key) const;

  bool is_string() const { return std::holds_alternative<std::string>(node_->value); }
  bool boolean() const;
  const std::string& string() const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  double number() const;  // finite; an integer is one too
  std::vector<JsonValue> elements() const;

  // Calls f(key, value) for each member in the order of keys.
  template <class F>
  void for_each_member(const F& f) const {
    const std::string here = path();
    for (const auto& [key, node] : members()) f(key, JsonValue(node, *file_, here, key));
  }

  // Throws FormatError "FILE: FIELD RULE".
  [[noreturn]] void refuse(std::string_view rule) const;

 private:
  // A member or an element: its own part of the path is put into words when it is needed.
  JsonValue(const JsonNode& node, const std::string& file, const std::string& parent, std::string_view key)
      : node_(&node), file_(&file), parent_(parent), step_(key) {}
  JsonValue(const JsonNode& node, const std::string& file, const std::string& parent, std::size_t index)
      : node_(&node), file_(&file), parent_(parent), step_(index) {}

  const JsonNode::Members& members() const;
  [[noreturn]] void refuse_kind(std::string_view wanted) const;
  std::string path() const;  // "model.vocab[3]", empty for the document

  const JsonNode* node_;
  const std::string* file_;
  std::string parent_;
  std::variant<std::monostate, std::string_view, std::size_t> step_;
};

class JsonDocument {
 public:
  // FormatError if the text is not JSON, nested deeper than 32, or has more than 300,000 values. `file` begins
  // messages.
  JsonDocument(std::string_view text, const std::string& file);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const { return {root_, file_}; }

 private:
  JsonNode root_;
  std::string file_;
};

}  // namespace qkv::io
