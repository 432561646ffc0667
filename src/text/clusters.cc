// Finds clusters by utf8proc, with what came after its Unicode 15.0.
#include "text/clusters.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace qkv::text {
namespace {

struct Extenders {
  char32_t first;
  char32_t last;
};

// What extends a cluster since Unicode 15.1.
constexpr Extenders kNewExtenders[] = {{0x0897, 0x0897},   {0x1ACF, 0x1ADD},   {0x1AE0, 0x1AEB},   {0x10D69, 0x10D6D},
                                       {0x10EFA, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
                                       {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
                                       {0x11B60, 0x11B67}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF},
                                       {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}};

// A code point that utf8proc knows and that joins its neighbours in the same way.
utf8proc_int32_t known_like(char32_t code) {
  constexpr utf8proc_int32_t kExtends = 0x300, kPrepended = 0x600, kPlain = 'x';
  if (code == 0x113D1) return kPrepended;
  if (code == 0x11A3A) return kPlain;  // no longer prepended
  const auto* range = std::ranges::lower_bound(kNewExtenders, code, {}, &Extenders::last);
  if (range != std::end(kNewExtenders) && code >= range->first) return kExtends;
  return static_cast<utf8proc_int32_t>(code);
}

}  // namespace

std::size_t first_cluster(CharacterSpan text) {
  const auto is_plain = [](char32_t code) { return code >= ' ' && code < 0x7F; };  // needs no table
  utf8proc_int32_t state = 0;
  std::size_t length = 1;
  for (; length < text.size(); ++length) {
    const char32_t before = text[length - 1].code, after = text[length].code;
    if (is_plain(before) && is_plain(after)) break;
    if (utf8proc_grapheme_break_stateful(known_like(before), known_like(after), &state)) break;
  }
  return length;
}

}  // namespace qkv::text
