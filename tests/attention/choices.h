// Where random tests take their decisions from, and the numbers that faults hide behind: zeros of both signs, equal
// ones, subnormal ones, infinities.
#pragma once

#include <span>

#include "attention/attention_testing.h"

namespace qkv::testing {

// A seed, or bytes that somebody else chose.
class Choices {
 public:
  explicit Choices(std::uint64_t seed) : random_(seed) {}
  explicit Choices(std::span<const std::uint8_t> bytes) : random_(bytes.size()), bytes_(bytes), drawn_(false) {}

  // Uniform in [0, bound); 0 when no bytes are left.
  std::uint64_t below(std::uint64_t bound) {
    if (drawn_) return random_.below(bound);
    return bytes_.size() < 2 ? 0 : next() % bound;
  }
  // False when no bytes are left.
  bool chance(double probability) {
    if (drawn_) return random_.uniform() < probability;
    return bytes_.size() >= 2 && static_cast<double>(next()) < 65536 * probability;
  }
  template <class T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(choices.size())];
  }
  // For numbers that decide nothing.
  Random& random() { return random_; }

 private:
  std::uint64_t next() {
    const std::uint64_t value = bytes_[0] + std::uint64_t{256} * bytes_[1];
    bytes_ = bytes_.subspan(2);
    return value;
  }

  Random random_;
  std::span<const std::uint8_t> bytes_{};
  bool drawn_ = true;  // from the seed
};

// Some of the elements become one of these numbers, or what stands before them.
inline void sprinkle(Random& random, Tensor& tensor, double share, const std::vector<double>& numbers) {
  Tensor wide = convert(tensor, Dtype::f64);
  double* element = wide.data<double>();
  for (std::int64_t i = 0; i < wide.element_count(); ++i) {
    if (random.uniform() >= share) continue;
    const std::uint64_t index = random.below(numbers.size() + 1);
    element[i] = index < numbers.size() ? numbers[index] : element[i == 0 ? 0 : i - 1];
  }
  tensor = convert(wide, tensor.dtype());
}

// Normal numbers; now and then those that chance alone never draws.
inline Tensor draw_numbers(Choices& choices, const Dims& shape, Dtype dtype, double spread = 1) {
  Random& random = choices.random();
  switch (choices.below(12)) {
    case 0:
      return filled(shape, choices.chance(0.5) ? 0.0 : -0.0, dtype);
    case 1:
      return filled(shape, spread * random.normal(), dtype);
    case 2:  // subnormal ones of each type
      return normal(random, shape, dtype, dtype == Dtype::f64 ? 1e-310 : dtype == Dtype::f16 ? 1e-6 : 1e-40);
    case 3: {
      Tensor tensor = normal(random, shape, dtype, spread);
      sprinkle(random, tensor, 0.4, {0.0, -0.0, spread, -spread});
      return tensor;
    }
    default:
      return normal(random, shape, dtype, spread);
  }
}

}  // namespace qkv::testing
