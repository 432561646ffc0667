// Products with some columns of a packed matrix, and of the columns of rows.
#pragma once

#include <cstdint>

#include "qkv/matmul.h"

namespace qkv::inline ops {

// Where columns may begin: at multiples of this. Of a matrix in fewer bits at 0 alone.
std::int64_t column_step(const PackedMatrix& b);

// matmul() with the columns of b from `first` on, as many as out has; the bias is theirs. The same bits. All of them,
// or in full storage those from a multiple of column_step() on: std::invalid_argument otherwise.
void matmul_columns(const TensorView& a, const PackedMatrix& b, std::int64_t first, const MutableTensorView& out,
                    const MatmulOptions& options = {});

// matmul_transposed() of a [k, m] as rows, whose last stride is 1: packed for this call, or for reduced precision
// rounded on the way. The same bits.
void matmul_transposed_rows(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                            const MatmulOptions& options = {});

}  // namespace qkv::inline ops
