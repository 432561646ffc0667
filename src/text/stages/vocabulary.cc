// Vocabulary: tokens by id and ids by token, both unique.
#include "text/stages/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
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
  if (!std::ranges::is_sorted(entries_, {}, token)) std::ranges::sort(entries_, {}, token);
  const auto same_token = std::ranges::adjacent_find(entries_, {}, &Entry::token);
  if (same_token != entries_.end()) {
    throw std::invalid_argument(fmt::format("token {} appears twice", io::quote(same_token->token)));
  }
  const auto id = [&](std::uint32_t index) {
    turns.next();
    return entries_[index].id;
  };
  if (!place_by_id()) {
    std::iota(by_id_.begin(), by_id_.end(), 0u);
    std::ranges::sort(by_id_, {}, id);
  }
  const auto same_id = std::ranges::adjacent_find(by_id_, {}, id);
  if (same_id != by_id_.end()) {
    throw std::invalid_argument(fmt::format("tokens {} and {} share the id {}", io::quote(entries_[same_id[0]].token),
                                            io::quote(entries_[same_id[1]].token), id(*same_id)));
  }
  slots_.resize(std::bit_ceil(2 * entries_.size() + 1));
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    turns.next();
    const std::size_t first = first_slot(entries_[i].token);
    for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
      std::uint32_t& slot = slots_[(first + probe) & (slots_.size() - 1)];
      if (slot != 0) continue;
      slot = i + 1;
      break;
    }
  }
}

// Whether ids are those from 0 on, each once: then each tells its place.
bool Vocabulary::place_by_id() {
  constexpr std::uint32_t kFree = ~std::uint32_t{0};
  std::ranges::fill(by_id_, kFree);
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const auto id = static_cast<std::uint32_t>(entries_[i].id);
    if (id >= by_id_.size() || by_id_[id] != kFree) return false;
    by_id_[id] = i;
  }
  return true;
}

std::size_t Vocabulary::first_slot(std::string_view token) const {
  return std::hash<std::string_view>()(token) & (slots_.size() - 1);
}

const Vocabulary::Entry* Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return nullptr;
  const std::size_t first = first_slot(token);
  for (std::size_t probe = 0; probe < kMostProbes; ++probe) {
    const std::uint32_t slot = slots_[(first + probe) & (slots_.size() - 1)];
    if (slot == 0) return nullptr;
    if (entries_[slot - 1].token == token) return &entries_[slot - 1];
  }
  const auto at = std::ranges::lower_bound(entries_, token, std::less<>(), &Entry::token);
  return at != entries_.end() && at->token == token ? &*at : nullptr;
}

const Vocabulary::Entry* Vocabulary::find(std::int32_t id) const {
  const auto at = std::ranges::lower_bound(by_id_, id, {}, [this](std::uint32_t index) { return entries_[index].id; });
  return at != by_id_.end() && entries_[*at].id == id ? &entries_[*at] : nullptr;
}

std::int32_t Vocabulary::max_id() const { return by_id_.empty() ? -1 : entries_[by_id_.back()].id; }

}  // namespace qkv::text
