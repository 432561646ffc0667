// Narrow windows, short documents and squares, whose edges lie anywhere in blocks of queries and tiles of keys: outputs
// and gradients against the double reference, and the same bits from every form in which the same pairs can be given.
#include <fmt/format.h>

#include "attention/backward/attention_backward_testing.h"
#include "attention/choices.h"
#include "reference/attention.h"

namespace qkv {
namespace {

using testing::difference;
using testing::Gradients;
using testing::largest;
using testing::normal;
using testing::same_bits;

constexpr std::int64_t kHeads = 2, kSize = 24;

// The pairs that may attend, as an array and as whatever else says the same.
struct SmallMask {
  std::string name;
  Tensor visible;  // [queries, keys]
  Tensor ids;      // of documents
  Mask mask;       // of no array, if there is one
};

// Documents of random lengths, or a random window, or squares of one side of which some are visible.
SmallMask draw_mask(testing::Choices& choices, std::int64_t length) {
  SmallMask drawn;
  drawn.visible = Tensor::zeros({length, length}, Dtype::boolean);
  const auto fill = [&](const auto& sees) {
    for (std::int64_t i = 0; i < length; ++i) {
      for (std::int64_t j = 0; j < length; ++j) drawn.visible.view().at<bool>({i, j}) = sees(i, j);
    }
  };
  const auto up_to = [&](std::uint64_t most) { return static_cast<std::int64_t>(choices.below(most + 1)); };
  switch (choices.below(3)) {
    case 0: {
      const std::int64_t left = up_to(70), right = up_to(1) * up_to(20);
      drawn.name = fmt::format("window of {} and {}", left, right);
      drawn.mask = Mask::window(left, right);
      fill([&](std::int64_t i, std::int64_t j) { return i - left <= j && j <= i + right; });
      break;
    }
    case 1: {
      const std::int64_t whole = choices.pick<std::int64_t>({1, 8, 16});  // lengths are multiples of it
      drawn.ids = Tensor::zeros({length}, Dtype::i32);
      std::int32_t* ids = drawn.ids.data<std::int32_t>();
      for (std::int64_t i = 0, left = 0, document = -1; i < length; ++i, --left) {
        if (left == 0) left = whole * (1 + up_to(static_cast<std::uint64_t>(80 / whole))), ++document;
        ids[i] = static_cast<std::int32_t>(document);
      }
      drawn.name = fmt::format("documents of multiples of {}", whole);
      drawn.mask = Mask::documents(drawn.ids);
      fill([&](std::int64_t i, std::int64_t j) { return ids[i] == ids[j]; });
      break;
    }
    default: {
      const std::int64_t side = choices.pick<std::int64_t>({1, 5, 8, 16, 32, 48, 64});
      drawn.name = fmt::format("squares of {}", side);
      drawn.visible = testing::coin_flips(choices.random(), {length, length}, 0.15);
      testing::repeat_in_squares(drawn.visible, side);
    }
  }
  return drawn;
}

// The forms of a mask, each a way of its own through the kernels.
std::vector<std::pair<std::string, Mask>> forms_of(const SmallMask& drawn) {
  const bool* visible = drawn.visible.data<bool>();
  const std::int64_t length = drawn.visible.size(1);
  std::vector<std::pair<std::string, Mask>> forms{
      {"an array", Mask::boolean(drawn.visible)},
      {"a compiled array", Mask::boolean(drawn.visible).compiled()},
      {"a function", Mask::function(mask_function(
                         [visible, length](const Pair& at) { return visible[at.query * length + at.key]; }))}};
  if (!drawn.name.starts_with("squares")) forms.push_back({"intervals", drawn.mask});
  return forms;
}

struct Arrays {
  Arrays(Random& random, std::int64_t length, Dtype dtype)
      : q(normal(random, {kHeads, length, kSize}, dtype)),
        k(normal(random, q.shape(), dtype)),
        v(normal(random, q.shape(), dtype)),
        grad_out(normal(random, q.shape(), dtype)) {}

  testing::Forward forward(const Mask& mask) const { return testing::forward(q, k, v, {.mask = mask}); }
  Gradients backward(const Mask& mask) const { return testing::backward(q, k, v, grad_out, {.mask = mask}); }

  Tensor q, k, v, grad_out;
};

QKV_ON_EACH_TARGET(SmallMasks);

void expect_like_reference_and_alike(std::uint64_t seed, std::int64_t length, Dtype dtype) {
  testing::Choices choices(seed);
  const SmallMask drawn = draw_mask(choices, length);
  SCOPED_TRACE(fmt::format("seed {}: {}, length {}, {}", seed, drawn.name, length, name_of(dtype)));
  const Arrays arrays(choices.random(), length, dtype);
  const Mask array = Mask::boolean(drawn.visible);
  const testing::Forward first = arrays.forward(array);
  const Gradients gradients = arrays.backward(array);

  const reference::AttentionResult exact = reference::attention(arrays.q, arrays.k, arrays.v, {.mask = array});
  const reference::AttentionGradients slopes =
      reference::attention_backward(arrays.q, arrays.k, arrays.v, arrays.grad_out, {.mask = array});
  // As in the grids: logits are below 30, weights off by a few units of 2^-24 each.
  const double tolerance = dtype == Dtype::f64 ? 1e-13 : 2e-5;
  EXPECT_LE(difference(first.out, exact.out), tolerance * largest(arrays.v));
  EXPECT_LE(difference(first.log_sum_exp, exact.log_sum_exp), tolerance * (1 + largest(exact.log_sum_exp)));
  EXPECT_LE(difference(gradients.query, slopes.query), tolerance * largest(slopes.query));
  EXPECT_LE(difference(gradients.key, slopes.key), tolerance * largest(slopes.key));
  EXPECT_LE(difference(gradients.value, slopes.value), tolerance * largest(slopes.value));

  for (const auto& [name, mask] : forms_of(drawn)) {
    SCOPED_TRACE(name);
    const testing::Forward form = arrays.forward(mask);
    EXPECT_TRUE(same_bits(form.out, first.out));
    EXPECT_TRUE(same_bits(form.log_sum_exp, first.log_sum_exp));
    testing::expect_same(arrays.backward(mask), gradients);
  }
}

TEST_P(SmallMasks, LikeTheReferenceAndTheSameBitsInEveryForm) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) expect_like_reference_and_alike(seed, 130 + seed % 11, Dtype::f32);
  for (std::uint64_t seed = 31; seed <= 36; ++seed) expect_like_reference_and_alike(seed, 130, Dtype::f64);
}

TEST_P(SmallMasks, AcrossChunksOfKeys) {
  for (std::uint64_t seed = 41; seed <= 44; ++seed) expect_like_reference_and_alike(seed, 1060, Dtype::f32);
}

// A key and a value of NaN reach the queries that see them, and no bit of the others or of what these reach alone.
TEST_P(SmallMasks, WhatIsHiddenLeavesNoTrace) {
  for (std::uint64_t seed = 51; seed <= 70; ++seed) {
    constexpr std::int64_t kLength = 150;
    testing::Choices choices(seed);
    const SmallMask drawn = draw_mask(choices, kLength);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, drawn.name));
    const Arrays clean(choices.random(), kLength, Dtype::f32);
    Arrays poisoned = clean;
    const auto hole = static_cast<std::int64_t>(choices.below(kLength));
    for (std::int64_t h = 0; h < kHeads; ++h) {
      testing::put(poisoned.k, {h, hole, 3}, testing::kNan);
      testing::put(poisoned.v, {h, hole, 5}, testing::kNan);
    }
    const bool* visible = drawn.visible.data<bool>();
    for (const auto& [name, mask] : forms_of(drawn)) {
      SCOPED_TRACE(name);
      const testing::Forward wanted = clean.forward(mask), got = poisoned.forward(mask);
      const Gradients wanted_slopes = clean.backward(mask), slopes = poisoned.backward(mask);
      for (std::int64_t i = 0; i < kLength; ++i) {
        const auto row = [i](const Tensor& tensor) { return tensor.view().select(1, i); };
        if (visible[i * kLength + hole]) {
          EXPECT_TRUE(std::isnan(got.log_sum_exp.view().at<float>({0, i})));
        } else {
          EXPECT_TRUE(same_bits(row(got.out), row(wanted.out))) << i;
          EXPECT_TRUE(same_bits(row(slopes.query), row(wanted_slopes.query))) << i;
        }
      }
      for (std::int64_t j = 0; j < kLength; ++j) {
        bool is_reached = false;  // by a query that sees the hole
        for (std::int64_t i = 0; i < kLength; ++i) {
          is_reached = is_reached || (visible[i * kLength + hole] && visible[i * kLength + j]);
        }
        if (is_reached) continue;
        const auto row = [j](const Tensor& tensor) { return tensor.view().select(1, j); };
        EXPECT_TRUE(same_bits(row(slopes.key), row(wanted_slopes.key))) << j;
        EXPECT_TRUE(same_bits(row(slopes.value), row(wanted_slopes.value))) << j;
      }
    }
  }
}

}  // namespace
}  // namespace qkv
