// The blocks of GGUF's quantised types, widened to f32.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "core/stop.h"
#include "io/arrays/gguf.h"
#include "qkv/dtype.h"

namespace qkv::io {
namespace {

// A block's bytes in order.
using Bytes = const std::uint8_t*;

float half(Bytes at) {
  Float16 number;
  std::memcpy(&number.bits, at, sizeof number.bits);
  return static_cast<float>(number);
}

std::int8_t signed_byte(std::uint8_t byte) { return std::bit_cast<std::int8_t>(byte); }

constexpr int kBlock = 32;   // elements of a block of the first types
constexpr int kSuper = 256;  // of a block of those called K
constexpr int kScales = 12;  // bytes of eight scales and eight minima of 6 bits

// d * q
void widen_q8_0(Bytes block, float* to) {
  const float scale = half(block);
  for (int i = 0; i < kBlock; ++i) to[i] = scale * static_cast<float>(signed_byte(block[2 + i]));
}

// d * (q - 8): the lower halves of 16 bytes, then the upper ones.
void widen_q4_0(Bytes block, float* to) {
  const float scale = half(block);
  for (int i = 0; i < kBlock / 2; ++i) {
    to[i] = scale * static_cast<float>((block[2 + i] & 15) - 8);
    to[i + kBlock / 2] = scale * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

// d * q + m
void widen_q4_1(Bytes block, float* to) {
  const float scale = half(block), least = half(block + 2);
  for (int i = 0; i < kBlock / 2; ++i) {
    to[i] = scale * static_cast<float>(block[4 + i] & 15) + least;
    to[i + kBlock / 2] = scale * static_cast<float>(block[4 + i] >> 4) + least;
  }
}

struct GroupScale {
  float scale;
  float minimum;
};

// Eight scales and minima of 6 bits: those of the first four groups in the lower bits of eight bytes, whose upper bits
// are the upper ones of the other four, the lower ones of which share four bytes.
GroupScale group_scale(Bytes scales, int group) {
  if (group < 4) return {static_cast<float>(scales[group] & 63), static_cast<float>(scales[group + 4] & 63)};
  const std::uint8_t low = scales[group + 4];
  return {static_cast<float>((low & 15) | (scales[group - 4] >> 6) << 4),
          static_cast<float>((low >> 4) | (scales[group] >> 6) << 4)};
}

// Groups of 32: d * scale * q - dmin * minimum. `high`: a fifth bit of each q, or nullptr.
void widen_groups(Bytes block, Bytes high, Bytes low, float* to) {
  const float scale = half(block), minimum = half(block + 2);
  for (int group = 0; group < kSuper / kBlock; ++group) {
    const GroupScale of = group_scale(block + 4, group);
    const float step = scale * of.scale, below = minimum * of.minimum;
    for (int i = 0; i < kBlock; ++i) {
      const int four = low[group / 2 * kBlock + i] >> group % 2 * 4 & 15;
      const int fifth = high == nullptr ? 0 : (high[i] >> group & 1) << 4;
      *to++ = step * static_cast<float>(four | fifth) - below;
    }
  }
}

void widen_q4_k(Bytes block, float* to) { widen_groups(block, nullptr, block + 4 + kScales, to); }

void widen_q5_k(Bytes block, float* to) {
  const Bytes high = block + 4 + kScales;
  widen_groups(block, high, high + kBlock, to);
}

// Groups of 16: d * scale * (q - 32). Lower 4 bits of all, upper 2 bits of all, 16 scales, d.
void widen_q6_k(Bytes block, float* to) {
  const Bytes low = block, high = block + kSuper / 2, scales = high + kSuper / 4;
  const float scale = half(scales + kSuper / 16);
  for (int i = 0; i < kSuper; ++i) {
    const int part = i / 128, row = i % 128 / 32, column = i % 32;
    const int four = low[part * 64 + row % 2 * 32 + column] >> row / 2 * 4 & 15;
    const int two = high[part * 32 + column] >> row * 2 & 3;
    to[i] = scale * static_cast<float>(signed_byte(scales[i / 16])) * static_cast<float>((four | two << 4) - 32);
  }
}

struct Widened {
  GgufType type;
  GgufBlock block;
  void (*widen)(Bytes block, float* to);  // nullptr: nothing to widen
};
constexpr std::array<Widened, 9> kBlockTypes = {{{GgufType::f32, {1, 4}, nullptr},
                                                 {GgufType::f16, {1, 2}, nullptr},
                                                 {GgufType::bf16, {1, 2}, nullptr},
                                                 {GgufType::q8_0, {kBlock, 34}, widen_q8_0},
                                                 {GgufType::q4_0, {kBlock, 18}, widen_q4_0},
                                                 {GgufType::q4_1, {kBlock, 20}, widen_q4_1},
                                                 {GgufType::q4_k, {kSuper, 144}, widen_q4_k},
                                                 {GgufType::q5_k, {kSuper, 176}, widen_q5_k},
                                                 {GgufType::q6_k, {kSuper, 210}, widen_q6_k}}};

Widened row_of(GgufType type) {
  const auto found = std::ranges::find(kBlockTypes, type, &Widened::type);
  return found == kBlockTypes.end() ? Widened{type, {0, 0}, nullptr} : *found;
}

}  // namespace

GgufBlock block_of(GgufType type) { return row_of(type).block; }

void widen_blocks(GgufType type, std::string_view blocks, float* to) {
  const auto [of, block, widen] = row_of(type);
  StopTurns turns;
  for (; blocks.size() >= block.bytes; blocks.remove_prefix(block.bytes), to += block.elements) {
    turns.next();
    widen(reinterpret_cast<Bytes>(blocks.data()), to);
  }
}

bool add_minima(std::string_view blocks, std::string& to) {
  const std::size_t bytes = block_of(GgufType::q4_0).bytes;
  for (; blocks.size() >= bytes; blocks.remove_prefix(bytes)) {
    const float least = -8 * half(reinterpret_cast<Bytes>(blocks.data()));
    const Float16 rounded(least);
    if (static_cast<float>(rounded) != least) return false;
    to.append(blocks.substr(0, sizeof rounded.bits));
    to.append(reinterpret_cast<const char*>(&rounded.bits), sizeof rounded.bits);
    to.append(blocks.substr(sizeof rounded.bits, bytes - sizeof rounded.bits));
  }
  return true;
}

}  // namespace qkv::io
