// Residual: forward and backward around a sublayer, with norm and dropout.
#include "qkv/layers/residual.h"

#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "layers/basic/rows.h"

namespace qkv {
namespace {

constexpr const char* kAfter = "after.";
constexpr const char* kLayerScale = "layer_scale.weight";

// dropout of x, which is row-major [..., size].
Tensor dropped(const Dropout& dropout, const Tensor& x, int threads) {
  Tensor out = Tensor::uninitialized(x.shape(), x.dtype());
  const Dims rows{x.element_count() / x.size(-1), x.size(-1)};
  drop(dropout, x.view().reshape(rows), out.view().reshape(rows), threads);
  return out;
}

// Each row of y times `scale`.
void scale_columns(const TensorView& scale, const MutableTensorView& y) {
  const auto run = [&]<class T>(T) {
    const std::int64_t columns = scale.size(0);
    for (std::int64_t i = 0; i < y.element_count(); ++i) y.data<T>()[i] *= scale.data<T>()[i % columns];
  };
  visit_f32_f64(y.dtype(), run);
}

// gradient += the sum over rows of grad * x, in the order of the rows.
void add_scale_gradient(const Tensor& grad, const Tensor& x, Tensor& gradient) {
  const auto run = [&]<class T>(T) {
    const std::int64_t columns = gradient.element_count();
    std::vector<double> sums(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < x.element_count(); ++i) {
      sums[static_cast<std::size_t>(i % columns)] += static_cast<double>(grad.data<T>()[i]) * x.data<T>()[i];
    }
    for (std::int64_t c = 0; c < columns; ++c) gradient.data<T>()[c] += static_cast<T>(sums[c]);
  };
  visit_f32_f64(x.dtype(), run);
}

}  // namespace

Residual::Residual(const LayerNormConfig& norm, NormOrder order, Weights& weights, const std::string& scope,
                   bool layer_scale)
    : order_(order) {
  if (order != NormOrder::none) norm_.emplace(norm, weights, scope);
  if (order == NormOrder::both) after_.emplace(norm, weights, scope + kAfter);
  if (!layer_scale) return;
  refuse_unless(order == NormOrder::pre, "residual", "layer scale needs the norm before the sublayer alone (pre)");
  layer_scale_.emplace(Parameter{.value = weights.take(scope + kLayerScale, {norm.dim})});
}

void Residual::forward(Tensor& x, const Sublayer& f, int threads) const {
  const bool post = order_ == NormOrder::post;
  const MutableTensorView rows = x.view().reshape({x.element_count() / x.size(-1), x.size(-1)});
  f({x, post || !norm_ ? nullptr : &*norm_}, [&](std::int64_t first, const MutableTensorView& y) {
    const MutableTensorView to = rows.slice(0, first, first + y.size(0));
    if (post) return norm_->forward(y, to, to, threads);
    if (after_) after_->forward(y, {}, y, threads);
    if (layer_scale_) scale_columns(layer_scale_->value, y);
    add_to(to, y, threads);
  });
}

Tensor Residual::forward(const TensorView& x, const SublayerForward& f, const Dropout& dropout, ResidualSaved& saved,
                         int threads) const {
  const bool post = order_ == NormOrder::post;
  if (!post && norm_) saved.kept = norm_->forward(x, {}, threads);
  Tensor y = f(post || !norm_ ? x : saved.kept.view());
  if (after_) {
    saved.inner = std::move(y);
    y = after_->forward(saved.inner, {}, threads);
  }
  if (layer_scale_) {
    saved.inner = Tensor::copy(y);
    scale_columns(layer_scale_->value, y);
  }
  const MutableTensorView rows = y.view().reshape({y.element_count() / y.size(-1), y.size(-1)});
  drop(dropout, rows, rows, threads);
  if (post) {
    saved.kept = std::move(y);
    return norm_->add_forward(x, saved.kept, threads);
  }
  add_to(y, x, threads);
  return y;
}

void Residual::backward(const TensorView& x, const SublayerBackward& f, const Dropout& dropout,
                        const ResidualSaved& saved, const TensorView& grad_out, Tensor& grad_x, int threads) {
  if (order_ == NormOrder::post) {
    Tensor grad_sum = Tensor::zeros(x.shape(), x.dtype());
    norm_->backward(saved.kept, grad_out, grad_sum, threads);
    add_to(grad_x, grad_sum, threads);
    f(x, dropout.p > 0 ? dropped(dropout, grad_sum, threads) : std::move(grad_sum), grad_x);
    return;
  }
  const Tensor grad_y = Tensor::copy(grad_out);
  add_to(grad_x, grad_y, threads);
  Tensor grad_f = dropped(dropout, grad_y, threads);
  if (after_) {
    Tensor grad_inner = Tensor::zeros(x.shape(), x.dtype());
    after_->backward(saved.inner, grad_f, grad_inner, threads);
    grad_f = std::move(grad_inner);
  }
  if (layer_scale_) {
    if (layer_scale_->has_gradient()) add_scale_gradient(grad_f, saved.inner, layer_scale_->gradient);
    scale_columns(layer_scale_->value, grad_f);
  }
  if (!norm_) return f(x, grad_f, grad_x);
  Tensor grad_input = Tensor::zeros(x.shape(), x.dtype());
  f(saved.kept, grad_f, grad_input);
  norm_->backward(x, grad_input, grad_x, threads);
}

void Residual::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  walk(norm_, scope);
  walk(after_, scope + kAfter);
  walk(layer_scale_, scope + kLayerScale);
}

}  // namespace qkv
