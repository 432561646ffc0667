#include "core/boolean_blocks.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr std::int64_t kKeys = BooleanBlocks::kKeys;

// Marks one group of queries: rows of bytes, of which not 0 is visible, each `step` after the other.
void mark(const TensorView& plane, std::int64_t begin, std::int64_t end, std::uint64_t* some, std::uint64_t* every) {
  constexpr std::uint64_t kLow = 0x7f7f7f7f7f7f7f7f;
  const std::int64_t keys = plane.size(1), step = plane.stride(1), whole = step == 1 ? keys / kKeys : 0;
  const std::int64_t blocks = (keys + kKeys - 1) / kKeys;
  // Of each block, the bytes of its rows combined by "or", and, in the top bit of a byte, whether it is not 0 by "and".
  std::vector<std::uint64_t> any(static_cast<std::size_t>(blocks)), all(static_cast<std::size_t>(blocks), ~0ull);
  std::uint64_t* const in_any = any.data();
  std::uint64_t* const in_all = all.data();
  for (std::int64_t i = begin; i < end; ++i) {
    const std::byte* bytes = plane.bytes() + i * plane.stride(0);
    for (std::int64_t block = 0; block < whole; ++block) {
      std::uint64_t word;
      std::memcpy(&word, bytes + block * kKeys, sizeof(word));
      in_any[block] |= word;
      in_all[block] &= ((word & kLow) + kLow) | word;
    }
    for (std::int64_t j = whole * kKeys; j < keys; ++j) {
      const auto byte = static_cast<std::uint64_t>(bytes[j * step]);
      in_any[j / kKeys] |= byte;
      if (byte == 0) in_all[j / kKeys] = 0;
    }
  }
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::uint64_t bit = std::uint64_t{1} << block % 64;
    if (in_any[block] != 0) some[block / 64] |= bit;
    if ((in_all[block] & ~kLow) == ~kLow) every[block / 64] |= bit;
  }
}

}  // namespace

BooleanBlocks::BooleanBlocks(const TensorView& visible, int threads) {
  if (size_of(visible.dtype()) != 1) return;  // no mask, which the call refuses
  if (visible.rank() == 0 || visible.size(-1) <= 1 || visible.element_count() == 0) return;
  const TensorView planes = visible.rank() > 1 ? visible : visible.broadcast_to({1, visible.size(0)});
  const std::int64_t queries = planes.size(-2), keys = planes.size(-1);
  const std::int64_t groups = (queries + kQueries - 1) / kQueries, words = (keys + kWordKeys - 1) / kWordKeys;
  Dims summary;
  std::int64_t count = 1;
  for (int dim = 0; dim + 2 < planes.rank(); ++dim) {
    summary.push_back(planes.size(dim));
    count *= planes.size(dim);
  }
  summary.push_back(groups);
  summary.push_back(words);
  some_ = Tensor::zeros(summary, Dtype::i64);
  every_ = Tensor::zeros(summary, Dtype::i64);
  auto* some = reinterpret_cast<std::uint64_t*>(some_.data<std::int64_t>());
  auto* every = reinterpret_cast<std::uint64_t*>(every_.data<std::int64_t>());
  parallel_for(count * groups, threads, [&](std::int64_t index, int) {
    TensorView plane = planes;
    std::int64_t rest = index / groups;
    for (int dim = planes.rank() - 3; dim >= 0; --dim) {
      plane = plane.select(dim, rest % planes.size(dim));
      rest /= planes.size(dim);
    }
    const std::int64_t first = index % groups * kQueries;
    mark(plane, first, std::min(first + kQueries, queries), some + index * words, every + index * words);
  });
}

}  // namespace qkv
