/// \file
/// Tensors by name on their way into layers. A layer takes the tensors it needs, each once and with its shape checked;
/// tensors left in the end are unexpected. Names follow PyTorch's state dict.
///
///     Weights weights(read_safetensors(path).tensors, path);
///     Linear linear({.in = 512, .out = 64}, weights, "encoder.proj.");   // takes encoder.proj.weight and ...bias
///     weights.expect_empty();
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "qkv/api.h"
#include "qkv/attention/precision.h"
#include "qkv/matmul.h"
#include "qkv/tensor.h"

namespace qkv {

/// Packed matrices that outlive a process: where layers look before they pack a matrix [rows, columns], and what they
/// leave there otherwise.
class QKV_API PanelStore {
 public:
  virtual ~PanelStore() = default;
  virtual std::optional<PackedMatrix> find(const std::string& name, std::int64_t rows, std::int64_t columns,
                                           WeightStorage storage) const = 0;
  virtual void keep(const std::string& name, const PackedMatrix& matrix) = 0;
};

class QKV_API Weights {
 public:
  /// `origin` begins every message. Tensors are handed out in `dtype`, f32 or f64; layers keep the matrices they
  /// multiply by as `storage` says (matmul.h).
  explicit Weights(std::map<std::string, Tensor> tensors, std::string origin = "weights", Dtype dtype = Dtype::f32,
                   WeightStorage storage = WeightStorage::full);

  /// Every tensor there is, made when it is taken: `draw` gives it in any floating type; in q8 and q4 storage, which
  /// only such weights have, a matrix [n, k] may be u8, its blocks.
  using Draw = std::function<Tensor(const std::string& name, const Dims& shape)>;
  Weights(Draw draw, Dtype dtype, WeightStorage storage = WeightStorage::full);

  /// Whether the numbers of a tensor that is drawn are bf16, so that rounding to it leaves them as they are.
  void set_bf16(std::function<bool(const std::string& name)> is_bf16) { is_bf16_ = std::move(is_bf16); }
  bool is_bf16(const std::string& name) const { return is_bf16_ && is_bf16_(name); }

  bool contains(const std::string& name) const { return tensors_.contains(name); }
  /// Hands a tensor over. FormatError if it is missing, has another shape or is not of a floating type.
  Tensor take(const std::string& name, const Dims& shape);
  /// The same as PackedParameter keeps it: in q8 and q4 storage a matrix may be u8, its blocks (matmul.h).
  Tensor take_stored(const std::string& name, const Dims& shape);
  /// A tensor that goes before one of this name, if there is any.
  void add(const std::string& name, Tensor tensor) { tensors_[name] = std::move(tensor); }
  /// Drops a tensor that is not needed, if it exists.
  void ignore(const std::string& name) { tensors_.erase(name); }
  /// FormatError, naming some, if tensors are left.
  void expect_empty() const;

  /// Where packed() looks; not given: nowhere.
  void set_panels(std::shared_ptr<PanelStore> panels) { panels_ = std::move(panels); }
  /// The packed matrix [rows, columns] stored under this name, else the result of `pack`.
  PackedMatrix packed(const std::string& name, std::int64_t rows, std::int64_t columns, WeightStorage storage,
                      const std::function<PackedMatrix()>& pack);

  Dtype dtype() const { return dtype_; }
  WeightStorage storage() const { return storage_; }

 private:
  std::map<std::string, Tensor> tensors_;
  Draw draw_;  ///< empty: only tensors_
  std::function<bool(const std::string& name)> is_bf16_;
  std::shared_ptr<PanelStore> panels_;
  std::string origin_;
  Dtype dtype_;
  WeightStorage storage_ = WeightStorage::full;
};

/// How a model that computes in this precision keeps its matrices. std::invalid_argument for reduced and reduced_pairs
/// with int8, which rounds in its own way.
QKV_API WeightStorage with_precision(WeightStorage storage, Precision precision);

/// The precision of products with matrices that are kept so.
QKV_API Precision precision_of(WeightStorage storage);

}  // namespace qkv
