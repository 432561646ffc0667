// Draws the weights that a training starts from.
#include "qkv/layers/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "qkv/random.h"

namespace qkv {
namespace {

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

// FNV-1a: what sets the tensors' random numbers apart.
std::uint64_t hash(const std::string& name) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char c : name) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return value;
}

Tensor uniform(Random& random, const Dims& shape, double bound) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  std::generate_n(tensor.data<double>(), tensor.element_count(), [&] { return bound * (2 * random.uniform() - 1); });
  return tensor;
}

Tensor normal(Random& random, const Dims& shape, double deviation) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  std::generate_n(tensor.data<double>(), tensor.element_count(), [&] { return deviation * random.normal(); });
  return tensor;
}

Tensor constant(const Dims& shape, double value) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  std::fill_n(tensor.data<double>(), tensor.element_count(), value);
  return tensor;
}

}  // namespace

Weights initial_weights(std::uint64_t seed, Dtype dtype, WeightStorage storage) {
  // A bias is drawn by the matrix or the filters that were taken before it.
  struct Before {
    std::int64_t inputs = 1;
    bool filters = false;
  };
  auto before = std::make_shared<Before>();
  const auto draw = [seed, before](const std::string& name, const Dims& shape) {
    Random random(seed ^ hash(name));
    const std::int64_t last = shape[shape.size() - 1];
    if (shape.size() == 1) {
      const bool of_filters = std::exchange(before->filters, false) && name.ends_with("bias");
      // A vector of weights is a norm's, whatever its scope is called: "bn1.weight".
      if (name.ends_with("weight") || name.ends_with("running_var")) return constant(shape, 1);
      if (has(name, "norm")) return constant(shape, 0);
      const bool drawn = of_filters || has(name, "linear1.bias") || has(name, "linear2.bias");
      return drawn ? uniform(random, shape, 1 / std::sqrt(static_cast<double>(before->inputs))) : constant(shape, 0);
    }
    *before = {.inputs = last};
    const double deviation = 1 / std::sqrt(static_cast<double>(last));
    if (has(name, "embed") || has(name, "shared.")) return normal(random, shape, deviation);
    if (has(name, "bias_k") || has(name, "bias_v")) return normal(random, shape, deviation);
    const bool of_heads = has(name, "query.") || has(name, "key.") || has(name, "value.");
    if (shape.size() > 2 && !of_heads) {
      *before = {.inputs = element_count(shape) / shape[0], .filters = true};
      return uniform(random, shape, 1 / std::sqrt(static_cast<double>(before->inputs)));
    }
    // Matrices of several heads are one, head below head.
    const std::int64_t outputs = element_count(shape) / last;
    return uniform(random, shape, std::sqrt(6.0 / static_cast<double>(last + outputs)));
  };
  return Weights(draw, dtype, storage);
}

}  // namespace qkv
