// Tokens and their ids, both unique. Ids may have holes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::text {

class Vocabulary {
 public:
  struct Entry {
    std::string token;
    std::int32_t id;
  };

  Vocabulary() = default;
  // std::invalid_argument if two entries share their token or their id.
  explicit Vocabulary(std::vector<Entry> entries);

  // nullptr: not there. Entries stay where they are for the life of the vocabulary, also when it is moved.
  const Entry* find(std::string_view token) const;
  const Entry* find(std::int32_t id) const;
  // By token.
  const std::vector<Entry>& entries() const { return entries_; }
  std::int32_t max_id() const;  // -1: empty

 private:
  std::vector<Entry> entries_;
  // Where a token's index is looked for in slots_: in so many from here on, then by bisection. So tokens that were
  // chosen to share their hash cost no more than others would without one.
  static constexpr std::size_t kMostProbes = 16;
  std::size_t first_slot(std::string_view token) const;
  bool place_by_id();

  std::vector<std::uint32_t> by_id_;  // indices of entries_
  std::vector<std::uint32_t> slots_;  // indices of entries_, from 1; 0: free. A power of two, at most half full
};

}  // namespace qkv::text
