// Properties of code points, in the versions of Unicode that models were trained with.
#include "text/stages/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace qkv::text {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t N>
bool contains(const Range (&ranges)[N], char32_t code) {
  const Range* after = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                        [](char32_t c, const Range& range) { return c < range.first; });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

// Ranges without any control, format or private character, nonspacing mark or punctuation in Unicode 8.0, around those
// that came later, up to Unicode 18.0.
constexpr Range kPlainInUnicode8[] = {
    {0x05C8, 0x05C9},   {0x061D, 0x061D},   {0x07FD, 0x07FD},   {0x0890, 0x08E2},   {0x09FD, 0x09FE},
    {0x0A76, 0x0A76},   {0x0AFA, 0x0AFF},   {0x0B53, 0x0B55},   {0x0C04, 0x0C3C},   {0x0C77, 0x0C77},
    {0x0C84, 0x0C84},   {0x0D00, 0x0D00},   {0x0D3B, 0x0D3C},   {0x0D81, 0x0D81},   {0x0EBA, 0x0EBA},
    {0x0ECE, 0x0ECE},   {0x180F, 0x1886},   {0x1ABF, 0x1AF0},   {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},
    {0x1DF6, 0x1DFB},   {0x2E43, 0x2E63},   {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},
    {0xA9BD, 0xA9BD},   {0x10D24, 0x10F89}, {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111CF, 0x111CF},
    {0x1123E, 0x11241}, {0x1133B, 0x1133B}, {0x113BB, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
    {0x1182F, 0x11FFF}, {0x12FF1, 0x1612F}, {0x16D6D, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1D128},
    {0x1D25B, 0x1D25C}, {0x1E000, 0x1E6F5}, {0x1E944, 0x1E95F}};

// Ranges where every combining class was 0 and nothing had a decomposition in Unicode 9.0, likewise.
constexpr Range kPlainInUnicode9[] = {{0x05C8, 0x05C9},   {0x07FD, 0x07FD},   {0x0897, 0x08D3},   {0x09FE, 0x09FE},
                                      {0x0C3C, 0x0C3C},   {0x0D3B, 0x0D3C},   {0x0EBA, 0x0EBA},   {0x1715, 0x1715},
                                      {0x1ABF, 0x1AF0},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x105C9, 0x105E4},
                                      {0x10D24, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x11383, 0x113D0},
                                      {0x1145E, 0x1145E}, {0x11839, 0x11A99}, {0x11D42, 0x1612F}, {0x16D68, 0x16FF1},
                                      {0x1D127, 0x1D128}, {0x1D250, 0x1D281}, {0x1E08F, 0x1E6F5}};

// Likewise, ranges where nothing had a decomposition, compatible ones included, in Unicode 9.0.
constexpr Range kWholeInUnicode9[] = {{0x0558, 0x0558},   {0x058B, 0x058C},   {0x209D, 0x209F},   {0x32FF, 0x32FF},
                                      {0xA7F1, 0xA7F4},   {0xAB69, 0xAB69},   {0x105C9, 0x107BF}, {0x11383, 0x113C8},
                                      {0x11938, 0x1CCF9}, {0x1D6A6, 0x1D6A6}, {0x1DF95, 0x1E06D}, {0x1F16C, 0x1F16C},
                                      {0x1FBF0, 0x1FBF9}};

// Ranges without any mark in Unicode 9.0, around those that came later; and what has been a mark until then.
constexpr Range kNoMarksInUnicode9[] = {
    {0x05C8, 0x05C9},   {0x07FD, 0x07FD},   {0x0897, 0x08D3},   {0x09FE, 0x09FE},   {0x0AFA, 0x0AFF},
    {0x0B53, 0x0B55},   {0x0C04, 0x0C3C},   {0x0CF3, 0x0D00},   {0x0D3B, 0x0D3C},   {0x0D81, 0x0D81},
    {0x0EBA, 0x0EBA},   {0x0ECE, 0x0ECE},   {0x1715, 0x1715},   {0x180F, 0x180F},   {0x1ABF, 0x1AF0},
    {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10F85},
    {0x11070, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
    {0x11241, 0x11241}, {0x1133B, 0x1133B}, {0x113B8, 0x113E2}, {0x1145E, 0x1145E}, {0x1182C, 0x11B67},
    {0x11D31, 0x1612F}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1D128},
    {0x1D250, 0x1D281}, {0x1E08F, 0x1E6F5}};
constexpr Range kMarksUntilUnicode9 = {0x1CF2, 0x1CF3};

// What Unicode 15.1 and 16.0 brought.
constexpr Range kNewLetters[] = {{0x1C89, 0x1C8A},   {0xA7CB, 0xA7CD},   {0xA7DA, 0xA7DC},   {0x105C0, 0x105F3},
                                 {0x10D4A, 0x10D65}, {0x10D6F, 0x10D85}, {0x10EC2, 0x10EC4}, {0x11380, 0x11389},
                                 {0x1138B, 0x1138B}, {0x1138E, 0x1138E}, {0x11390, 0x113B5}, {0x113B7, 0x113B7},
                                 {0x113D1, 0x113D1}, {0x113D3, 0x113D3}, {0x11BC0, 0x11BE0}, {0x13460, 0x143FA},
                                 {0x16100, 0x1611D}, {0x16D40, 0x16D6C}, {0x18CFF, 0x18CFF}, {0x1E5D0, 0x1E5ED},
                                 {0x1E5F0, 0x1E5F0}, {0x2EBF0, 0x2EE5D}};
constexpr Range kNewDigits[] = {{0x10D40, 0x10D49}, {0x116D0, 0x116E3}, {0x11BF0, 0x11BF9}, {0x16130, 0x16139},
                                {0x16D70, 0x16D79}, {0x1CCF0, 0x1CCF9}, {0x1E5F1, 0x1E5FA}};
constexpr Range kNewWordMarks[] = {{0x0897, 0x0897},   {0x10D69, 0x10D6D}, {0x10EFC, 0x10EFC}, {0x113B8, 0x113C0},
                                   {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA}, {0x113CC, 0x113D0},
                                   {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F},
                                   {0x1E5EE, 0x1E5EF}};

// Capital letters that came after Unicode 15.0, and what to add for the small one.
struct Shift {
  Range range;
  int step;  // capitals are this far apart
  std::int32_t to_small;
};
constexpr Shift kNewCapitals[] = {{{0x1C89, 0x1C89}, 1, 1},      {{0xA7CB, 0xA7CB}, 1, 0x264 - 0xA7CB},
                                  {{0xA7CC, 0xA7CE}, 2, 1},      {{0xA7D2, 0xA7D4}, 2, 1},
                                  {{0xA7DA, 0xA7DA}, 1, 1},      {{0xA7DC, 0xA7DC}, 1, 0x19B - 0xA7DC},
                                  {{0x10D50, 0x10D65}, 1, 0x20}, {{0x16EA0, 0x16EB8}, 1, 0x1B}};

utf8proc_category_t category(char32_t code) {
  switch (code) {  // the only ones whose category changed since Unicode 8.0
    case 0x166D:
    case 0x111C9:
      return UTF8PROC_CATEGORY_PO;
    case 0x1171E:
    case 0x1734:
      return UTF8PROC_CATEGORY_MN;
    default:
      return utf8proc_category(static_cast<utf8proc_int32_t>(code));
  }
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
  // Letters are all alphabetic; beyond them and the marks only circled and squared Latin letters are.
  constexpr Range kJoiners = {0x200C, 0x200D};
  constexpr Range kAlphabeticSymbols[] = {{0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
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
  const bool once = code >= kMarksUntilUnicode9.first && code <= kMarksUntilUnicode9.last;
  return once || (now && !contains(kNoMarksInUnicode9, code));
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
  for (const Shift& shift : kNewCapitals) {
    if (code < shift.range.first || code > shift.range.last) continue;
    if ((code - shift.range.first) % static_cast<char32_t>(shift.step) != 0) continue;
    return {static_cast<char32_t>(static_cast<std::int32_t>(code) + shift.to_small), 0};
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
