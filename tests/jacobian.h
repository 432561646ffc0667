// Gradients by finite differences, for every layer that has a backward pass.
#pragma once

#include "qkv/layers/parameter.h"
#include "qkv/tensor.h"

namespace qkv::testing {

// The gradient of `f`, a scalar that depends on the elements of `x` (f64), by central differences. `f` takes no
// argument: it reads x, whose elements are moved one by one and put back.
// The error is about step^2 / 6 times the third derivative, plus 1e-16 * |f| / step: near 1e-10 for values near 1.
inline Tensor numeric_gradient(const std::function<double()>& f, Tensor& x, double step = 1e-5) {
  Tensor gradient = Tensor::zeros(x.shape(), Dtype::f64);
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    double& element = x.data<double>()[i];
    const double centre = element;
    const double above = centre + step, below = centre - step;
    element = above;
    const double f_above = f();
    element = below;
    gradient.data<double>()[i] = (f_above - f()) / (above - below);
    element = centre;
  }
  return gradient;
}

// Compares `given`, row-major with as many elements as x, with numeric_gradient(f, x).
inline void expect_gradient(const std::function<double()>& f, Tensor& x, const Tensor& given, double tolerance = 1e-8) {
  const Tensor wanted = numeric_gradient(f, x);
  ASSERT_EQ(given.element_count(), wanted.element_count());
  for (std::int64_t i = 0; i < wanted.element_count(); ++i) {
    const double exact = wanted.data<double>()[i];
    ASSERT_NEAR(given.data<double>()[i], exact, tolerance * std::max(1.0, std::abs(exact))) << "element " << i;
  }
}

// Compares the gradients that backward has left in all parameters of an f64 layer with differences of loss(), which
// reads the layer.
template <class Layer>
void expect_parameter_gradients(Layer& layer, const std::function<double()>& loss, double tolerance = 1e-8) {
  std::map<std::string, Parameter> given;
  layer.visit([&](const std::string& name, const Parameter& own) { given[name] = own; });
  for (auto& [wanted, parameter] : given) {
    SCOPED_TRACE(wanted);
    Tensor value = parameter.value;
    const auto with_value = [&] {
      layer.update([&](const std::string& name, Parameter& own) {
        if (name == wanted) own.value = value;
      });
      return loss();
    };
    expect_gradient(with_value, value, parameter.gradient, tolerance);
    with_value();
  }
}

// A layer without those of its parameters that have no gradient: statistics, and what nobody wants.
template <class Layer>
struct Trained {
  Layer& layer;

  void visit(const ParameterVisitor& visitor) const {
    layer.visit([&](const std::string& name, const Parameter& own) {
      if (own.has_gradient()) visitor(name, own);
    });
  }
  void update(const ParameterUpdater& updater) { layer.update(updater); }
};

// sum of a * b, f64.
inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.element_count(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

// Makes every gradient wanted.
template <class Layer>
void want_gradients(Layer& layer) {
  layer.update([](const std::string&, Parameter& own) { own.want_gradient(); });
}

}  // namespace qkv::testing
