// Reads a boolean view once and records for each block whether some or all pairs are visible.
#include "attention/options/compiled_mask.h"

#include <algorithm>
#include <cstring>

#include "core/mathematics.h"
#include "core/stop.h"
#include "core/worth_waking.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr std::int64_t kKeys = BooleanBlocks::kKeys;

// Marks one group of queries and the keys of one word: rows of bytes, of which not 0 is visible, each `step` after the
// other.
void mark(const TensorView& plane, std::int64_t begin, std::int64_t end, std::int64_t first_key, std::uint64_t& some,
          std::uint64_t& every) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  constexpr std::int64_t kBlocks = BooleanBlocks::kWordKeys / kKeys;
  const std::int64_t keys = std::min(plane.size(1) - first_key, BooleanBlocks::kWordKeys), step = plane.stride(1);
  const std::int64_t whole = step == 1 ? keys / kKeys : 0, blocks = divide_up(keys, kKeys);
  // Of each block, the bytes of its rows combined by "or", and, in the top bit of a byte, whether it is not 0 by "and".
  std::uint64_t any[kBlocks] = {}, all[kBlocks];
  std::fill(all, all + blocks, ~std::uint64_t{0});
  for (std::int64_t i = begin; i < end; ++i) {
    const std::byte* bytes = plane.bytes() + i * plane.stride(0) + first_key * step;
    for (std::int64_t block = 0; block < whole; ++block) {
      std::uint64_t word;
      std::memcpy(&word, bytes + block * kKeys, sizeof(word));
      any[block] |= word;
      all[block] &= ((word & kLow) + kLow) | word;
    }
    for (std::int64_t j = whole * kKeys; j < keys; ++j) {
      const auto byte = static_cast<std::uint64_t>(bytes[j * step]);
      any[j / kKeys] |= byte;
      if (byte == 0) all[j / kKeys] = 0;
    }
  }
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::uint64_t bit = std::uint64_t{1} << block;
    if (any[block] != 0) some |= bit;
    if ((all[block] & ~kLow) == ~kLow) every |= bit;
  }
}

}  // namespace

Dims BooleanBlocks::shape(const TensorView& visible) {
  if (size_of(visible.dtype()) != 1) return {0};  // no mask, which the call refuses
  if (visible.rank() == 0 || visible.size(-1) <= 1 || visible.element_count() == 0) return {0};
  Dims shape;
  for (int dim = 0; dim + 2 < visible.rank(); ++dim) shape.push_back(visible.size(dim));
  shape.push_back(visible.rank() == 1 ? 1 : divide_up(visible.size(-2), kQueries));
  shape.push_back(divide_up(visible.size(-1), kWordKeys));
  return shape;
}

std::size_t BooleanBlocks::bytes(const TensorView& visible) {
  return 2 * static_cast<std::size_t>(element_count(shape(visible))) * sizeof(std::uint64_t);
}

BooleanBlocks::BooleanBlocks(const TensorView& visible, int threads) {
  const Dims summary = shape(visible);
  if (element_count(summary) == 0) return;
  const TensorView planes = visible.rank() > 1 ? visible : visible.broadcast_to({1, visible.size(0)});
  const std::int64_t queries = planes.size(-2), groups = summary[summary.size() - 2];
  const std::int64_t words = summary[summary.size() - 1];
  some_ = Tensor::zeros(summary, Dtype::i64);
  every_ = Tensor::zeros(summary, Dtype::i64);
  auto* some = reinterpret_cast<std::uint64_t*>(some_.data<std::int64_t>());
  auto* every = reinterpret_cast<std::uint64_t*>(every_.data<std::int64_t>());
  threads = worth_waking(threads, 0, static_cast<double>(visible.element_count()));
  parallel_for(element_count(summary) / words, threads, [&](std::int64_t index, int) {
    TensorView plane = planes;
    std::int64_t rest = index / groups;
    for (int dim = planes.rank() - 3; dim >= 0; --dim) {
      plane = plane.select(dim, rest % planes.size(dim));
      rest /= planes.size(dim);
    }
    const std::int64_t first = index % groups * kQueries;
    for (std::int64_t word = 0; word < words; ++word) {
      check_stop();
      const std::int64_t at = index * words + word;
      mark(plane, first, std::min(first + kQueries, queries), word * kWordKeys, some[at], every[at]);
    }
  });
}

}  // namespace qkv
