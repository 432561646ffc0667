// Computes which weights dropout keeps, for single queries, masks and the reference.
#include "attention/options/dropout.h"

#include <cmath>
#include <string>

#include "core/refuse.h"
#include "core/stop.h"
#include "qkv/random.h"

namespace qkv {

DropoutRule::DropoutRule(const Dropout& dropout) : seed(dropout.seed) {
  if (!(dropout.p >= 0 && dropout.p <= 1)) {
    refuse("dropout", "p must be 0 (off) to 1, got {}", dropout.p);
  }
  threshold = static_cast<std::uint32_t>(std::lround((1 - dropout.p) * kAll));
  factor = threshold == 0 ? 0 : static_cast<double>(kAll) / threshold;
}

bool DropoutRow::keeps(std::int64_t key) {
  if (key / DropoutRule::kKeys != block_) {
    block_ = key / DropoutRule::kKeys;
    bits_ = philox({static_cast<std::uint32_t>(block_), static_cast<std::uint32_t>(query_),
                    static_cast<std::uint32_t>(head_), static_cast<std::uint32_t>(sequence_)},
                   rule_.seed, DropoutRule::kRounds);
  }
  const auto word = static_cast<std::size_t>(key % DropoutRule::kKeys);
  return (bits_[word / 2] >> (16 * (word % 2)) & 0xffff) < rule_.threshold;
}

void dropout_mask(const Dropout& dropout, const MutableTensorView& kept, const DropoutIndex& first) {
  const DropoutRule rule(dropout);
  if (kept.dtype() != Dtype::boolean && kept.dtype() != Dtype::u8) {
    refuse("dropout_mask", "kept must be bool or u8, got {}", name_of(kept.dtype()));
  }
  if (kept.rank() < 2) {
    refuse("dropout_mask", "kept must be [..., heads, q_len, k_len] or [q_len, k_len], got {}",
           to_string(kept.shape()));
  }
  for (const std::int64_t index : {first.sequence, first.head, first.query, first.key}) {
    if (index < 0) refuse("dropout_mask", "indices must be 0 or more, got {}", index);
  }
  const int outer = kept.rank() - 2;  // dimensions in front of the queries
  const std::int64_t heads = outer == 0 ? 1 : kept.size(outer - 1);
  std::int64_t matrices = 1;
  for (int dim = 0; dim < outer; ++dim) matrices *= kept.size(dim);
  for (std::int64_t n = 0; n < matrices; ++n) {
    std::byte* matrix = kept.bytes();
    std::int64_t rest = n;
    for (int dim = outer - 1; dim >= 0; --dim) {
      matrix += rest % kept.size(dim) * kept.stride(dim);
      rest /= kept.size(dim);
    }
    for (std::int64_t i = 0; i < kept.size(-2); ++i) {
      check_stop();
      DropoutRow row(rule, first.sequence + n / heads, first.head + n % heads, first.query + i);
      for (std::int64_t j = 0; j < kept.size(-1); ++j) {
        matrix[i * kept.stride(-2) + j * kept.stride(-1)] = std::byte{row.keeps(first.key + j)};
      }
    }
  }
}

}  // namespace qkv
