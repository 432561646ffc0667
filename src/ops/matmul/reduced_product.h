// Products of reduced precision: rows that are rounded once for several of them, and results that are rounded for the
// next one without being there in f32.
#pragma once

#include <cstdint>
#include <functional>

#include "ops/matmul/reduced_rows.h"
#include "qkv/matmul.h"

namespace qkv::inline ops {

// Rows that pass through several products together: tiles read weights in the time that fewer take.
inline constexpr std::int64_t kReducedBlockRows = 256;

// Rows of a left operand, rounded, as the selected target takes them.
class RoundedRows {
 public:
  RoundedRows(std::int64_t rows, std::int64_t depth, WeightStorage storage);    // anything, to be filled
  RoundedRows(const TensorView& rows, WeightStorage storage, int threads = 0);  // f32 [n, depth], last stride 1

  const ReducedForm& form() const { return form_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t depth() const { return depth_; }
  std::int64_t words() const { return form_.words(depth_); }  // floats that hold a row
  // `row`: a multiple of the row unit.
  const float* row(std::int64_t row) const { return data_.data<float>() + row * words(); }
  float* row(std::int64_t row) { return data_.data<float>() + row * words(); }

 private:
  ReducedForm form_;
  std::int64_t rows_, depth_;
  Tensor data_;
};

// As matmul().
void matmul(const RoundedRows& a, const PackedMatrix& b, const MutableTensorView& out,
            const MatmulOptions& options = {});
void matmul_reduced(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                    const MatmulOptions& options);
// As matmul_transposed() with a [k, m] as rows.
void matmul_transposed_reduced(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                               const MatmulOptions& options);

// The right operand of x W^T + b, and b, which need not be given.
struct AffineOperands {
  const PackedMatrix& weight;
  TensorView bias{};
};

// What `finish` makes of so many elements of x W^T + b, in place, beside those of the gate if there is one.
using FinishElements = std::function<void(float* product, const float* gate, std::int64_t count)>;

// finish(x W^T + b), rounded.
RoundedRows rounded_product(const RoundedRows& x, const AffineOperands& wide, const AffineOperands* gate,
                            const FinishElements& finish, int threads);

}  // namespace qkv::inline ops
