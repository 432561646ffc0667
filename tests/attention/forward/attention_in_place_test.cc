// attention_in_place() has the bits of attention(), whatever the schedule: blocks, chunks of keys on several threads,
// heads folded into one block, single queries, ragged.
#include "attention/forward/attention_in_place.h"

#include "attention/attention_testing.h"
#include "qkv/layers/sequences.h"

namespace qkv {
namespace {

using testing::normal;
using testing::same_bits;

struct Shape {
  std::int64_t heads, kv_heads, q_len, k_len;
};

QKV_ON_EACH_TARGET(AttentionInPlace);

TEST_P(AttentionInPlace, HasTheBitsOfAttention) {
  for (const auto& [heads, kv_heads, q_len, k_len] :
       {Shape{3, 3, 300, 300}, {1, 1, 40, 5000}, {4, 1, 5, 3000}, {4, 2, 1, 2500}, {2, 2, 0, 3}}) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(fmt::format("{} heads on {}, {} x {}, {}, {} threads", heads, kv_heads, q_len, k_len,
                                 name_of(dtype), threads));
        Random random(5);
        const Tensor q = normal(random, {2, heads, q_len, 16}, dtype),
                     k = normal(random, {2, kv_heads, k_len, 16}, dtype),
                     v = normal(random, {2, kv_heads, k_len, 16}, dtype);
        for (const Mask& mask : {Mask(), Mask::causal(Align::bottom_right), Mask::window(20, 20)}) {
          const AttentionOptions options{.mask = mask, .threads = threads};
          Tensor rows = q;
          attention_in_place(rows, k, v, options);
          EXPECT_TRUE(same_bits(rows, attention(q, k, v, options)));
        }
      }
    }
  }
}

TEST_P(AttentionInPlace, RaggedSequencesBesideOthers) {
  Random random(6);
  const Tensor all = normal(random, {90, 4 * 8}), k = normal(random, {90, 2, 8}), v = normal(random, {90, 2, 8});
  const Tensor offsets = offsets_of(std::vector<std::int64_t>{1, 60, 0, 29});
  const AttentionOptions options{.offsets_query = offsets, .offsets_key = offsets, .threads = 2};
  const auto heads = [](Tensor& rows) {  // the middle two of four
    return MutableTensorView(rows.view().slice(1, 8, 24).bytes(), Dtype::f32, {90, 2, 8}, {32, 8, 1});
  };
  Tensor rows = all, apart = all;
  attention_in_place(heads(rows), k, v, options);
  convert(attention(heads(apart), k, v, options), heads(apart));
  EXPECT_TRUE(same_bits(rows, apart));
}

}  // namespace
}  // namespace qkv
