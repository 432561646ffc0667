// Writes a JSON text's values one behind the other as its events come, reads them, and refuses them by field and rule.
#include "io/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/stop.h"
#include "io/files/text.h"
#include "io/json/json_events.h"
#include "io/json/serde_number.h"
#include "qkv/error.h"
#include "qkv/files.h"

namespace qkv::io {

class JsonTape::Builder : public JsonEvents {
 public:
  Builder(const std::string& file, JsonNumbers numbers, JsonTape& tape)
      : JsonEvents(file), numbers_(numbers), tape_(tape) {}

  bool null() override { return add(Kind::null); }
  bool boolean(bool value) override { return add(Kind::boolean, value ? 1 : 0); }
  bool number_integer(std::int64_t value) override { return add(Kind::negative, static_cast<std::uint64_t>(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(Kind::natural, value); }
  bool number_float(double value, const std::string& text) override {
    if (numbers_ == JsonNumbers::serde) value = serde_number(text);
    if (!std::isfinite(value)) refuse(fmt::format("number out of range: {}", text));
    return add(Kind::real, std::bit_cast<std::uint64_t>(value));
  }
  bool string(std::string& value) override {
    add(Kind::string);
    return keep(value);
  }
  bool key(std::string& name) override {
    push(Kind::string, 0);
    return keep(name);
  }
  bool start_object(std::size_t) override { return open(Kind::object); }
  bool start_array(std::size_t) override { return open(Kind::array); }
  bool end_object() override {
    sort_keys();
    return end_array();
  }
  bool end_array() override {
    tape_.values_[open_.back()].bits |= tape_.values_.size();
    open_.pop_back();
    return true;
  }

 private:
  bool add(Kind kind, std::uint64_t bits = 0) {
    if (!open_.empty()) ++tape_.values_[open_.back()].size;
    push(kind, bits);
    return true;
  }
  void push(Kind kind, std::uint64_t bits) {
    if (tape_.values_.size() == kMostValues) refuse(fmt::format("more than {} values", kMostValues));
    tape_.values_.push_back({kind, 0, bits});
  }
  bool open(Kind kind) {
    if (open_.size() == kMostDepth) refuse(fmt::format("nested deeper than {}", kMostDepth));
    add(kind);
    open_.push_back(static_cast<Index>(tape_.values_.size() - 1));
    return true;
  }
  // Keeps the last value's text. Strings share a piece of memory, except long ones, which would waste much of it.
  bool keep(std::string_view text) {
    constexpr std::size_t kPiece = 1 << 16, kLong = 1 << 12;
    const bool is_long = text.size() > kLong;
    if (is_long || shared_ == nullptr || left_ < text.size()) {
      tape_.characters_.emplace_back().reserve(is_long ? text.size() : kPiece);
      if (!is_long) shared_ = &tape_.characters_.back(), left_ = shared_->capacity();
    }
    std::string& piece = is_long ? tape_.characters_.back() : *shared_;
    if (!is_long) left_ -= text.size();
    tape_.values_.back().size = static_cast<std::uint32_t>(text.size());
    tape_.values_.back().bits = reinterpret_cast<std::uintptr_t>(piece.data() + piece.size());
    piece += text;
    return true;
  }
  // The sort key: the first five bytes of the text, which decide unless they are equal, above its place.
  static constexpr int kPlaceBits = 24;
  static_assert(kMostValues < std::size_t{1} << kPlaceBits);
  std::uint64_t sort_key(Index at) const {
    const std::string_view text = tape_.string(at);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      bytes = bytes << 8 | (i < text.size() ? static_cast<unsigned char>(text[i]) : 0u);
    }
    return bytes << kPlaceBits | at;
  }
  static Index place(std::uint64_t key) { return static_cast<Index>(key & ((1u << kPlaceBits) - 1)); }
  // Sorts the keys of the innermost object, which ends here.
  void sort_keys() {
    const Index object = open_.back();
    std::vector<std::uint64_t> sorted;
    sorted.reserve(tape_.values_[object].size);
    for (Index at = object + 1; at < tape_.values_.size(); at = tape_.next(at + 1)) sorted.push_back(sort_key(at));
    StopTurns turns;
    std::ranges::sort(sorted, [&](std::uint64_t a, std::uint64_t b) {
      turns.next();
      return (a ^ b) >> kPlaceBits != 0 ? a < b : tape_.string(place(a)) < tape_.string(place(b));
    });
    const auto same =
        std::ranges::adjacent_find(sorted, {}, [&](std::uint64_t key) { return tape_.string(place(key)); });
    if (same != sorted.end()) refuse(fmt::format("key {} appears twice", quote(tape_.string(place(*same)))));
    tape_.values_[object].bits = std::uint64_t{tape_.keys_.size()} << kEndBits;
    for (const std::uint64_t key : sorted) tape_.keys_.push_back(place(key));
  }
  std::string why_not(std::string_view kind) const override { return fmt::format("{} is not allowed", kind); }

  JsonNumbers numbers_;
  JsonTape& tape_;
  std::vector<Index> open_;
  std::string* shared_ = nullptr;
  std::size_t left_ = 0;  // bytes of it
};

JsonTape::JsonTape(std::string_view text, const std::string& file, JsonNumbers numbers) {
  Builder(file, numbers, *this).parse(text);
}

JsonTape::Index JsonTape::next(Index at) const {
  const bool holds = values_[at].kind == Kind::array || values_[at].kind == Kind::object;
  return holds ? static_cast<Index>(values_[at].bits) : at + 1;
}

double JsonTape::number(Index at) const {
  switch (kind(at)) {
    case Kind::negative:
      return static_cast<double>(negative(at));
    case Kind::natural:
      return static_cast<double>(natural(at));
    default:
      return std::bit_cast<double>(values_[at].bits);
  }
}

std::vector<JsonTape::Index>::const_iterator JsonTape::keys(Index at) const {
  return keys_.begin() + static_cast<std::ptrdiff_t>(values_[at].bits >> kEndBits);
}

JsonTape::Index JsonTape::find(Index object, std::string_view key) const {
  const auto begin = keys(object), end = begin + static_cast<std::ptrdiff_t>(size(object));
  const auto found = std::ranges::lower_bound(begin, end, key, {}, [this](Index at) { return string(at); });
  return found != end && string(*found) == key ? *found + 1 : kRoot;
}

bool JsonTape::equal(const JsonTape& a, Index of_a, const JsonTape& b, Index of_b) {
  const Kind kind = a.kind(of_a);
  const auto is_number = [](Kind k) { return k == Kind::negative || k == Kind::natural || k == Kind::real; };
  if (is_number(kind) && is_number(b.kind(of_b))) return a.number(of_a) == b.number(of_b);
  if (kind != b.kind(of_b)) return false;
  if (kind == Kind::null) return true;
  if (kind == Kind::boolean) return a.boolean(of_a) == b.boolean(of_b);
  if (kind == Kind::string) return a.string(of_a) == b.string(of_b);
  if (a.size(of_a) != b.size(of_b)) return false;
  if (kind == Kind::object) {
    return std::equal(a.keys(of_a), a.keys(of_a) + static_cast<std::ptrdiff_t>(a.size(of_a)), b.keys(of_b),
                      [&](Index x, Index y) { return a.string(x) == b.string(y) && equal(a, x + 1, b, y + 1); });
  }
  ++of_a, ++of_b;
  for (const Index end = a.next(of_a - 1); of_a < end; of_a = a.next(of_a), of_b = b.next(of_b)) {
    if (!equal(a, of_a, b, of_b)) return false;
  }
  return true;
}

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

std::string JsonValue::canonical() const {
  std::string text;
  switch (tape().kind(at_)) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return tape().boolean(at_) ? "true" : "false";
    case Kind::string:
      return fmt::format("{}:{}", tape().size(at_), tape().string(at_));
    case Kind::array:
      for_each_element([&](const JsonValue& element) { text += element.canonical() + ","; });
      return "[" + text + "]";
    case Kind::object:
      for_each_member([&](const std::string& key, const JsonValue& value) {
        if (tape().kind(value.at_) == Kind::null) return;
        text += fmt::format("{}:{} {},", key.size(), key, value.canonical());
      });
      return "{" + text + "}";
    default:
      return fmt::format("{}", tape().number(at_));
  }
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
  if (kind == Kind::real) {
    const double real = tape().number(at_);
    const char* const how = real == std::floor(real) ? " written without a point or an exponent" : "";
    refuse(fmt::format("must be an integer{}, is {:.9g}", how, real));
  }
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

std::size_t JsonValue::size() const { return is_list() || tape().kind(at_) == Kind::object ? tape().size(at_) : 0; }

void JsonValue::for_each_element(const std::function<void(const JsonValue&)>& f) const {
  require(is_list(), "an array");
  StopTurns turns;
  const Index end = tape().next(at_);
  for (Index at = at_ + 1; at < end; at = tape().next(at)) {
    turns.next();
    f(JsonValue(*document_, at));
  }
}

std::vector<JsonValue> JsonValue::elements() const {
  std::vector<JsonValue> values;
  values.reserve(size());
  for_each_element([&](const JsonValue& value) { values.push_back(value); });
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

// Goes down from the document into what holds the value.
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
