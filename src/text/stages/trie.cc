// Builds the trie and finds its longest match.
#include "text/stages/trie.h"

namespace qkv::text {

std::size_t Trie::slot_of(Node node, char32_t code) const {
  constexpr std::uint64_t kGolden =
      0x9E3779B97F4A7C15;  // 2^64 / golden ratio: multiplication mixes into the upper half
  const std::uint64_t key = (std::uint64_t{node} << 21 | code) * kGolden;
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = (key >> 32) & mask;
  while (slots_[i].child != 0 && (slots_[i].parent != node || slots_[i].code != code)) i = (i + 1) & mask;
  return i;
}

Trie::Node Trie::child(Node node, char32_t code) const {
  const Node found = slots_[slot_of(node, code)].child;
  return found == 0 ? kNone : found;
}

void Trie::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.child != 0) slots_[slot_of(slot.parent, slot.code)] = slot;
  }
}

void Trie::insert(std::u32string_view text, std::uint32_t value) {
  Node node = kRoot;
  for (const char32_t code : text) {
    std::size_t i = slot_of(node, code);
    if (slots_[i].child == 0) {
      if (values_.size() * 2 > slots_.size()) {
        grow();
        i = slot_of(node, code);
      }
      slots_[i] = {node, code, static_cast<Node>(values_.size())};
      values_.push_back(kNoValue);
    }
    node = slots_[i].child;
  }
  values_[node] = value;
}

Trie::Node Trie::find(std::u32string_view text, Node from) const {
  for (const char32_t code : text) {
    from = child(from, code);
    if (from == kNone) break;
  }
  return from;
}

Trie::Match Trie::longest(CharacterSpan text, Node from) const {
  Match best;
  for (std::size_t i = 0; i < text.size(); ++i) {
    from = child(from, text[i].code);
    if (from == kNone) break;
    if (values_[from] != kNoValue) best = {i + 1, values_[from]};
  }
  return best;
}

}  // namespace qkv::text
