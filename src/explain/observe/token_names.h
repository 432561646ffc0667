// Tokens of a model's vocabulary as text shows them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace qkv::inline explaining {

inline const std::string kPieceMark = "##";  // before a piece that continues a word

inline const std::string kBlank = "(space)";  // a piece of nothing else

// Signs for bytes as the text that they are, where they are whole characters; no mark of a space before a word.
std::string label_of(const std::string& token);

// A vocabulary is a stranger's text: nothing of it may command a terminal.
inline std::string printable(std::string text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool high_control = byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (high_control) text[i + 1] = '?';
    if (high_control || byte < ' ' || byte == 0x7f) text[i] = '?';
  }
  return text;
}

inline std::size_t characters(const std::string& text) {  // bytes of UTF-8 that begin one
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Tokens as they are shown, and in columns of one width.
class TokenNames {
 public:
  static constexpr std::size_t kMost = 16;  // characters that a column gives way for

  // `first`: the number of the first one.
  explicit TokenNames(const std::vector<std::string>& tokens, std::int64_t first = 0) : first_(first) {
    for (const std::string& token : tokens) {
      names_.push_back(printable(token));
      width_ = std::max(width_, std::min(characters(names_.back()), kMost));
    }
  }
  std::string operator[](std::int64_t i) const { return names_[static_cast<std::size_t>(i)]; }
  std::string numbered(std::int64_t i) const { return fmt::format("{} {}", first_ + i, (*this)[i]); }
  // Distinguishes those that read the same: "the (7)".
  std::string unique(std::int64_t i) const {
    const bool alone = std::count(names_.begin(), names_.end(), (*this)[i]) == 1;
    return alone ? (*this)[i] : fmt::format("{} ({})", (*this)[i], first_ + i);
  }
  std::string column(std::int64_t i) const {
    const std::string blanks(width_ - std::min(characters((*this)[i]), width_), ' ');
    return fmt::format("{:>3} {}{}", first_ + i, (*this)[i], blanks);
  }

 private:
  std::int64_t first_;
  std::vector<std::string> names_;
  std::size_t width_ = 1;
};

}  // namespace qkv::inline explaining
