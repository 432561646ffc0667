// How operands of products of WeightStorage::reduced lie on the selected target.
#pragma once

#include <cmath>
#include <cstdint>

#include "qkv/dtype.h"

namespace qkv::inline ops {

// Whether tiles multiply: operands are words of two neighbours then. Else they are floats, or bf16 to be widened.
bool reduced_by_tiles();

// Columns of a panel, and steps of the depth that lie together in it.
int reduced_columns();
inline int reduced_group() { return reduced_by_tiles() ? 2 : 1; }

// What a depth is filled up to by zeros.
std::int64_t reduced_depth(std::int64_t depth);

// Of a left operand: floats that hold a row, and rows, the last ones being anything.
std::int64_t reduced_words(std::int64_t depth);
std::int64_t reduced_rows(std::int64_t rows);

// A number as a factor of these products.
inline BFloat16 reduced_factor(float x) { return BFloat16(std::abs(x) < 0x1p-126f ? 0.0f : x); }

// A row of `depth` elements, rounded to bf16, as it is multiplied.
void round_row(const float* x, std::int64_t depth, float* to);

}  // namespace qkv::inline ops
