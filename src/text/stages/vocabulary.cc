// Vocabulary: tokens by id and ids by token, both unique.
#include "text/stages/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "core/stop.h"
#include "io/files/text.h"

namespace qkv::text {

Vocabulary::Vocabulary(std::vector<Entry> entries) : entries_(std::move(entries)), by_id_(entries_.size()) {
  StopTurns turns;
  const auto token = [&](const Entry& entry) -> const std::string& {
    turns.next();
    return entry.token;
  };
  std::ranges::sort(entries_, {}, token);
  const auto same_token = std::ranges::adjacent_find(entries_, {}, &Entry::token);
  if (same_token != entries_.end()) {
    throw std::invalid_argument(fmt::format("token {} appears twice", io::quote(same_token->token)));
  }
  const auto id = [&](std::uint32_t index) {
    turns.next();
    return entries_[index].id;
  };
  std::iota(by_id_.begin(), by_id_.end(), 0u);
  std::ranges::sort(by_id_, {}, id);
  const auto same_id = std::ranges::adjacent_find(by_id_, {}, id);
  if (same_id != by_id_.end()) {
    throw std::invalid_argument(fmt::format("tokens {} and {} share the id {}", io::quote(entries_[same_id[0]].token),
                                            io::quote(entries_[same_id[1]].token), id(*same_id)));
  }
}

const Vocabulary::Entry* Vocabulary::find(std::string_view token) const {
  const auto at = std::ranges::lower_bound(entries_, token, std::less<>(), &Entry::token);
  return at != entries_.end() && at->token == token ? &*at : nullptr;
}

const Vocabulary::Entry* Vocabulary::find(std::int32_t id) const {
  const auto at = std::ranges::lower_bound(by_id_, id, {}, [this](std::uint32_t index) { return entries_[index].id; });
  return at != by_id_.end() && entries_[*at].id == id ? &entries_[*at] : nullptr;
}

std::int32_t Vocabulary::max_id() const { return by_id_.empty() ? -1 : entries_[by_id_.back()].id; }

}  // namespace qkv::text
