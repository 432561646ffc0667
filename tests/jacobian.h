// Gradients by finite differences, for every layer that has a backward pass.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

}  // namespace qkv::testing
