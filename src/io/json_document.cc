// Reads values of a JSON document, and refuses them by field and rule.
#include "io/json_document.h"

#include <fmt/format.h>

#include "core/stop_turns.h"
#include "io/quote.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::io {
namespace {

using Kind = JsonTape::Kind;
using Index = JsonTape::Index;

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"null", "boolean", "number", "number", "number", "string", "array", "object"};
  return kNames[static_cast<std::size_t>(kind)];
}

// The path of a member of what is at `path`.
std::string below(const std::string& path, std::string_view key) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  const bool plain = !key.empty() && key.find_first_not_of(kPlain) == std::string::npos;
  return fmt::format("{}{}{}", path, path.empty() ? "" : ".", plain ? key : quote(key));
}

}  // namespace

const JsonTape& JsonValue::tape() const { return document_->tape_; }

Index JsonValue::member(std::string_view key) const {
  require(tape().kind(at_) == Kind::object, "an object");
  return tape().find(at_, key);
}

JsonValue JsonValue::operator[](std::string_view key) const {
  const Index found = member(key);
  if (found == JsonTape::kRoot) {
    throw FormatError(fmt::format("{}: {} is missing", document_->file_, below(document_->path_of(at_), key)));
  }
  return {*document_, found};
}

std::optional<JsonValue> JsonValue::find(std::string_view key) const {
  const Index found = member(key);
  if (found == JsonTape::kRoot || tape().kind(found) == Kind::null) return std::nullopt;
  return JsonValue(*document_, found);
}

bool JsonValue::is_string() const { return tape().kind(at_) == Kind::string; }

bool JsonValue::is_number() const {
  const Kind kind = tape().kind(at_);
  return kind == Kind::negative || kind == Kind::natural || kind == Kind::real;
}

bool JsonValue::is_list() const { return tape().kind(at_) == Kind::array; }

bool JsonValue::is(std::string_view json) const {
  return JsonTape::equal(tape(), at_, JsonTape(json, "json"), JsonTape::kRoot);
}

void JsonValue::for_each_member(const std::function<void(const std::string&, const JsonValue&)>& f) const {
  require(tape().kind(at_) == Kind::object, "an object");
  auto key = tape().keys(at_);
  StopTurns turns;
  for (std::size_t i = 0; i < tape().size(at_); ++i, ++key) {
    turns.next();
    f(std::string(tape().string(*key)), JsonValue(*document_, *key + 1));
  }
}

bool JsonValue::boolean() const {
  require(tape().kind(at_) == Kind::boolean, "true or false");
  return tape().boolean(at_);
}

std::string JsonValue::string() const {
  require(is_string(), "a string");
  return std::string(tape().string(at_));
}

std::int64_t JsonValue::integer(std::int64_t min, std::int64_t max) const {
  const Kind kind = tape().kind(at_);
  require(kind == Kind::negative || kind == Kind::natural, "an integer");
  const std::uint64_t bits = tape().natural(at_);
  const auto value = static_cast<std::int64_t>(bits);
  const bool above_int64 = kind == Kind::natural && bits > INT64_MAX;
  if (above_int64 || value < min || value > max) {
    refuse(
        fmt::format("is {}, must be {} to {}", above_int64 ? fmt::to_string(bits) : fmt::to_string(value), min, max));
  }
  return value;
}

double JsonValue::number() const {
  require(is_number(), "a number");
  return tape().number(at_);
}

std::vector<JsonValue> JsonValue::elements() const {
  require(is_list(), "an array");
  std::vector<JsonValue> values;
  values.reserve(tape().size(at_));
  const Index end = tape().next(at_);
  for (Index at = at_ + 1; at < end; at = tape().next(at)) values.emplace_back(*document_, at);
  return values;
}

void JsonValue::refuse(std::string_view rule) const {
  const std::string path = document_->path_of(at_);
  throw FormatError(fmt::format("{}: {} {}", document_->file_, path.empty() ? "the document" : path, rule));
}

void JsonValue::require(bool fits, std::string_view kind) const {
  if (!fits) refuse(fmt::format("must be {}, is {}", kind, name_of(tape().kind(at_))));
}

JsonDocument JsonDocument::of_config(const std::string& path) {
  constexpr std::size_t kMostBytes = 1 << 20;
  return JsonDocument(read_file(path, kMostBytes), path);
}

// From the document down, into what holds the value.
std::string JsonDocument::path_of(Index value) const {
  std::string path;
  for (Index at = JsonTape::kRoot; at < value;) {
    const bool object = tape_.kind(at++) == Kind::object;
    for (std::size_t i = 0;; ++i, at = tape_.next(at)) {
      const Index key = at;
      if (object) ++at;
      if (value >= tape_.next(at)) continue;
      path = object ? below(path, tape_.string(key)) : fmt::format("{}[{}]", path, i);
      break;
    }
  }
  return path;
}

}  // namespace qkv::io
