// Decomposes, reorders and composes code points.
#include "text/unicode_form.h"

#include <algorithm>

#include "core/stop.h"

namespace qkv::text {
namespace {

struct Part {
  char32_t code;
  int order;          // combining class
  std::size_t takes;  // characters of the source that it comes from: 0 shares the span of the part before
};

std::vector<Part> decomposed(CharacterSpan text, Equivalence equivalence) {
  std::vector<Part> parts;
  parts.reserve(text.size());
  std::size_t run = 0;  // where the combining characters at the end of parts begin
  const auto sort_run = [&] {
    if (parts.size() - run > 1)
      std::stable_sort(parts.begin() + static_cast<std::ptrdiff_t>(run), parts.end(),
                       [](const Part& a, const Part& b) { return a.order < b.order; });
    run = parts.size();
  };
  const auto add = [&](char32_t code, int order, std::size_t takes) {
    if (order == 0) sort_run();
    parts.push_back({code, order, takes});
    if (order == 0) run = parts.size();
  };
  for (const Character& c : text) {
    if (c.code < 0x80) {  // needs no table
      add(c.code, 0, 1);
      continue;
    }
    const Decomposition codes = decompose(c.code, equivalence);
    for (int i = 0; i < codes.size; ++i) add(codes.codes[i], combining_class(codes.codes[i]), i == 0 ? 1 : 0);
  }
  sort_run();
  return parts;
}

// The canonical composition algorithm: a part joins the last starter unless one of its class or above comes between.
void compose_all(std::vector<Part>& parts) {
  std::size_t kept = 0;            // parts[0, kept) are done
  std::size_t starter = SIZE_MAX;  // in them
  int last_order = -1;             // of the part behind the starter; -1: the starter itself is the last one
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Part part = parts[i];
    if (starter != SIZE_MAX && (last_order < part.order || last_order == -1)) {
      if (const char32_t joined = compose(parts[starter].code, part.code); joined != 0) {
        parts[starter].code = joined;
        parts[starter].takes += part.takes;
        continue;
      }
    }
    if (part.order == 0) {
      starter = kept;
      last_order = -1;
    } else {
      last_order = part.order;
    }
    parts[kept++] = part;
  }
  parts.resize(kept);
}

}  // namespace

Characters to_form(CharacterSpan text, UnicodeForm form) {
  const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
  std::vector<Part> parts = decomposed(text, compatible ? Equivalence::compatible : Equivalence::canonical);
  if (form == UnicodeForm::nfc || form == UnicodeForm::nfkc) compose_all(parts);
  Characters result;
  result.reserve(parts.size());
  Character source{};
  std::size_t next = 0;
  StopTurns turns;
  for (const Part& part : parts) {
    turns.next();
    if (part.takes > 0) source = text[next];
    next += part.takes;
    result.push_back({part.code, source.begin, source.end});
  }
  return result;
}

}  // namespace qkv::text
