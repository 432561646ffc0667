// The rule of include/qkv/attention/dropout.h as numbers, and as plain code for one query.
#pragma once

#include <array>
#include <cstdint>

#include "qkv/attention/dropout.h"

namespace qkv::inline core {

struct DropoutRule {
  static constexpr std::uint32_t kAll = 1 << 16;
  static constexpr std::int64_t kKeys = 8;  // that share a block of random bits
  static constexpr int kRounds = 7;         // of philox

  DropoutRule() = default;
  // std::invalid_argument unless p is a probability.
  explicit DropoutRule(const Dropout& dropout);

  bool is_on() const { return threshold < kAll; }

  std::uint32_t threshold = kAll;  // words below it keep their weight
  double factor = 1;               // of the weights that are kept: 1 / rate, or 0 if none is
  std::uint64_t seed = 0;
};

// One query's row of the mask.
class DropoutRow {
 public:
  DropoutRow(const DropoutRule& rule, std::int64_t sequence, std::int64_t head, std::int64_t query)
      : rule_(rule), sequence_(sequence), head_(head), query_(query) {}

  // Cheap for keys in rising order.
  bool keeps(std::int64_t key);
  // What the weight is multiplied by.
  double factor(std::int64_t key) { return keeps(key) ? rule_.factor : 0; }

 private:
  const DropoutRule& rule_;
  std::int64_t sequence_, head_, query_;
  std::int64_t block_ = -1;
  std::array<std::uint32_t, 4> bits_{};
};

}  // namespace qkv::inline core
