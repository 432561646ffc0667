/// \file
/// Positions of tokens in their sequences, and the ways to give them to a model: sinusoids added to embeddings, learnt
/// rows that are added (an Embedding over positions), and rotation of queries and keys.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "qkv/api.h"
#include "qkv/layers/sequences.h"

namespace qkv {

/// 0, 1, 2 ... within each sequence of offsets (i32 [batch + 1]), for every row of a ragged batch.
/// std::invalid_argument if a sequence has more than `most` rows, or the offsets are none.
QKV_API std::vector<std::int32_t> positions_of(const TensorView& offsets, std::int64_t most);

/// How sines and cosines share a row: alternating (sin, cos, sin, cos ...) as in the paper, or all sines and then all
/// cosines, as Marian has them.
enum class SinusoidOrder { in_turns, sines_first };

/// [count, dim]: row p has sin(p / 10000^(2i/dim)) and cos(p / 10000^(2i/dim)) for i = 0, 1, 2 ...
/// Source: Vaswani et al., "Attention is all you need" (2017), section 3.5.
QKV_API Tensor sinusoids(std::int64_t count, std::int64_t dim, SinusoidOrder order, Dtype dtype = Dtype::f32);

/// x row r += table row positions[r]. std::invalid_argument if a position is not in the table or shapes do not fit.
QKV_API void add_positions(const TensorView& table, std::span<const std::int32_t> positions, Tensor& x);

/// Which elements of a head rotate together: i with i + head_dim / 2, as in GPT-NeoX and Llama, or neighbours, 2i with
/// 2i + 1, as in RoFormer and GPT-J.
enum class RotaryPairs { halves, neighbours };

/// How a model rotates beyond the `trained` positions that it was first trained with. With f_i = base^(-2i/dims), and
/// f_i trained / 2 pi the turns that pair i makes over these positions:
///   linear   f_i / factor
///   dynamic  f_i of base (factor p / trained - factor + 1)^(dims/(dims - 2)), p the position + 1, from `trained` on.
///   So
///   a
///            row depends on its own position alone, and is what transformers has when it writes token by token
///     yarn     f_i where a pair makes more than `fast` turns, f_i / factor below `slow` turns, between them both,
///     mixed
///              linearly over i; cosines and sines times `magnitude`. Source: Peng et al., "YaRN" (2023)
///     llama3   f_i from `fast` turns on, f_i / factor up to `slow`, between them both, mixed linearly over turns
struct RotaryScaling {
  enum class Kind { none, linear, dynamic, yarn, llama3 };
  Kind kind = Kind::none;
  double factor = 1;
  std::int64_t trained = 0;
  double slow = 1, fast = 32;
  double magnitude = 1;
  bool whole = true;  ///< yarn: the pairs between which it mixes are whole numbers
  bool operator==(const RotaryScaling&) const = default;
};

struct RotaryConfig {
  double base = 10000;
  RotaryPairs pairs = RotaryPairs::halves;
  std::int64_t dims = 0;  ///< of each head so many first elements rotate, the others stay; even; 0: all
  RotaryScaling scaling{};
  bool operator==(const RotaryConfig&) const = default;
};

/// Rotates each pair i of each head of rows [n, heads * head_dim] by the angle position / base^(2i/dims), in place.
/// `direction` -1 is the transpose, which rotates back, as gradients need. std::invalid_argument unless dims are even,
/// at most head_dim, and base is a finite number above 0, and a scaling's factor 1 or more.
/// Source: Su et al., "RoFormer: enhanced Transformer with rotary position embedding" (2021).
QKV_API void rotate_heads(const RotaryConfig& config, std::span<const std::int32_t> positions, std::int64_t heads,
                          Tensor& rows, int direction = 1, int threads = 0);

}  // namespace qkv
