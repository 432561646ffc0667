// Of how many bf16 the numbers of a call are put together, where the tiles of AMX multiply them.
#pragma once

#include "attention/tile/attention_task.h"
#include "core/mathematics.h"

namespace qkv::inline attending {

inline constexpr int kMostInputPieces = 2;

// 0, and numbers least <= |x| < end.
struct OrdinaryNumbers {
  float least, end;
};

// Piece a of one factor and piece b of the other are multiplied if a + b <= order.
struct TilePieces {
  int inputs;  // of queries, keys and values
  int weights;
  int key_order, value_order;
  OrdinaryNumbers keys;  // and queries: products of these, and their sums in f32, are neither subnormal nor infinite
  OrdinaryNumbers values;
  bool are_bf16, rounds_inputs;
};

// The most words of pieces that a key and its value may take, so that a block of them is held at once.
inline constexpr std::int64_t kMostTileWords = 512;

inline TilePieces tile_pieces(const AttentionTask& task) {
  constexpr float kInfinite = 0x1.ffp127f;  // from here on the nearest bf16 is infinite
  if (task.precision == Precision::reduced) return {1, 1, 0, 0, {0, kInfinite}, {0, 0x1p64f}, false, true};
  const int weights = task.common->out_type == Dtype::f32 ? 3 : 2;
  if (task.key.type == Dtype::bf16) {
    return {1, weights, 0, weights - 1, {0x1p-55f, 0x1p40f}, {0x1p-80f, 0x1p64f}, true, false};
  }
  return {2, weights, 2, 2, {0, kInfinite}, {0, 0x1p64f}, false, false};
}

// Words that hold `size` factors: whole tiles, of 16 words a row.
inline std::int64_t words_of_tiles(std::int64_t size) { return divide_up(size, 32) * 16; }

inline std::int64_t tile_words(const AttentionTask& task) {
  return tile_pieces(task).inputs * (words_of_tiles(task.common->key_dim) + words_of_tiles(task.common->value_dim));
}

}  // namespace qkv::inline attending
