// What there is to know of each kind of mask, said once: its name, the numbers and arrays that it takes, which keys it
// leaves. Commands and the Python package make their options of it; the reference and the tests their rules and cases.
#pragma once

#include <cstdint>
#include <ranges>
#include <span>
#include <string>
#include <vector>

#include "qkv/attention/mask.h"

namespace qkv::inline core {

// A whole number that a kind takes.
struct MaskNumber {
  const char* name;
  std::int64_t least;  // -1: open
};

// What the elements of an array belong to: sequences [batch], their queries or keys, or pairs of these.
enum class MaskArrayOf { sequences, queries, keys, pairs };

struct MaskArray {
  const char* name;
  MaskArrayOf of;
  const char* form;  // types and shape
};

struct MaskDescription {
  MaskKind kind;
  const char* name;
  bool is_aligned;  // takes an alignment
  std::span<const MaskNumber> numbers;
  std::span<const MaskArray> arrays;
  const char* rule;  // the keys that a query at position p sees
  // The same of these numbers and of elements that all pairs share, as a sentence.
  std::string (*words)(std::span<const std::int64_t> numbers, std::span<const double> elements);
  // The same in doubles, of the elements that belong to a pair.
  bool (*sees)(std::span<const std::int64_t> numbers, std::span<const double> elements, double position, double key);
};

// In the order of MaskKind, without functions.
std::span<const MaskDescription> mask_kinds();
const MaskDescription& description_of(MaskKind kind);

inline auto parts_of(const Mask& mask, MaskKind kind) {
  return mask.parts() | std::views::filter([kind](const Mask::Part& part) { return part.kind == kind; });
}

// What causal masks, windows and chunks leave together: keys p - left <= j <= p + right, -1: open, with p - j divisible
// by step, of the chunk of p in each of these sizes.
struct MaskBounds {
  std::int64_t left = -1, right = -1, step = 1;
  std::vector<std::int64_t> chunks{};
};
MaskBounds bounds_of(const Mask& mask);

}  // namespace qkv::inline core
