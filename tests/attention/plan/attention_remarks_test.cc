// Which options must have a remark that says why a call is slower. A new option does not compile here until somebody
// has decided whether it belongs to them.
#include "attention/plan/attention_remarks.h"

#include <algorithm>

#include "attention/attention_testing.h"

namespace qkv {
namespace {

bool has_remark(const AttentionPlan& plan, const std::string& part) {
  return std::any_of(plan.remarks.begin(), plan.remarks.end(),
                     [&](const std::string& line) { return line.find(part) != std::string::npos; });
}

// All of AttentionOptions. What costs nothing, or next to nothing, needs no remark: scale, sinks (1.00 times the time),
// empty rows, packed rows, pages, and masks that are intervals of keys. threads and precision have remarks of their
// own.
[[maybe_unused]] void every_option(const AttentionOptions& options) {
  [[maybe_unused]] const auto& [mask, bias, scale, soft_cap, logit_function, score, precision, dropout, empty_rows,
                                sinks, offsets_query, offsets_key, block_table, threads, memory_limit, stop] = options;
}

// All of AttentionExtras.
[[maybe_unused]] void every_extra(const AttentionExtras& extras) {
  [[maybe_unused]] const auto& [log_sum_exp, weights, logits, rows, row_weights, row_maximum, entropy, top_keys,
                                top_weights, received, block_weights] = extras;
}

QKV_ON_EACH_TARGET(AttentionRemarks);

TEST_P(AttentionRemarks, SayWhyAnOptionIsSlower) {
  constexpr std::int64_t kLength = 96, kSize = 16;
  Random random(1);
  const Tensor q = testing::normal(random, {2, kLength, kSize}), plane = testing::normal(random, {kLength, kLength});
  const Tensor visible = testing::filled({kLength, kLength}, 1, Dtype::boolean), slopes = testing::filled({2}, 0.1);
  const Tensor buckets = testing::normal(random, {32, 2}), numbers = testing::normal(random, {33, 2});
  const Tensor rows = testing::normal(random, {33, kSize}), places = testing::normal(random, {23 * 15, 2});
  const Tensor ids = Tensor::of<std::int32_t>({4}, {0, 1, 0, 1});
  const Tensor w = testing::normal(random, {8, kSize}), joined = testing::normal(random, {8, 2 * kSize});
  const Tensor factor = testing::normal(random, {8}), square = testing::normal(random, {kSize, kSize});
  std::vector<std::int32_t> alternating, in_runs;
  for (std::int32_t i = 0; i < kLength; ++i) alternating.push_back(i % 2), in_runs.push_back(i / 32);
  const Tensor scattered = Tensor::of({kLength}, alternating), runs = Tensor::of({kLength}, in_runs);
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {50});
  const auto with = [](const auto& change) {
    AttentionOptions options{.threads = 1};
    change(options);
    return options;
  };
  const struct {
    const char* remark;
    AttentionOptions options;
    bool derivatives = true;  // whether there is a backward pass with it
  } slower[] = {
      {"soft cap", with([](auto& o) { o.soft_cap = 3; })},
      {"a bias is read", with([&](auto& o) { o.bias = Bias::view(plane); })},
      {"ALiBi", with([&](auto& o) { o.bias = Bias::alibi(slopes); })},
      {"a table of relative positions", with([&](auto& o) { o.bias = Bias::table(RelativeTable::t5(buckets)); })},
      {"a table of relative positions", with([&](auto& o) { o.bias = Bias::table(RelativeTable::clipped(numbers)); })},
      {"Swin", with([&](auto& o) { o.bias = Bias::table(RelativeTable::swin(places, 12, 8)); })},
      {"Shaw's table", with([&](auto& o) { o.bias = Bias::table(RelativeTable::shaw(rows)); })},
      {"a logit function",
       with([](auto& o) { o.logit_function = logit_function([](auto x, const Pair&) { return x; }); }), false},
      {"a mask function",
       with([](auto& o) { o.mask = Mask::function(mask_function([](const Pair&) { return true; })); })},
      {"a boolean mask", with([&](auto& o) { o.mask = Mask::boolean(visible); })},
      {"documents whose keys are scattered", with([&](auto& o) { o.mask = Mask::documents(scattered); })},
      {"dropout", with([](auto& o) { o.dropout = {.p = 0.1, .seed = 1}; })},
      {"no dedicated kernel", with([&](auto& o) { o.score = Score::additive(w, w, factor); })},
      {"no dedicated kernel", with([&](auto& o) { o.score = Score::concat(joined, factor); })},
      {"no dedicated kernel", with([&](auto& o) { o.score = Score::bilinear(square); })}};
  for (const auto& [remark, options, derivatives] : slower) {
    EXPECT_TRUE(has_remark(plan(q, q, q, options), remark)) << remark;
    EXPECT_FALSE(has_remark(plan(q, q, q, {.threads = 1}), remark)) << remark;
    if (derivatives) {
      EXPECT_TRUE(has_remark(plan_backward(q, q, q, options, {}), remark)) << remark << ", backward";
    }
  }
  const std::size_t none = GetParam() == testing::usable_targets().front() ? 0 : 1;
  for (const Mask& mask : {Mask(), Mask::causal(), Mask::window(8, 8), Mask::lengths(lengths), Mask::documents(runs)}) {
    EXPECT_EQ(plan(q, q, q, {.mask = mask, .threads = 1}).remarks.size(), none);
  }
}

TEST_P(AttentionRemarks, SayWhatOutputsCost) {
  constexpr std::int64_t kLength = 96;
  Random random(1);
  const Tensor q = testing::normal(random, {2, kLength, 16}), chosen = Tensor::of<std::int64_t>({1, 3}, {0, 0, 5});
  Tensor plane = Tensor::zeros({2, kLength, kLength}), row = Tensor::zeros({2, kLength});
  Tensor keys = Tensor::zeros({2, kLength, 3}, Dtype::i64), weights = Tensor::zeros({2, kLength, 3});
  Tensor blocks = Tensor::zeros({2, 4, 4}), of_row = Tensor::zeros({1, kLength});
  const auto says = [&](const AttentionExtras& extras, const char* remark) {
    return has_remark(plan(q, q, q, {.threads = 1}, extras), remark);
  };
  for (const AttentionExtras& extras : std::initializer_list<AttentionExtras>{
           {.weights = plane}, {.logits = plane}, {.entropy = row}, {.received = row}, {.block_weights = blocks}}) {
    EXPECT_TRUE(says(extras, "need a second pass over the keys"));
  }
  EXPECT_TRUE(says({.rows = chosen, .row_weights = of_row}, "chosen rows are computed again"));
  EXPECT_FALSE(says({.log_sum_exp = row}, "second pass"));
  EXPECT_FALSE(says({.row_maximum = row}, "second pass"));
  EXPECT_FALSE(says({.top_keys = keys, .top_weights = weights}, "second pass"));
}

TEST_P(AttentionRemarks, SayWhyThreadsAreIdleInEveryPass) {
  const Tensor q = testing::filled({1, 2, 16}, 1);  // one block of any target
  const AttentionTangents tangents{.query = q};
  for (const AttentionPlan& plan :
       {qkv::plan(q, q, q, {.threads = 4}), plan_backward(q, q, q, {.threads = 4}, {}),
        plan_jvp(q, q, q, tangents, {.threads = 4}, {}), plan_double_backward(q, q, q, tangents, {.threads = 4}, {})}) {
    EXPECT_TRUE(has_remark(plan, "there is work for " + std::to_string(plan.threads) + " of 4 threads")) << plan.kernel;
  }
}

}  // namespace
}  // namespace qkv
