// Random calls over a cache against the double reference: the calls of the forward grid whose keys come to a cache in
// pieces, in any order of sequences. A failure names its seed; QKV_GRID_SEED=seed with
// --gtest_filter=KeyValueCacheGrid.Replay runs that one again.
#include "attention/attention_expectation.h"
#include "qkv/attention/key_value_cache.h"

namespace qkv {
namespace {

using testing::AttentionCase;

// Sequence b of the result is sequence parents[b].
Tensor with_parents(const TensorView& array, const std::vector<std::int64_t>& parents) {
  Dims shape = array.shape();
  shape[0] = static_cast<std::int64_t>(parents.size());
  Tensor chosen = Tensor::uninitialized(shape, array.dtype());
  for (std::size_t b = 0; b < parents.size(); ++b) {
    convert(array.select(0, parents[b]), chosen.view().select(0, static_cast<std::int64_t>(b)));
  }
  return chosen;
}

void expect_like_reference(const AttentionCase& drawn) {
  // A cache names its own alignment and lengths.
  const bool aligned = drawn.options.mask.align() != Align::top_left && drawn.options.mask.length_views().empty();
  const auto is_window = [](const RelativeTable& table) { return table.kind() == RelativeTable::Kind::swin; };
  const auto& tables = drawn.options.bias.tables();
  if (std::any_of(tables.begin(), tables.end(), is_window)) return;  // positions would lie outside
  if (drawn.packed() || drawn.paged() || drawn.q.rank() != 4 || drawn.batch() == 0 || !aligned) return;
  Random random(drawn.seed);
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
  };
  const std::int64_t batch = drawn.batch(), k_len = drawn.k.size(2);
  KeyValueCache cache({.batch = batch,
                       .kv_heads = drawn.k.size(1),
                       .head_dim = drawn.k.size(3),
                       .value_dim = drawn.v.size(3),
                       .dtype = drawn.k.dtype(),
                       .page_rows = 1 + below(20)});
  // First the keys of all sequences up to some one, then each sequence goes on from a parent.
  std::vector<std::int64_t> parents;
  for (std::int64_t b = 0; b < batch; ++b) parents.push_back(below(batch));
  const std::int64_t common = below(k_len + 1);
  cache.append(drawn.k.slice(2, 0, common), drawn.v.slice(2, 0, common));
  cache.reorder(parents);
  for (std::int64_t begin = common; begin < k_len;) {
    const std::int64_t end = std::min(k_len, begin + 1 + below(40));
    cache.append(drawn.k.slice(2, begin, end), drawn.v.slice(2, begin, end));
    begin = end;
  }
  Tensor k = with_parents(drawn.k, parents), v = with_parents(drawn.v, parents);
  convert(drawn.k.slice(2, common, k_len), k.view().slice(2, common, k_len));
  convert(drawn.v.slice(2, common, k_len), v.view().slice(2, common, k_len));

  AttentionOptions options = drawn.options;
  Tensor out = testing::filled({batch, drawn.heads(), drawn.q.size(2), v.size(3)}, testing::kNan, drawn.out_dtype);
  attention(drawn.q, cache, out, options);
  options.mask = options.mask & Mask::window(-1, -1, Align::bottom_right);
  const reference::AttentionResult exact = reference::attention(drawn.q, k, v, options);
  EXPECT_EQ(testing::unlike_exact(drawn, out, exact.out, testing::logit_tolerance(drawn, exact)), "");
}

TEST(KeyValueCacheGrid, RandomCases) { testing::run_cases(0, 1500, expect_like_reference); }

TEST(KeyValueCacheGridSlow, RandomCases) { testing::run_cases(4'000'000, 30'000, expect_like_reference); }

TEST(KeyValueCacheGrid, Replay) { testing::replay_case(expect_like_reference); }

}  // namespace
}  // namespace qkv
