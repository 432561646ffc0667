// Properties of code points, in the versions of Unicode that models were trained with.
#include "text/stages/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "text/stages/unicode_tables.h"

namespace qkv::text {
namespace {

utf8proc_category_t category(char32_t code) {
  const auto old = std::ranges::find(kOldCategories, code, &OldCategory::code);
  return old != std::end(kOldCategories) ? old->category : utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

}  // namespace

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
  if (code == 0x85) return true;
  const utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL || c == UTF8PROC_CATEGORY_ZP;
}

bool is_control_or_format(char32_t code) {
  const utf8proc_category_t c = category(code);
  return (c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO) &&
         !contains(kPlainInUnicode8, code);
}

bool is_nonspacing_mark(char32_t code) {
  return category(code) == UTF8PROC_CATEGORY_MN && !contains(kPlainInUnicode8, code);
}

bool is_punctuation(char32_t code) {
  const utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO && !contains(kPlainInUnicode8, code);
}

bool is_word_character(char32_t code) {
  constexpr CodeRange kJoiners = {0x200C, 0x200D};
  const utf8proc_category_t c = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC ||
         (code >= kJoiners.first && code <= kJoiners.last) || contains(kAlphabeticSymbols, code) ||
         contains(kNewLetters, code) || contains(kNewDigits, code) || contains(kNewWordMarks, code);
}

bool is_letter(char32_t code) {
  const utf8proc_category_t c = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO) || contains(kNewLetters, code);
}

bool is_number(char32_t code) {
  const utf8proc_category_t c = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return (c >= UTF8PROC_CATEGORY_ND && c <= UTF8PROC_CATEGORY_NO) || contains(kNewDigits, code);
}

bool is_mark(char32_t code) {
  const utf8proc_category_t c = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  const bool now = c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
  return contains(kMarksUntilUnicode9, code) || (now && !contains(kNoMarksInUnicode9, code));
}

int combining_class(char32_t code) {
  const int value = utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
  return value == 0 || contains(kPlainInUnicode9, code) ? 0 : value;
}

Decomposition decompose(char32_t code, Equivalence equivalence) {
  Decomposition result{{code}, 1};
  constexpr int kMost = std::size(Decomposition{}.codes);
  utf8proc_int32_t codes[kMost];
  int boundary = UTF8PROC_BOUNDCLASS_START;
  const int options = UTF8PROC_DECOMPOSE | (equivalence == Equivalence::compatible ? UTF8PROC_COMPAT : 0);
  const auto size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), codes, kMost,
                                            static_cast<utf8proc_option_t>(options), &boundary);
  if (size < 1 || size > kMost || (size == 1 && codes[0] == static_cast<utf8proc_int32_t>(code)) ||
      contains(kPlainInUnicode9, code) || contains(kWholeInUnicode9, code)) {
    return result;
  }
  result.size = static_cast<int>(size);
  std::copy(codes, codes + size, result.codes);
  return result;
}

char32_t compose(char32_t first, char32_t second) {
  constexpr char32_t kFirstSecond = 0x300;  // nothing below is the second part of a character
  if (second < kFirstSecond || contains(kPlainInUnicode9, first) || contains(kPlainInUnicode9, second)) return 0;
  utf8proc_int32_t codes[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  return utf8proc_normalize_utf32(codes, 2, options) == 1 ? static_cast<char32_t>(codes[0]) : 0;
}

LowerCase lower_case(char32_t code) {
  if (code == 0x130) return {'i', 0x307};
  for (const auto& [range, to_small] : kNewCapitals) {
    if (code < range.first || code > range.last) continue;
    return {static_cast<char32_t>(static_cast<std::int32_t>(code) + to_small), 0};
  }
  return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), 0};
}

Decoded decode_utf8(std::string_view bytes) {
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(bytes.data());
  if (data[0] < 0x80) return {data[0], 1};
  utf8proc_int32_t code = 0;
  const auto size =
      utf8proc_iterate(data, static_cast<utf8proc_ssize_t>(std::min<std::size_t>(bytes.size(), 4)), &code);
  if (size > 0) return {static_cast<char32_t>(code), static_cast<std::size_t>(size)};

  // Which second bytes may follow (Unicode, table 3-7); third and fourth ones are always 80 to BF.
  const auto lead = data[0];
  const std::size_t length = lead < 0xC2 || lead > 0xF4 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::size_t valid = 1;
  for (; valid < length && valid < bytes.size(); ++valid) {
    const int low = valid > 1 ? 0x80 : lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const int high = valid > 1 ? 0xBF : lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (data[valid] < low || data[valid] > high) break;
  }
  return {kReplacement, valid};
}

void append_utf8(std::string& text, char32_t code) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

std::u32string to_code_points(std::string_view utf8) {
  std::u32string codes;
  codes.reserve(utf8.size());
  while (!utf8.empty()) {
    const Decoded next = decode_utf8(utf8);
    codes.push_back(next.code);
    utf8.remove_prefix(next.size);
  }
  return codes;
}

}  // namespace qkv::text
