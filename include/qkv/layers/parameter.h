/// \file
/// What a layer learns: values, and gradients where training wants them. Every layer lists each of its parameters once,
/// in a fixed order, under PyTorch's names; optimisers, clipping, checkpoints and averages all go through that list.
///
///     layer.update([](const std::string&, Parameter& p) { p.want_gradient(); });      // once, before training
///     layer.backward(...);                                                            // adds to the gradients
///     layer.update([&](const std::string& name, Parameter& p) { adam.step(name, p); });
///     layer.visit([&](const std::string& name, const Parameter& p) { tensors[name] = p.value; }, "encoder.");
///
/// visit() reads, and what it passes may be made for the call: copy what must outlast it. update() may write values and
/// gradients, of unchanged shape and type; when it returns, layers repack what they had packed from its values. No
/// other call may run on the layer meanwhile.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "qkv/api.h"
#include "qkv/matmul.h"
#include "qkv/tensor.h"

namespace qkv {

struct Parameter {
  Tensor value{};
  Tensor gradient{};  ///< what backward adds to, of value's shape and type; no elements: not wanted, costs nothing
  WeightStorage storage = WeightStorage::full;  ///< of the matrix in products
  Tensor units{};  ///< of int8 and int8_groups: of each column and group, which value rounds

  bool has_gradient() const { return gradient.element_count() > 0; }
  /// Makes the gradient zero, and wanted.
  void want_gradient() { gradient = Tensor::zeros(value.shape(), value.dtype()); }
};

/// `name` is the scope given and the name in it.
using ParameterVisitor = std::function<void(const std::string& name, const Parameter& parameter)>;
using ParameterUpdater = std::function<void(const std::string& name, Parameter& parameter)>;

/// What a walk over the parameters does at each of them: one of the two is given.
struct ParameterWalk {
  const ParameterVisitor* visitor = nullptr;
  const ParameterUpdater* updater = nullptr;

  void operator()(Parameter& own, const std::string& name) const {
    updater ? (*updater)(name, own) : (*visitor)(name, own);
  }
  /// A part with parameters of its own.
  template <class Part>
  void operator()(Part& part, const std::string& scope) const {
    updater ? part.update(*updater, scope) : std::as_const(part).visit(*visitor, scope);
  }
  template <class Part>
  void operator()(std::optional<Part>& part, const std::string& scope) const {
    if (part) (*this)(*part, scope);
  }
};

/// What has parameters: a layer, or a model.
class QKV_API Parameterized {
 public:
  virtual ~Parameterized() = default;
  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const {
    const_cast<Parameterized&>(*this).walk_parameters({.visitor = &visitor}, scope);  // which changes nothing
  }
  void update(const ParameterUpdater& updater, const std::string& scope = "") {
    walk_parameters({.updater = &updater}, scope);
  }

 private:
  /// Calls `walk` with each parameter and part, in order; changes them in an update alone.
  virtual void walk_parameters(const ParameterWalk& walk, const std::string& scope) = 0;
};

}  // namespace qkv
