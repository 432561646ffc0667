// Optional outputs under every mask, and under biases with heads last, against the reference in double: what is skipped
// because nobody sees it has the weights and logits of what is hidden, and no output depends on which others are asked
// for.
#include <fmt/format.h>

#include <limits>
#include <memory>
#include <tuple>
#include <utility>

#include "attention/extras/every_output.h"

namespace qkv {
namespace {

using testing::filled;
using testing::kBatch;
using testing::kHeads;
using testing::kKeys;
using testing::kNan;
using testing::kQueries;
using testing::normal;

QKV_ON_EACH_TARGET(MaskedExtras);

// Most of them leave whole blocks of 128 keys to nobody of a block of queries, and a few queries without keys.
class Masks {
 public:
  std::vector<std::pair<std::string, Mask>> all;

  Masks() {
    const auto lengths = keep(Tensor::of<std::int64_t>({kBatch}, {kKeys - 150, 0}));
    const auto counts = keep(Tensor::of<std::int64_t>({kBatch}, {130, 3}));
    const TensorView query_ids = ids(kQueries, 40), key_ids = ids(kKeys, 90);
    const TensorView query_turns = ids(kQueries, 1), key_turns = ids(kKeys, 3);
    Random random(1);
    Tensor squares = testing::coin_flips(random, {kQueries, kKeys}, 0.3);
    testing::repeat_in_squares(squares, 32);
    Tensor stripes = filled({kKeys}, 1, Dtype::boolean);
    for (std::int64_t j = 0; j < kKeys; ++j) stripes.data<bool>()[j] = j / 130 != 1;
    const TensorView seen = keep(std::move(squares)), striped = keep(std::move(stripes));
    const TensorView scattered = keep(testing::coin_flips(random, {kBatch, 1, kQueries, kKeys}, 0.01));
    const Mask every_tenth = Mask::function(mask_function([](const Pair& at) { return at.key / 100 == at.query % 5; }));
    all = {{"none", Mask()},
           {"causal", Mask::causal()},
           {"causal to the end", Mask::causal(Align::bottom_right)},
           {"window", Mask::window(20, 0)},
           {"window to the end", Mask::window(3, 10, Align::bottom_right)},
           {"prefix", Mask::prefix(counts)},
           {"dilated", Mask::dilated(200, 200, 16)},
           {"lengths", Mask::lengths(lengths)},
           {"documents", Mask::documents(query_ids, key_ids)},
           {"scattered documents", Mask::documents(query_turns, key_turns)},
           {"boolean squares", Mask::boolean(seen)},
           {"boolean stripes", Mask::boolean(striped)},
           {"scattered booleans", Mask::boolean(scattered)},
           {"function", every_tenth},
           {"several", Mask::boolean(seen) & Mask::causal(Align::bottom_right) & Mask::documents(query_ids, key_ids)}};
  }

 private:
  TensorView keep(Tensor tensor) { return *kept_.emplace_back(std::make_unique<Tensor>(std::move(tensor))); }
  // Documents of `run` rows; no key has the queries' second one, no query the keys' third one.
  TensorView ids(std::int64_t count, std::int64_t run) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(kBatch * count));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto document = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % count / run % 5);
      ids[i] = count == kQueries && document == 1 ? 9 : document;
    }
    return keep(Tensor::of({kBatch, count}, ids));
  }
  std::vector<std::unique_ptr<Tensor>> kept_;
};

TEST_P(MaskedExtras, AreThoseOfTheReference) {
  Masks masks;
  const std::pair<Dtype, double> kinds[] = {{Dtype::f32, 0}, {Dtype::f32, 3}, {Dtype::f64, 0}};  // type and soft cap
  for (const auto& [dtype, soft_cap] : kinds) {
    for (const auto& [name, mask] : masks.all) {
      testing::expect_every_output(fmt::format("{}, soft cap {}, {}", name_of(dtype), soft_cap, name), dtype,
                                   {.mask = mask, .soft_cap = soft_cap, .threads = 2});
    }
  }
}

// Position biases lie in T5 as its table gives them, [queries, keys, heads]; its masks may be added to them.
TEST_P(MaskedExtras, UnderBiasesWithHeadsLast) {
  Masks masks;
  Random random(4);
  const Tensor positions = normal(random, {kQueries, kKeys, kHeads});
  Tensor masked = Tensor::copy(positions);
  for (std::int64_t at = 0; at < masked.element_count(); ++at) {
    const bool is_far = at / kHeads % kKeys > at / kHeads / kKeys + 150;
    if (is_far) masked.data<float>()[at] = -std::numeric_limits<float>::infinity();
  }
  for (const auto& [kind, dtype, numbers] :
       {std::tuple("positions", Dtype::f32, &positions),
        std::tuple("positions and a mask", Dtype::f64, static_cast<const Tensor*>(&masked))}) {
    const Tensor table = convert(*numbers, dtype);
    const Bias bias = Bias::view(table.view().transpose(0, 2).transpose(1, 2));
    for (const auto& [name, mask] : masks.all) {
      testing::expect_every_output(fmt::format("{}, {}", kind, name), dtype,
                                   {.mask = mask, .bias = bias, .threads = 2});
    }
  }
}

// A query of NaN: its weights are NaN over all keys, as 0 / NaN is; so is what each key receives, and no other row.
TEST_P(MaskedExtras, ARowOfNanIsNanOverHiddenKeysToo) {
  Random random(3);
  Tensor q = normal(random, {1, 1, kQueries, 6});
  const Tensor k = normal(random, {1, 1, kKeys, 6});
  testing::put(q, {0, 0, 70, 2}, kNan);
  const AttentionOptions options{.mask = Mask::window(20, 0)};
  const reference::AttentionResult exact = reference::attention(q, k, k, options);
  Tensor weights = filled({1, 1, kQueries, kKeys}, 77), received = filled({1, 1, kKeys}, 77);
  attention(q, k, k, options, {.weights = weights});
  attention(q, k, k, options, {.received = received});
  EXPECT_LE(testing::difference(weights, exact.weights), 2e-6);
  for (const double number : testing::values(received)) EXPECT_TRUE(std::isnan(number));
}

}  // namespace
}  // namespace qkv
