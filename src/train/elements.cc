// Computes the norm of all gradients, in a fixed order.

#include "train/elements.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "core/visit_dtype.h"

namespace qkv::training {
namespace {

double sum_of_squares(const Tensor& tensor) {
  const auto run = [&]<class T>(T) {
    const T* data = tensor.data<T>();
    const std::int64_t count = tensor.element_count();
    std::vector<double> sums(static_cast<std::size_t>(block_count(count)));
    for_each_block(count, [&](std::int64_t begin, std::int64_t end, std::int64_t block) {
      double sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += double{data[i]} * double{data[i]};
      sums[static_cast<std::size_t>(block)] = sum;
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  };
  return visit_f32_f64(tensor.dtype(), run);
}

}  // namespace

double gradient_norm(const Trainable& model) {
  double sum = 0;
  model.visit([&](const std::string&, const Parameter& parameter) {
    if (parameter.has_gradient()) sum += sum_of_squares(parameter.gradient);
  });
  return std::sqrt(sum);
}

}  // namespace qkv::training
