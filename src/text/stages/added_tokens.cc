// Finds added tokens in a text, the longest first.
#include "text/stages/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/stop.h"
#include "io/files/text.h"

namespace qkv::text {

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, const Normalizer& normalizer) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::id);
  std::vector<Vocabulary::Entry> entries;
  StopTurns turns;
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    turns.next();
    const AddedToken& token = tokens_[i];
    entries.push_back({token.content, token.id});
    Characters form = to_characters(token.content);
    if (token.normalized && normalizer) form = normalizer(form);
    if (form.empty()) {
      throw std::invalid_argument(
          fmt::format("token {} is empty{}", token.id, token.normalized ? " as normalized" : ""));
    }
    forms_.push_back(to_utf8(form));
    Trie& trie = token.normalized ? normalized_ : as_given_;
    const std::u32string codes = to_code_points(forms_.back());
    const Trie::Node there = trie.find(codes);
    if (there != Trie::kNone && trie.value(there) != Trie::kNoValue) {
      throw std::invalid_argument(fmt::format("tokens {} and {} both match {}", tokens_[trie.value(there)].id, token.id,
                                              io::quote(forms_.back())));
    }
    trie.insert(codes, i);
  }
  ids_ = Vocabulary(std::move(entries));
}

std::vector<AddedTokens::Section> AddedTokens::split(CharacterSpan text, bool normalized) const {
  const Trie& trie = normalized ? normalized_ : as_given_;
  std::vector<Section> sections;
  std::size_t done = 0;  // everything before is in a section
  StopTurns turns;
  for (std::size_t at = 0; at < text.size();) {
    turns.next();
    const Trie::Match match = trie.longest(text.subspan(at));
    if (match.length == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[match.value];
    std::size_t begin = at;
    std::size_t end = at + match.length;
    at = end;
    if (token.single_word && ((begin > 0 && is_word_character(text[begin - 1].code)) ||
                              (end < text.size() && is_word_character(text[end].code)))) {
      continue;
    }
    if (token.lstrip) {
      while (begin > done && is_white_space(text[begin - 1].code)) --begin;
    }
    if (token.rstrip) {
      while (end < text.size() && is_white_space(text[end].code)) ++end;
    }
    if (done < begin) sections.push_back({nullptr, text.subspan(done, begin - done)});
    sections.push_back({&token, text.subspan(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) sections.push_back({nullptr, text.subspan(done)});
  return sections;
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const Vocabulary::Entry* entry = ids_.find(content);
  return entry == nullptr ? nullptr : find(entry->id);
}

const AddedToken* AddedTokens::find(std::int32_t id) const {
  const auto at = std::ranges::lower_bound(tokens_, id, {}, &AddedToken::id);
  return at != tokens_.end() && at->id == id ? &*at : nullptr;
}

bool AddedTokens::is_special(std::string_view content) const {
  const AddedToken* token = find(content);
  return token != nullptr && token->special;
}

}  // namespace qkv::text
