// Strict reading of untrusted JSON, event by event, so that nothing is stored before it is checked; and how numbers are
// written. A format is a
// handler derived from this one: it overrides what it allows; every other value is refused.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/stop.h"
#include "qkv/error.h"

namespace qkv::io {

class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Messages begin with `name`.
  explicit JsonEvents(std::string name) : name_(std::move(name)) {}

  void parse(std::string_view text) {
    text_ = text;
    // The parser takes a zero byte for the end of its input and would not see what follows.
    const std::size_t zero = text.find('\0');
    if (zero != std::string_view::npos) refuse(fmt::format("not valid JSON at {}: a zero byte", position(zero + 1)));
    refuse_long_runs();
    nlohmann::json::sax_parse(AskedText{text.data()}, AskedText{text.data() + text.size()}, this);
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("true or false"); }
  bool number_integer(std::int64_t) override { unexpected("a negative number"); }
  bool number_unsigned(std::uint64_t) override { unexpected("a number"); }
  bool number_float(double, const std::string&) override { unexpected("a number"); }
  bool string(std::string&) override { unexpected("a string"); }
  bool binary(nlohmann::json::binary_t&) override { unexpected("a binary value"); }
  bool start_object(std::size_t) override { unexpected("an object"); }
  bool start_array(std::size_t) override { unexpected("an array"); }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool end_array() override { return true; }

  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception& error) override {
    constexpr int kOutOfRange = 406;
    refuse(fmt::format("{} at {}", error.id == kOutOfRange ? "number out of range" : "not valid JSON", position(at)));
  }

 protected:
  [[noreturn]] void refuse(const std::string& what) const { throw FormatError(name_ + ": " + what); }

  [[noreturn]] void unexpected(std::string_view kind) const { refuse(why_not(kind)); }

 private:
  static constexpr std::size_t kStopBytes = std::size_t{1} << 16;

  // The characters of the text: it is asked now and then whether to stop.
  struct AskedText {
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char*;
    using reference = const char&;

    const char* at;

    reference operator*() const { return *at; }
    AskedText& operator++() {
      if (reinterpret_cast<std::uintptr_t>(++at) % kStopBytes == 0) check_stop();
      return *this;
    }
    bool operator==(const AskedText&) const = default;
  };

  static constexpr std::size_t kLongestRun = std::size_t{4} << 20;

  // The parser holds a string, a number or white space several times before anyone can refuse it.
  void refuse_long_runs() const {
    bool in_string = false;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (i % kStopBytes == 0) check_stop();
      if (i - begin > kLongestRun) {
        refuse(fmt::format("a string, number or white space of more than {} bytes at {}", kLongestRun,
                           position(begin + 1)));
      }
      const char c = text_[i];
      const bool run_goes_on =
          c != '"' && (in_string || (c != ',' && c != ':' && c != '[' && c != ']' && c != '{' && c != '}'));
      if (!run_goes_on) {
        in_string = c == '"' && !in_string;
        begin = i + 1;
      } else if (in_string && c == '\\') {
        ++i;
      }
    }
  }

  // The rule that a value of this kind breaks here.
  virtual std::string why_not(std::string_view kind) const = 0;

  // The line and column of the byte with this number, from 1.
  std::string position(std::size_t byte) const {
    const std::string_view before = text_.substr(0, std::min(byte, text_.size() + 1) - 1);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    return fmt::format("line {}, column {}", line, before.size() - (before.rfind('\n') + 1) + 1);
  }

  std::string name_;
  std::string_view text_;
};

// A number as it is written: JSON has no words for some, "nan", "inf" and "-inf" are strings.
inline nlohmann::ordered_json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

}  // namespace qkv::io
