#include "io/json_document.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/json_events.h"
#include "io/quote.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxValues = 300'000;  // about 200 bytes each with what is built from them: bounds a refused file

using Elements = JsonNode::Elements;
using Members = JsonNode::Members;

constexpr const char* kKinds[] = {"null", "boolean", "number", "number", "number", "string", "array", "object"};

bool is_before(const JsonMember& member, const std::string& key) { return member.key < key; }

class TreeBuilder : public JsonEvents {
 public:
  TreeBuilder(const std::string& file, JsonNode& root) : JsonEvents(file), root_(&root) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Members()); }
  bool start_array(std::size_t) override { return open(Elements()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    std::get<Members>(open_.back()->value).emplace_back().key = std::move(name);
    return true;
  }

  bool end_object() override {
    auto& members = std::get<Members>(open_.back()->value);
    std::ranges::sort(members, {}, &JsonMember::key);
    const auto twice = std::ranges::adjacent_find(members, {}, &JsonMember::key);
    if (twice != members.end()) refuse(fmt::format("key {} is there twice", quote(twice->key)));
    return close();
  }

 private:
  template <class Value>
  JsonNode& place(Value&& value) {
    if (++values_ > kMaxValues) refuse(fmt::format("more than {} values", kMaxValues));
    JsonNode& node = next();
    node.value = std::forward<Value>(value);
    return node;
  }
  // Where the next value belongs: a member has its place since its key.
  JsonNode& next() {
    if (open_.empty()) return *root_;
    if (auto* members = std::get_if<Members>(&open_.back()->value)) return members->back().node;
    return std::get<Elements>(open_.back()->value).emplace_back();
  }
  template <class Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  template <class Value>
  bool open(Value&& value) {
    if (open_.size() == kMaxDepth) refuse(fmt::format("nested deeper than {}", kMaxDepth));
    open_.push_back(&place(std::forward<Value>(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }
  std::string why_not(std::string_view kind) const override { return fmt::format("{} is not allowed", kind); }

  JsonNode* root_;
  std::vector<JsonNode*> open_;  // stay where they are: a container grows only while nothing in it is open
  std::size_t values_ = 0;
};

// "a.b", `key` in quotes where it is not plain.
std::string join(const std::string& parent, std::string_view key) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  const bool plain = !key.empty() && key.find_first_not_of(kPlain) == std::string_view::npos;
  return fmt::format("{}{}{}", parent, parent.empty() ? "" : ".", plain ? std::string(key) : quote(key));
}

}  // namespace

JsonValue JsonValue::operator[](const std::string& key) const {
  const auto member = std::lower_bound(members().begin(), members().end(), key, is_before);
  if (member == members().end() || member->key != key) {
    throw FormatError(fmt::format("{}: {} is missing", *file_, join(path(), key)));
  }
  return {member->node, *file_, path(), std::string_view(member->key)};
}

std::optional<JsonValue> JsonValue::find(const std::string& key) const {
  const auto member = std::lower_bound(members().begin(), members().end(), key, is_before);
  if (member == members().end() || member->key != key) return std::nullopt;
  if (std::holds_alternative<std::nullptr_t>(member->node.value)) return std::nullopt;
  return JsonValue(member->node, *file_, path(), std::string_view(member->key));
}

bool JsonValue::boolean() const {
  if (const bool* value = std::get_if<bool>(&node_->value)) return *value;
  refuse_kind("true or false");
}

const std::string& JsonValue::string() const {
  if (const std::string* value = std::get_if<std::string>(&node_->value)) return *value;
  refuse_kind("a string");
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  const auto* small = std::get_if<std::int64_t>(&node_->value);
  const auto* large = std::get_if<std::uint64_t>(&node_->value);
  if (small == nullptr && large == nullptr) refuse_kind("an integer");
  if (large != nullptr && *large > INT64_MAX) refuse(fmt::format("is {}, must be {} to {}", *large, min, max));
  const std::int64_t value = small != nullptr ? *small : static_cast<std::int64_t>(*large);
  if (value < min || value > max) refuse(fmt::format("is {}, must be {} to {}", value, min, max));
  return value;
}

double JsonValue::number() const {
  if (const auto* value = std::get_if<double>(&node_->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&node_->value)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&node_->value)) return static_cast<double>(*value);
  refuse_kind("a number");
}

std::vector<JsonValue> JsonValue::elements() const {
  const Elements* nodes = std::get_if<Elements>(&node_->value);
  if (nodes == nullptr) refuse_kind("an array");
  const std::string here = path();
  std::vector<JsonValue> values;
  values.reserve(nodes->size());
  for (std::size_t i = 0; i < nodes->size(); ++i) values.push_back(JsonValue((*nodes)[i], *file_, here, i));
  return values;
}

const JsonNode::Members& JsonValue::members() const {
  if (const auto* members = std::get_if<JsonNode::Members>(&node_->value)) return *members;
  refuse_kind("an object");
}

std::string JsonValue::path() const {
  if (const auto* key = std::get_if<std::string_view>(&step_)) return join(parent_, *key);
  if (const auto* index = std::get_if<std::size_t>(&step_)) return fmt::format("{}[{}]", parent_, *index);
  return "";
}

void JsonValue::refuse(std::string_view rule) const {
  const std::string here = path();
  throw FormatError(fmt::format("{}: {} {}", *file_, here.empty() ? "the document" : here, rule));
}

void JsonValue::refuse_kind(std::string_view wanted) const {
  refuse(fmt::format("must be {}, is {}", wanted, kKinds[node_->value.index()]));
}

JsonDocument::JsonDocument(std::string_view text, const std::string& file) : file_(file) {
  TreeBuilder(file, root_).parse(text);
}

}  // namespace qkv::io
