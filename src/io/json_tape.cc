// Writes a JSON text's values one behind the other as its events come.
#include "io/json_tape.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "core/stop_turns.h"
#include "io/json_events.h"
#include "io/quote.h"

namespace qkv::io {

class JsonTape::Builder : public JsonEvents {
 public:
  Builder(const std::string& file, JsonTape& tape) : JsonEvents(file), tape_(tape) {}

  bool null() override { return add(Kind::null); }
  bool boolean(bool value) override { return add(Kind::boolean, value ? 1 : 0); }
  bool number_integer(std::int64_t value) override { return add(Kind::negative, static_cast<std::uint64_t>(value)); }
  bool number_unsigned(std::uint64_t value) override { return add(Kind::natural, value); }
  bool number_float(double value, const std::string&) override {
    return add(Kind::real, std::bit_cast<std::uint64_t>(value));
  }
  bool string(std::string& value) override {
    add(Kind::string);
    return keep(value);
  }
  bool key(std::string& name) override {
    tape_.values_.push_back({Kind::string, 0, 0});
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
    if (++count_ > kMostValues) refuse(fmt::format("more than {} values", kMostValues));
    if (!open_.empty()) ++tape_.values_[open_.back()].size;
    tape_.values_.push_back({kind, 0, bits});
    return true;
  }
  bool open(Kind kind) {
    if (open_.size() == kMostDepth) refuse(fmt::format("nested deeper than {}", kMostDepth));
    add(kind);
    open_.push_back(static_cast<Index>(tape_.values_.size() - 1));
    return true;
  }
  // Of the last value.
  bool keep(std::string_view text) {
    tape_.values_.back().size = static_cast<std::uint32_t>(text.size());
    tape_.values_.back().bits = tape_.characters_.size();
    tape_.characters_ += text;
    return true;
  }
  // Of the innermost object, which ends here.
  void sort_keys() {
    const Index object = open_.back();
    const auto begin = tape_.keys_.size();
    for (Index at = object + 1; at < tape_.values_.size(); at = tape_.next(at + 1)) tape_.keys_.push_back(at);
    const auto first = tape_.keys_.begin() + static_cast<std::ptrdiff_t>(begin);
    StopTurns turns;
    const auto text = [&](Index at) {
      turns.next();
      return tape_.string(at);
    };
    std::ranges::sort(first, tape_.keys_.end(), {}, text);
    const auto same = std::ranges::adjacent_find(first, tape_.keys_.end(), {}, text);
    if (same != tape_.keys_.end()) refuse(fmt::format("key {} appears twice", quote(text(*same))));
    tape_.values_[object].bits = std::uint64_t{begin} << kEndBits;
  }
  std::string why_not(std::string_view kind) const override { return fmt::format("{} is not allowed", kind); }

  JsonTape& tape_;
  std::vector<Index> open_;
  std::size_t count_ = 0;  // of values
};

JsonTape::JsonTape(std::string_view text, const std::string& file) {
  characters_.reserve(text.size());  // strings take no more there: growing by copies would hold them twice
  Builder(file, *this).parse(text);
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

}  // namespace qkv::io
