// What the tests of attention share: seeded tensors, every usable CPU target in turn, all extras of one call, and
// comparisons that treat NaN and infinity as values.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "qkv/attention.h"
#include "qkv/random.h"
#include "qkv/target.h"

namespace qkv::testing {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A test that runs once on each target that this machine can run.
class OnEachTarget : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { select_target(GetParam()); }
  void TearDown() override { select_target(""); }
};

inline std::vector<std::string> usable_targets() {
  std::vector<std::string> names;
  for (const Target& target : targets()) {
    if (target.usable) names.push_back(target.name);
  }
  return names;
}

inline bool has_target(const std::string& name) {
  const std::vector<std::string> names = usable_targets();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What the test framework takes as the name of a parameter.
inline std::string test_name_of_target(const ::testing::TestParamInfo<std::string>& target) {
  std::string name = target.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

#define QKV_ON_EACH_TARGET(Suite)                                                                \
  using Suite = ::qkv::testing::OnEachTarget;                                                    \
  INSTANTIATE_TEST_SUITE_P(Target, Suite, ::testing::ValuesIn(::qkv::testing::usable_targets()), \
                           ::qkv::testing::test_name_of_target)

// Of a tensor of f64.
inline std::span<double> elements(Tensor& tensor) {
  return {tensor.data<double>(), static_cast<std::size_t>(tensor.element_count())};
}

inline Tensor normal(Random& random, const Dims& shape, Dtype dtype = Dtype::f32, double spread = 1) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  for (double& element : elements(tensor)) element = spread * random.normal();
  return convert(tensor, dtype);
}

inline Tensor filled(const Dims& shape, double value, Dtype dtype = Dtype::f32) {
  Tensor tensor = Tensor::uninitialized(shape, dtype);
  if (dtype == Dtype::f32) {
    std::fill_n(tensor.data<float>(), tensor.element_count(), static_cast<float>(value));
  } else {
    convert(Tensor::of<double>({}, {value}).view().broadcast_to(shape), tensor);
  }
  return tensor;
}

// True with the given probability.
inline Tensor coin_flips(Random& random, const Dims& shape, double probability, Dtype dtype = Dtype::boolean) {
  Tensor tensor = Tensor::uninitialized(shape, Dtype::f64);
  for (double& element : elements(tensor)) element = random.uniform() < probability ? 1 : 0;
  return convert(tensor, dtype);
}

// Every element of a mask [..., rows, columns] becomes that of the corner of its square.
inline void repeat_in_squares(Tensor& mask, std::int64_t side) {
  const std::int64_t rows = mask.size(-2), columns = mask.size(-1);
  std::byte* bytes = mask.view().bytes();
  for (std::int64_t at = 0; at < mask.element_count(); ++at) {
    const std::int64_t i = at / columns % rows, j = at % columns;
    bytes[at] = bytes[at - i % side * columns - j % side];
  }
}

inline std::vector<double> values(const TensorView& view) {
  const Tensor copy = convert(view, Dtype::f64);
  return {copy.data<double>(), copy.data<double>() + copy.element_count()};
}

inline void expect_zeros(const TensorView& view) {
  for (const double value : values(view)) ASSERT_EQ(value, 0);
}

// Arrays that views borrow, for as long as any copy of this lives.
class Kept {
 public:
  MutableTensorView keep(Tensor tensor) {
    kept_.push_back(std::make_shared<Tensor>(std::move(tensor)));
    return kept_.back()->view();
  }

 private:
  std::vector<std::shared_ptr<Tensor>> kept_;
};

// A place with the first dimensions exchanged in memory, some of them backwards, and beside NaN.
inline MutableTensorView scattered(Kept& kept, const Dims& shape, Dtype dtype, Random& random, bool backwards) {
  Dims memory = shape;
  const int last = shape.size() - 1;
  const auto other = last > 1 ? static_cast<int>(random.below(static_cast<std::uint64_t>(last))) : 0;
  if (last >= 0) memory[last] += 3;
  if (last > 1) std::swap(memory[0], memory[other]);
  const double beside = is_floating(dtype) ? kNan : 1;
  MutableTensorView view = kept.keep(filled(memory, beside, dtype));
  if (last >= 0) view = view.slice(last, 3, memory[last]);
  if (last > 1) view = view.transpose(0, other);
  if (!backwards || view.element_count() == 0) return view;
  Dims strides = view.strides(), corner;
  for (int dim = 0; dim <= last; ++dim) {
    const bool turns = dim < last && random.below(2) == 0;
    corner.push_back(turns ? shape[dim] - 1 : 0);
    if (turns) strides[dim] = -strides[dim];
  }
  std::byte* first = view.bytes() + view.offset_of(corner) * static_cast<std::int64_t>(size_of(dtype));
  return {first, dtype, shape, strides};
}

// Sets an element of a tensor of any floating type.
inline void put(Tensor& tensor, const Dims& index, double value) {
  Tensor wide = convert(tensor, Dtype::f64);
  wide.view().at<double>(index) = value;
  tensor = convert(wide, tensor.dtype());
}

// What is said of a call that is refused; nothing, if it is not.
inline std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

inline void expect_refused(const std::string& part_of_message, const std::function<void()>& call) {
  const std::string message = refusal(call);
  EXPECT_NE(message.find(part_of_message), std::string::npos) << message << "\n  wanted: " << part_of_message;
}

inline double largest(const TensorView& view) {
  double maximum = 0;
  for (const double value : values(view)) maximum = std::isfinite(value) ? std::max(maximum, std::abs(value)) : maximum;
  return maximum;
}

// What a chain of equal additions may lose of its mean in f32, as a part of the summand. Between 2^(e-1) and 2^e each
// of them rounds the same way, by up to 2^(e-25): n / 3 times 2^-24 in all. A chunk of 1,024 keys is one chain; for a
// gradient of a key all queries of all heads are.
inline double chain_error(const TensorView& summands, std::int64_t count) {
  std::vector<double> all = values(summands);
  std::erase_if(all, [](double value) { return !std::isfinite(value); });  // hidden, or between pages
  const bool equal = std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) == all.end();
  return equal ? static_cast<double>(count) / 3 * 0x1p-24 : 0;
}

// Largest |a - b|; NaN agrees with NaN alone, an infinity with the same one alone. Infinity if the counts differ.
inline double difference(const TensorView& a, const TensorView& b) {
  const std::vector<double> x = values(a), y = values(b);
  if (x.size() != y.size()) return kInfinity;
  double maximum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    const double distance = std::abs(x[i] - y[i]);
    maximum = std::isnan(distance) ? kInfinity : std::max(maximum, distance);
  }
  return maximum;
}

// The same shape, type and bits.
inline bool same_bits(const TensorView& a, const TensorView& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Tensor x = Tensor::copy(a), y = Tensor::copy(b);
  const auto bytes = static_cast<std::size_t>(x.element_count()) * size_of(x.dtype());
  return std::memcmp(x.view().bytes(), y.view().bytes(), bytes) == 0;
}

// Of a rounding to this type, relative to the number.
inline double rounding(Dtype dtype) {
  switch (dtype) {
    case Dtype::bf16:
      return 0x1p-8;
    case Dtype::f16:
      return 0x1p-11;
    default:
      return 0;
  }
}

// Everything one call can give.
struct Outcome {
  Tensor out;
  Tensor log_sum_exp;
  Tensor weights;
  Tensor logits;
};

// Bitwise.
inline void expect_same(const Outcome& a, const Outcome& b) {
  EXPECT_TRUE(same_bits(a.out, b.out)) << "output";
  EXPECT_TRUE(same_bits(a.log_sum_exp, b.log_sum_exp)) << "log-sum-exp";
  EXPECT_TRUE(same_bits(a.weights, b.weights)) << "weights";
  EXPECT_TRUE(same_bits(a.logits, b.logits)) << "logits";
}

// The kernel, with every extra asked for, into tensors that held NaN.
inline Outcome attend(const TensorView& q, const TensorView& k, const TensorView& v,
                      const AttentionOptions& options = {}) {
  const Dtype wide = q.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Dims rows, out, matrix;
  std::int64_t k_len = k.size(-2);
  if (options.offsets_query) {
    rows = {q.size(0), q.size(1)};
    k_len = 0;
    const std::vector<double> offsets = values(options.offsets_key);
    for (std::size_t b = 1; b < offsets.size(); ++b) {
      k_len = std::max(k_len, static_cast<std::int64_t>(offsets[b] - offsets[b - 1]));
    }
  } else {
    for (int i = 0; i < q.rank() - 1; ++i) rows.push_back(q.size(i));
  }
  out = matrix = rows;
  out.push_back(v.size(-1));
  matrix.push_back(k_len);
  Outcome outcome{.out = filled(out, kNan, q.dtype()),
                  .log_sum_exp = filled(rows, kNan, wide),
                  .weights = filled(matrix, kNan, wide),
                  .logits = filled(matrix, kNan, wide)};
  attention(q, k, v, outcome.out, options,
            {.log_sum_exp = outcome.log_sum_exp, .weights = outcome.weights, .logits = outcome.logits});
  return outcome;
}

}  // namespace qkv::testing
