// What another thread writes into the integers of a call after these were checked changes nothing.
#include <cstring>

#include "attention/attention_testing.h"

namespace qkv {
namespace {

using testing::normal;

// attend(function) with a function that leaves logits alone, and with one that spoils the integers as well, as soon as
// the kernel asks.
template <class Attend>
void expect_unchanged(Tensor& integers, const Attend& attend) {
  const Tensor expected = attend(logit_function([](auto logit, const Pair&) { return logit; }));
  const auto bytes = static_cast<std::size_t>(integers.element_count()) * size_of(integers.dtype());
  const Tensor got = attend(logit_function([&integers, bytes](auto logit, const Pair&) {
    std::memset(integers.view().bytes(), 0x7f, bytes);
    return logit;
  }));
  EXPECT_TRUE(testing::same_bits(got, expected));
}

TEST(ChangedArguments, BlockTable) {
  Random random(1);
  const Tensor q = normal(random, {2, 2, 3, 4}), k = normal(random, {4, 2, 2, 4}), v = normal(random, {4, 2, 2, 4});
  Tensor table = Tensor::of<std::int32_t>({2, 2}, {3, 0, 2, 1});
  expect_unchanged(table, [&](const LogitFunction& function) {
    return attention(q, k, v, {.logit_function = function, .block_table = table, .threads = 1});
  });
}

TEST(ChangedArguments, Offsets) {
  Random random(1);
  const Tensor q = normal(random, {5, 2, 4}), k = normal(random, {7, 2, 4}), v = normal(random, {7, 2, 4});
  Tensor of_queries = Tensor::of<std::int32_t>({3}, {0, 2, 5}), of_keys = Tensor::of<std::int32_t>({3}, {0, 3, 7});
  const auto attend = [&](const LogitFunction& function) {
    return attention(q, k, v,
                     {.logit_function = function, .offsets_query = of_queries, .offsets_key = of_keys, .threads = 1});
  };
  const Tensor kept = of_queries;
  expect_unchanged(of_queries, attend);
  of_queries = kept;
  expect_unchanged(of_keys, attend);
}

TEST(ChangedArguments, Lengths) {
  Random random(1);
  const Tensor q = normal(random, {2, 2, 3, 4}), k = normal(random, {2, 2, 5, 4}), v = normal(random, {2, 2, 5, 4});
  Tensor lengths = Tensor::of<std::int64_t>({2}, {5, 2});
  expect_unchanged(lengths, [&](const LogitFunction& function) {
    return attention(q, k, v, {.mask = Mask::lengths(lengths), .logit_function = function, .threads = 1});
  });
}

TEST(ChangedArguments, Rows) {
  Random random(1);
  const Tensor q = normal(random, {2, 2, 3, 4}), k = normal(random, {2, 2, 5, 4}), v = normal(random, {2, 2, 5, 4});
  Tensor rows = Tensor::of<std::int64_t>({2, 3}, {1, 1, 2, 0, 1, 0});
  expect_unchanged(rows, [&](const LogitFunction& function) {
    Tensor weights = Tensor::zeros({2, 5});
    attention(q, k, v, {.logit_function = function, .threads = 1}, {.rows = rows, .row_weights = weights});
    return weights;
  });
}

}  // namespace
}  // namespace qkv
