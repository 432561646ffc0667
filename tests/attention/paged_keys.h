// Keys and values in pages, beside the same in one piece.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "attention/attention_testing.h"

namespace qkv::testing::paged {

inline constexpr std::int64_t kHeads = 4, kKvHeads = 2;

// Padded keys and values of sequences of different lengths, and the same rows in pages in random order.
struct Pages {
  Pages(const std::vector<std::int32_t>& counts, std::int64_t rows, Dtype dtype, std::int64_t key_size,
        std::int64_t value_size)
      : lengths(Tensor::of({static_cast<std::int64_t>(counts.size())}, counts)) {
    Random random(1);
    const auto batch = static_cast<std::int64_t>(counts.size());
    const std::int64_t longest = *std::max_element(counts.begin(), counts.end());
    const std::int64_t blocks = (longest + rows - 1) / rows + 2;
    padded_k = normal(random, {batch, kKvHeads, longest, key_size}, dtype);
    padded_v = normal(random, {batch, kKvHeads, longest, value_size}, dtype);
    const std::int64_t pages = batch * blocks + 3;
    k = filled({pages, rows, kKvHeads, key_size}, kNan, dtype);
    v = filled({pages, rows, kKvHeads, value_size}, kNan, dtype);
    std::vector<std::int32_t> order(static_cast<std::size_t>(pages)), table;
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t block = 0; block < blocks; ++block) {
        const std::int64_t first = block * rows, count = std::min(rows, counts[static_cast<std::size_t>(b)] - first);
        table.push_back(count > 0 ? order.back() : -7);  // no page where no key needs one
        if (count <= 0) continue;
        order.pop_back();
        const auto fill = [&](Tensor& to, const Tensor& from) {
          convert(from.view().select(0, b).slice(1, first, first + count).transpose(0, 1),
                  to.view().select(0, table.back()).slice(0, 0, count));
        };
        fill(k, padded_k);
        fill(v, padded_v);
      }
    }
    block_table = Tensor::of({batch, blocks}, table);
  }

  Tensor lengths, padded_k, padded_v, k, v, block_table;
};

}  // namespace qkv::testing::paged
