/// \file
/// Matrix products of layers, on the attention kernel's tile. The sum over k has one fixed order, so that a row of the
/// result has the same bits for any number of other rows and threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "qkv/api.h"
#include "qkv/tensor.h"

namespace qkv {

/// Storage of the numbers of a packed matrix.
enum class WeightStorage {
  full,  ///< as they are
  bf16,  ///< rounded to the nearest; products and sums in f32
  /// Whole numbers from -127 to 127 in units of each column's max|b| / 127. A product rounds the rows of `a` in the
  /// same way and sums whole numbers: the result has the same bits on every target. k at most 65,536.
  int8,
  /// Whole numbers in groups of 32 along k, each with units of its own: of a column of b -64 to 64, in the unit near
  /// max|b| / 64 that errs least; of a row of `a` 0 to 255, in units of (max(a, 0) - min(a, 0)) / 255 from the minimum
  /// on. Groups are summed in f32, in their order: the same bits on every target.
  int8_groups,
  /// bf16, to which a product rounds the rows of `a`, too: Precision::reduced (attention/precision.h), whose sums have
  /// the same bits on every target with fused multiply-add.
  reduced,
  /// The same in the sums of VDPBF16PS, Precision::reduced_pairs: of the target "avx512-bf16" alone, with bits of its
  /// own. Neighbours 2i and 2i + 1 along k are one step, the latter's product first, each added with one rounding;
  /// 512 steps are a sum, and sums are added up in order. Subnormal factors and sums are 0.
  reduced_pairs,
  /// The blocks of a GGUF file, 32 numbers along k, as the file has them (PackedMatrix::of_blocks): Q8_0, whole numbers
  /// of 8 bits times a scale; Q4_1, of 4 bits times a scale plus a minimum, which Q4_0 is, too. Products and sums in
  /// f32, bit for bit as with the widened numbers in full storage.
  q8,
  q4,
};

/// Bytes of a block of 32 numbers: q8 has an f16 scale and 32 numbers; q4 an f16 scale, an f16 minimum and 16 bytes,
/// number i in the lower half of byte i, number 16 + i in the upper one. 0 of other storages.
constexpr std::int64_t block_bytes(WeightStorage storage) {
  return storage == WeightStorage::q8 ? 34 : storage == WeightStorage::q4 ? 20 : 0;
}

/// As options name them: a word means one storage everywhere.
inline constexpr std::pair<std::string_view, WeightStorage> kWeightStorages[] = {
    {"f32", WeightStorage::full},  {"bf16", WeightStorage::bf16},
    {"int8", WeightStorage::int8}, {"int8_groups", WeightStorage::int8_groups},
    {"q8", WeightStorage::q8},     {"q4", WeightStorage::q4}};

/// The right operand of a product, laid out once for the selected target: columns in panels, zero-padded. Copies share
/// the panels, which never change.
class QKV_API PackedMatrix {
 public:
  PackedMatrix() = default;
  /// Packs [k, n] with any strides, f32 or f64 (only f32 for fewer bits). For a Linear weight [out, in] pass
  /// weight.transpose(0, 1). `threads` as in MatmulOptions.
  explicit PackedMatrix(const TensorView& matrix, int threads = 0, WeightStorage storage = WeightStorage::full);

  /// Wraps bytes() of a matrix with these rows, columns, storage and panel_group() on the same target: borrowed, not
  /// copied, while `owner` lives. std::invalid_argument unless size and alignment to 64 are right.
  PackedMatrix(std::int64_t rows, std::int64_t columns, WeightStorage storage, std::span<const std::byte> bytes,
               std::shared_ptr<const void> owner);

  /// Packs the blocks of [n, k]: u8 [n, k / 32 * block_bytes(storage)], in q8 or q4.
  static PackedMatrix of_blocks(const TensorView& blocks, WeightStorage storage, int threads = 0);

  std::int64_t rows() const { return rows_; }        // k
  std::int64_t columns() const { return columns_; }  // n
  Dtype dtype() const { return dtype_; }             // of a and out
  WeightStorage storage() const { return storage_; }
  /// Columns from `first` on into [k, n'] with any strides, of dtype(): as packed, bit for bit, or as rounded to fewer
  /// bits.
  void unpack(const MutableTensorView& columns, std::int64_t first = 0, int threads = 0) const;

  const TensorView& panels() const { return data_; }
  /// [panel][k / group][column][group]
  int panel_columns() const { return panel_columns_; }
  int panel_group() const { return panel_group_; }
  /// int8: f32 [n], and i32 [n] of the whole numbers' sums. int8_groups: both [panel][k / 32][column]. q8: f16
  /// [panel][k / 32][column], q4: [panel][k / 32][scale, minimum][column], and its panels [k / 8][column][4] bytes,
  /// each of rows 2i and 2i + 1.
  const TensorView& column_scales() const { return column_scales_; }
  const TensorView& column_sums() const { return column_sums_; }
  /// All of them, one behind the other, each from a multiple of 64 bytes on.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  PackedMatrix(std::int64_t rows, std::int64_t columns, Dtype dtype, WeightStorage storage);
  std::size_t lay_out(const std::byte* bytes);
  std::byte* allocate(bool zeros = true);
  void pack_reduced(const TensorView& matrix, int threads);
  void pack_int8(const TensorView& matrix, int threads);
  void pack_int8_groups(const TensorView& matrix, int threads);
  void pack_blocks(const TensorView& blocks, int threads);
  void unpack_blocks(const MutableTensorView& to, std::int64_t column) const;

  std::shared_ptr<const void> owner_;  // of bytes_, into which the views go; copies share it
  std::span<const std::byte> bytes_;
  TensorView data_, column_scales_, column_sums_;
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  Dtype dtype_ = Dtype::f32;
  WeightStorage storage_ = WeightStorage::full;
  int panel_columns_ = 0;
  int panel_group_ = 1;
};

struct MatmulOptions {
  TensorView bias = {};     ///< [n], added to every row; not given: nothing
  bool accumulate = false;  ///< add to what out holds
  int threads = 0;          ///< 0: threads()
};

/// out [m, n] = a [m, k] b [k, n] (+ bias). a has any row stride and a unit last one; out likewise.
/// std::invalid_argument if shapes, types or the target of the packing do not fit.
QKV_API void matmul(const TensorView& a, const PackedMatrix& b, const MutableTensorView& out,
                    const MatmulOptions& options = {});

/// out [m, n] = a^T b with a [k, m] and b [k, n]: the gradient of a Linear weight from the gradient of its outputs, a,
/// and its inputs, b. `a` is in full storage; b too, or reduced or reduced_pairs: `a` is then rounded, too. No bias.
/// std::invalid_argument as above.
QKV_API void matmul_transposed(const PackedMatrix& a, const PackedMatrix& b, const MutableTensorView& out,
                               const MatmulOptions& options = {});

/// Packs b for this call.
QKV_API void matmul(const TensorView& a, const TensorView& b, const MutableTensorView& out,
                    const MatmulOptions& options = {});

}  // namespace qkv
