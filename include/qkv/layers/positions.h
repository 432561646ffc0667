// Positions of tokens in their sequences, and the ways to give them to a model: sinusoids added to embeddings, learnt
// rows that are added (an Embedding over positions), and rotation of queries and keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/sequences.h"

namespace qkv {

// 0, 1, 2 ... within each sequence of offsets (i32 [batch + 1]), for every row of a ragged batch. std::invalid_argument
// if a sequence has more than `most` rows, or the offsets are none.
QKV_API std::vector<std::int32_t> positions_of(const TensorView& offsets, std::int64_t most);

// How sines and cosines share a row: alternating (sin, cos, sin, cos ...) as in the paper, or all sines and then all
// cosines, as Marian has them.
enum class SinusoidOrder { in_turns, sines_first };

// [count, dim]: row p has sin(p / 10000^(2i/dim)) and cos(p / 10000^(2i/dim)) for i = 0, 1, 2 ...
// Source: Vaswani et al., "Attention is all you need" (2017), section 3.5.
QKV_API Tensor sinusoids(std::int64_t count, std::int64_t dim, SinusoidOrder order, Dtype dtype = Dtype::f32);

// x row r += table row positions[r]. std::invalid_argument if a position is not in the table or shapes do not fit.
QKV_API void add_positions(const TensorView& table, std::span<const std::int32_t> positions, Tensor& x);

// Which elements of a head rotate together: i with i + head_dim / 2, as in GPT-NeoX and Llama, or neighbours, 2i with
// 2i + 1, as in RoFormer and GPT-J.
enum class RotaryPairs { halves, neighbours };

struct RotaryConfig {
  double base = 10000;
  RotaryPairs pairs = RotaryPairs::halves;
};

// Rotates each pair i of each head of rows [n, heads * head_dim] by the angle position / base^(2i/head_dim), in place.
// `direction` -1 rotates back, as gradients need. head_dim is even, base a finite number above 0.
// Source: Su et al., "RoFormer: enhanced Transformer with rotary position embedding" (2021).
QKV_API void rotate_heads(const RotaryConfig& config, std::span<const std::int32_t> positions, std::int64_t heads,
                          Tensor& rows, int direction = 1, int threads = 0);

}  // namespace qkv
