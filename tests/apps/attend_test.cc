// qkv attend: numbers that are known, for every option. What it refuses: answers.txt.
#include "apps/attend.h"

#include <limits>
#include <numbers>

namespace qkv::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kLn2 = std::numbers::ln2_v<float>;
const Dims kSquare = {3, 3};

// Computed in double precision by hand from the example's tables.
const std::vector<double> kUnscaledOutput = {1.93662106,  6.68310531, 1.59506841, 1.99999397, 7.9639916,
                                             .0539764053, 1.99970461, 7.75989225, .358389295};
const std::vector<double> kUnscaledWeights = {.0633789383, .468310531,     .468310531, 6.03366485e-06, .982007865,
                                              .0179861014, 2.95387223e-04, .880536902, .119167711};
const std::vector<double> kUnscaledLogits = {2, 4, 4, 4, 16, 12, 4, 12, 10};
const std::vector<double> kUnscaledLogSumExp = {4.75862368, 16.018156, 12.1272234};
const std::vector<double> kScaledOutput = {1.8638742,  6.31937101, 1.7041887,  1.99910955, 7.8141235,
                                           .273472058, 1.99255511, 7.47963559, .735877258};
const std::vector<double> kScaledLogSumExp = {3.14887638, 9.33318761, 7.20962815};
const std::vector<double> kLookAheadOutput = {1,           2,          3,          1.9990212, 7.9941272,
                                              .0029364021, 1.99255511, 7.47963559, .735877258};

TEST_F(Attend, WorkedExample) {
  save_worked_example<float>(folder_);
  for (const std::string unscaled : {"--scale 1", "--score dot", "--score=scaled-dot --scale=1.0"}) {
    expect(unscaled + " --weights w.npy --logits z.npy --log-sum-exp l.npy", {{"o.npy", kSquare, kUnscaledOutput},
                                                                              {"w.npy", kSquare, kUnscaledWeights},
                                                                              {"z.npy", kSquare, kUnscaledLogits},
                                                                              {"l.npy", {3}, kUnscaledLogSumExp}});
  }
  expect("--log-sum-exp l.npy", {{"o.npy", kSquare, kScaledOutput}, {"l.npy", {3}, kScaledLogSumExp}});
  for (const std::string align : {"top-left", "bottom-right"}) {
    expect("--causal " + align, {{"o.npy", kSquare, kLookAheadOutput}});
  }
  // bf16 holds the example's inputs; each weight is rounded by up to 2^-8, to values of up to 8.
  expect("--precision reduced", {{"o.npy", kSquare, kScaledOutput}}, 0.033);
  // The gold numbers have nine digits.
  expect("--dtype f64 --scale 1", {{"o.npy", kSquare, kUnscaledOutput, Dtype::f64}}, 1e-8);
  save_worked_example<double>(folder_);
  expect("--log-sum-exp l.npy",
         {{"o.npy", kSquare, kScaledOutput, Dtype::f64}, {"l.npy", {3}, kScaledLogSumExp, Dtype::f64}}, 1e-8);
  save_worked_example<std::int32_t>(folder_);
  expect("--dtype f32", {{"o.npy", kSquare, kScaledOutput}});
}

TEST_F(Attend, StatisticsOfTheWorkedExample) {
  save_worked_example<float>(folder_);
  save<std::int64_t>("rows.npy", {2, 3}, {0, 0, 2, 0, 0, 0});
  expect(
      "--score dot --row-maximum m.npy --entropy e.npy --top-keys t.npy --top-weights tw.npy --top 4 --received r.npy "
      "--block-weights b.npy --blocks 1 --rows rows.npy --row-weights w.npy",
      {{"m.npy", {3}, {4, 16, 12}},
       {"e.npy", {3}, {.885381541, .0901727721, .367921935}},  // -sum of p log p over each row of weights
       {"t.npy", {3, 4}, {1, 2, 0, -1, 1, 2, 0, -1, 1, 2, 0, -1}, Dtype::i64},
       {"tw.npy",
        {3, 4},
        {.468310531, .468310531, .0633789383, 0, .982007865, .0179861014, 6.03366485e-06, 0, .880536902, .119167711,
         2.95387223e-04, 0}},
       {"r.npy", {3}, {.0636803591, 2.330855298, .605464343}},  // columns of the table of weights
       {"b.npy", {1, 1}, {1.0 / 3}},                            // nine weights that sum to 3
       {"w.npy", {2, 3}, {2.95387223e-04, .880536902, .119167711, .0633789383, .468310531, .468310531}}});
}

// One key: the output is its value as stored. 1 + 2^-8 and 1 + 2^-11 lie half way between neighbours of short types.
TEST_F(Attend, DtypeIsTheStorageInside) {
  save_inputs({1, 2}, {1, 1}, {1, 2}, {1, 1}, {1, 2}, {1.00390625f, 1.00048828125f});
  expect("--dtype bf16", {{"o.npy", {1, 2}, {1, 1}}}, 0);
  expect("--dtype f16", {{"o.npy", {1, 2}, {1.00390625, 1}}}, 0);
  expect("", {{"o.npy", {1, 2}, {1.00390625, 1.00048828125}}}, 0);
}

TEST_F(Attend, ReadsSafetensorsCsvAndJsonFromFilesOfAnyName) {
  save_worked_example<float>(folder_);
  expect("", {{"o.npy", kSquare, kScaledOutput}});
  const Tensor query = read_npy(folder_ / "q.npy"), key = read_npy(folder_ / "k.npy");
  write_safetensors(folder_ / "all.safetensors", {.tensors = {{"q", query}, {"k", key}}, .metadata = {}});
  for (const char* name : {"v.csv", "V.CSV"}) folder_.put(name, "1,2,3\n2,8,0\n2,6,3\n");
  folder_.put("v.json", "[[1, 2, 3], [2, 8, 0], [2, 6, 3]]");
  folder_.put("v\xc3\xa4 lue.npy", slurp(folder_ / "v.npy"));
  for (const std::string value : {"v.csv", "V.CSV", "v.json", "v\xc3\xa4 lue.npy"}) {
    const std::string out = "aus gabe\xc3\xa4\xe2\x82\xac.NPY";
    folder_.text("attend --query all.safetensors:q --key all.safetensors:k --dtype f32 --value '" + value +
                 "' --out '" + out + "'");
    EXPECT_TRUE(slurp(folder_ / out) == slurp(folder_ / "o.npy")) << value;
    std::filesystem::remove(folder_ / out);
  }
}

TEST_F(Attend, ShapesOfBatchesAndGroupedHeads) {
  save_inputs({2, 4, 3, 2}, std::vector<float>(48), {2, 2, 1, 2}, std::vector<float>(8, 1), {2, 2, 1, 5},
              std::vector<float>(20, 7));
  expect("--weights w.npy --logits z.npy --log-sum-exp l.npy --threads 2",
         {{"o.npy", {2, 4, 3, 5}, std::vector<double>(120, 7)},
          {"w.npy", {2, 4, 3, 1}, std::vector<double>(24, 1)},
          {"z.npy", {2, 4, 3, 1}, std::vector<double>(24)},
          {"l.npy", {2, 4, 3}, std::vector<double>(24)}});
}

TEST_F(Attend, MasksOfPositions) {
  save_indifferent_queries();
  save<std::int32_t>("two.npy", {1}, {2});
  save<std::uint8_t>("a.npy", {3, 4}, {1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
  save<std::uint8_t>("b.npy", {1, 4}, {1, 0, 1, 1});
  save<std::int64_t>("k_ids.npy", {4}, {7, 7, 2, 7});
  save<std::int32_t>("q_ids.npy", {3}, {2, 7, 9});
  // Three queries over four keys: bottom-right, query i is at i + 1.
  const struct {
    const char* options;
    std::vector<double> visible;
  } cases[] = {
      {"", std::vector<double>(12, 1)},
      {"--causal top-left", {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0}},
      {"--causal bottom-right", {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}},
      {"--window 1,0", {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0}},
      {"--window -1,1", {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}},
      {"--window 0,-1", {1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1}},
      {"--window 1,5 --causal bottom-right", {1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1}},
      {"--window 1,0 --align bottom-right", {1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1}},
      {"--window 1,0 --align top-left", {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0}},
      {"--prefix two.npy", {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0}},
      {"--prefix two.npy --align bottom-right", {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1}},
      {"--dilated 1,0,2", {1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0}},
      {"--dilated -1,-1,3 --align bottom-right", {0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1}},
      {"--dilated -1,-1,2 --window 1,1", {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}},
      {"--mask a.npy --mask b.npy", {1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1}},
      {"--documents q_ids.npy --documents-key k_ids.npy", {0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0}},
  };
  for (const auto& [options, visible] : cases) expect_weights(options, {3, 4}, visible);
  write_npy(folder_ / "q.npy", Tensor::zeros({4, 2}));
  expect_weights("--documents k_ids.npy", {4, 4}, {1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1});
}

TEST_F(Attend, MaskAndLengths) {
  save_indifferent_queries({2, 1});
  const Dims shape = {2, 1, 3, 4};
  std::vector<double> both = {1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0};
  both.resize(24, 0);  // the second sequence has no keys
  save<std::int32_t>("n.npy", {2}, {3, 0});
  expect_weights("--lengths n.npy", shape, both);
  save<std::int64_t>("n.npy", {2}, {3, 0});
  expect_weights("--lengths n.npy", shape, both);
  const std::vector<double> twice = {0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  save<std::uint8_t>("m.npy", {3, 4}, {0, 2, 0, 1, 255, 0, 0, 0, 0, 0, 0, 0});
  expect_weights("--mask m.npy", shape, twice);
  write_npy(folder_ / "m.npy", convert(read_npy(folder_ / "m.npy"), Dtype::boolean));
  expect_weights("--mask m.npy", shape, twice);
  std::vector<double> logits = twice;
  for (double& logit : logits) logit = logit > 0 ? 0 : -kInfinity;
  const double ln2 = std::numbers::ln2;
  expect("--mask m.npy --log-sum-exp l.npy --logits z.npy",
         {{"l.npy", {2, 1, 3}, {ln2, 0, -kInfinity, ln2, 0, -kInfinity}}, {"z.npy", shape, logits}});
  save<std::uint8_t>("m.npy", {2, 1, 1, 4}, {1, 0, 0, 1, 0, 1, 0, 0});
  expect_weights("--mask m.npy --causal top-left", shape,
                 {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0});
}

TEST_F(Attend, EmptyRows) {
  save_indifferent_queries();
  save<std::uint8_t>("m.npy", {3, 4}, {1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1});
  const auto nans_of = [&](const std::string& name) {
    std::string rows;
    const Tensor array = read_npy(folder_ / name);
    for (std::int64_t i = 0; i < 3; ++i) rows += std::isnan(array.view().at<float>({i, 1})) ? "x" : ".";
    return rows;
  };
  for (const auto& [value, expected] : {std::pair("zero", "..."), {"nan", ".x."}}) {
    expect("--mask m.npy --weights w.npy --empty-rows " + std::string(value), {});
    EXPECT_EQ(nans_of("o.npy") + nans_of("w.npy"), std::string(expected) + expected);
  }
  EXPECT_TRUE(holds(folder_.text(kAttend + "--mask m.npy --empty-rows nan --verify 3"), "largest error 0,"));
}

TEST_F(Attend, Sinks) {
  save_indifferent_queries({2});
  save<float>("s.npy", {2}, {2 * kLn2, -1e30f});
  std::vector<double> weights(24, 0.25);
  std::fill_n(weights.begin(), 12, 0.125);
  const double ln8 = std::log(8.0), ln4 = std::log(4.0);
  expect("--sinks s.npy --weights w.npy --log-sum-exp l.npy",
         {{"w.npy", {2, 3, 4}, weights}, {"l.npy", {2, 3}, {ln8, ln8, ln8, ln4, ln4, ln4}}});
}

TEST_F(Attend, BiasAndAlibi) {
  save_indifferent_queries({1, 2});
  const Dims shape = {1, 2, 3, 4};
  save<float>("b.npy", {1, 4}, {kLn2, 0, 0, 0});
  expect_weights("--bias b.npy", shape, {2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1});
  for (const Dims& slopes : {Dims{2}, Dims{1, 2}}) {
    save<float>("s.npy", slopes, {kLn2, 0});
    expect_weights("--alibi s.npy", shape, {8, 4, 2, 1, 4, 8, 4, 2, 2, 4, 8, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  }
  expect("--alibi s.npy --bias b.npy --dtype f64", {});  // slopes and bias in f32 widen
  save_indifferent_queries({1});
  save<float>("s.npy", {1}, {kLn2});
  expect_weights("--alibi s.npy --align bottom-right", {1, 3, 4}, {4, 8, 4, 2, 2, 4, 8, 4, 1, 2, 4, 8});
}

// Tables of the logarithms of shares: [buckets, 1].
TEST_F(Attend, RelativeTables) {
  save_indifferent_queries({1});
  const Dims shape = {1, 3, 4};
  const auto save_logarithms = [&](const char* name, std::vector<float> shares) {
    for (float& share : shares) share = std::log(share);
    save<float>(name, {static_cast<std::int64_t>(shares.size()), 1}, shares);
  };
  save_logarithms("t.npy", {1, 2, 3, 4, 5});
  save_logarithms("near.npy", {1, 3, 1});
  expect_weights("--clipped-table t.npy", shape, {3, 4, 5, 5, 2, 3, 4, 5, 1, 2, 3, 4});
  expect_weights("--clipped-table near.npy --align bottom-right", shape, {1, 3, 1, 1, 1, 1, 3, 1, 1, 1, 1, 3});
  // Distances 0 and 1 have a bucket each, 2 and more share one; keys behind the query the second half.
  save_logarithms("t5.npy", {1, 2, 3, 9, 5, 6, 7, 8});
  expect_weights("--t5-table t5.npy --t5-max-distance 4", shape, {1, 6, 7, 8, 2, 1, 6, 7, 3, 2, 1, 6});
  expect_weights("--t5-table t5.npy --t5-bidirectional no", shape, {1, 1, 1, 1, 2, 1, 1, 1, 3, 2, 1, 1});
  // Four positions, two by two; three queries at the first ones.
  save_logarithms("s.npy", {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_weights("--swin-table s.npy --swin-window 2,2", shape, {5, 4, 2, 1, 6, 5, 3, 2, 8, 7, 5, 4});
}

TEST_F(Attend, SoftCapAndScaleMakeTheLogits) {
  save_inputs({1, 1}, {3}, {2, 1}, {1, -2}, {2, 1}, {1, 2});
  expect("--scale -0.5 --soft-cap 2 --logits z.npy",
         {{"z.npy", {1, 2}, {2 * std::tanh(-1.5 / 2), 2 * std::tanh(3.0 / 2)}}});
}

TEST_F(Attend, ScoresWithParameters) {
  save_inputs({1, 1}, {1}, {2, 1}, {0, 1}, {2, 1}, {1, 2});
  save<float>("a.npy", {1, 1}, {1});
  save<float>("b.npy", {1, 1}, {2});
  save<float>("c.npy", {1}, {3});
  save<float>("w.npy", {1, 2}, {1, 2});
  save<double>("s.npy", {1, 1}, {5});
  const std::vector<double> expected = {3 * std::tanh(1.0), 3 * std::tanh(3.0)};
  for (const std::string score : {"additive --score-w-query a.npy --score-w-key b.npy", "concat --score-w w.npy"}) {
    expect("--score " + score + " --score-v c.npy --logits z.npy", {{"z.npy", {1, 2}, expected}});
  }
  expect("--score bilinear --score-w s.npy --logits z.npy --dtype f64", {{"z.npy", {1, 2}, {0, 5}, Dtype::f64}}, 1e-14);
}

// Sequences of 1 and 2 queries over 3 and 1 keys; with queries of zero the output is the mean of the visible values.
TEST_F(Attend, PackedSequences) {
  save_inputs({3, 1, 2}, std::vector<float>(6), {4, 1, 2}, std::vector<float>(8, 1), {4, 1, 1}, {1, 2, 6, 40});
  save<std::int32_t>("oq.npy", {3}, {0, 1, 3});
  save<std::int64_t>("ok.npy", {3}, {0, 3, 4});
  const double third = 1.0 / 3;
  expect("--offsets-query oq.npy --offsets-key ok.npy --weights w.npy --logits z.npy --log-sum-exp l.npy",
         {{"o.npy", {3, 1, 1}, {3, 40, 40}},
          {"w.npy", {3, 1, 3}, {third, third, third, 1, 0, 0, 1, 0, 0}},
          {"z.npy", {3, 1, 3}, {0, 0, 0, 0, -kInfinity, -kInfinity, 0, -kInfinity, -kInfinity}},
          {"l.npy", {3, 1}, {std::log(3.0), 0, 0}}});
}

// Two sequences of three keys and one, in pages of two rows; the third page holds what nobody may read.
TEST_F(Attend, PagedKeys) {
  const float nan = std::nanf("");
  save_inputs({2, 1, 1, 1}, {0, 0}, {4, 2, 1, 1}, {1, nan, 1, 1, nan, nan, 1, nan}, {4, 2, 1, 1},
              {3, nan, 5, 7, nan, nan, 11, nan});
  save<std::int32_t>("t.npy", {2, 2}, {1, 0, 3, -1});
  save<std::int32_t>("n.npy", {2}, {3, 1});
  expect("--block-table t.npy --lengths n.npy --weights w.npy",
         {{"o.npy", {2, 1, 1, 1}, {5, 11}}, {"w.npy", {2, 1, 1, 3}, {1 / 3., 1 / 3., 1 / 3., 1, 0, 0}}});
  const Outcome open = folder_.run(kAttend + "--block-table t.npy");
  expect_message(open, 3, "qkv attend", "block_table[1, 1] is -1");
}

// Keys of equal score: the output is the mean of the values that a query sees.
TEST_F(Attend, AppendsToACache) {
  save_inputs({1, 1, 2, 1}, {0, 0}, {1, 1, 2, 1}, {2, 3}, {1, 1, 2, 1}, {0, 9});
  save<float>("pk.npy", {1, 1, 1, 1}, {1});
  save<float>("pv.npy", {1, 1, 1, 1}, {6});
  const std::string past = "--past-key pk.npy --past-value pv.npy ";
  expect(past + "--causal bottom-right --weights w.npy --present-key ak.npy --present-value av.npy",
         {{"o.npy", {1, 1, 2, 1}, {3, 5}},
          {"w.npy", {1, 1, 2, 3}, {0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3}},
          {"ak.npy", {1, 1, 3, 1}, {1, 2, 3}},
          {"av.npy", {1, 1, 3, 1}, {6, 0, 9}}});
  expect(past + "--dtype bf16", {{"o.npy", {1, 1, 2, 1}, {5, 5}}});
  const auto refused = [&](const std::string& options, const std::string& part) {
    expect_message(folder_.run(kAttend + past + options), 3, "qkv attend", part);
  };
  refused("--causal top-left", "");
  save<float>("pk.npy", {1, 2, 1, 1}, {1, 1});
  refused("", "rows of 2 heads");
  save<float>("pk.npy", {1, 1}, {1});
  refused("", "");
}

TEST_F(Attend, Verify) {
  save_worked_example<float>(folder_);
  const std::string three = folder_.text(kAttend + "--verify 64");
  EXPECT_TRUE(three.starts_with("3 rows recomputed in double precision: largest error ")) << three;
  EXPECT_TRUE(holds(three, "largest value 7.81")) << three;
  // One query of two heads that share keys, of which only one has a slope.
  std::vector<float> numbers(40 * 16);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i * i % 97));
  save_inputs({2, 1, 16}, {numbers.begin(), numbers.begin() + 32}, {1, 40, 16}, numbers, {1, 40, 16}, numbers);
  save<float>("s.npy", {2}, {0, 0.1f});
  const std::string slopes = folder_.text(kAttend + "--alibi s.npy --causal bottom-right --verify 2"),
                    said = "largest error ";
  ASSERT_TRUE(holds(slopes, said)) << slopes;
  EXPECT_LT(std::stod(slopes.substr(slopes.find(said) + said.size())), 1e-6) << slopes;
}

TEST_F(Attend, EmptyArraysGiveEmptyOrZeroResults) {
  save_inputs({2, 3}, std::vector<float>(6), {0, 3}, {}, {0, 2}, {});
  expect("--weights w.npy --log-sum-exp l.npy",
         {{"o.npy", {2, 2}, {0, 0, 0, 0}}, {"w.npy", {2, 0}, {}}, {"l.npy", {2}, {-kInfinity, -kInfinity}}});
}

// Two keys of equal score: weights 1/2, 1/2. A tangent of 1 of the query moves their scores by 2 and 4, the weights by
// -1/2 and 1/2, and the output by (3 - 1) / 2; one of the values adds its mean.
TEST_F(Attend, Tangents) {
  save_inputs({1, 2}, {0, 0}, {2, 2}, {2, 0, 4, 0}, {2, 1}, {1, 3});
  save<float>("tq.npy", {1, 2}, {1, 0});
  save<float>("tk.npy", {2, 2}, {1, 1, 1, 1});
  save<float>("tv.npy", {2, 1}, {10, 20});
  const std::string query = "--scale 1 --tangent-query tq.npy --tangent-out t.npy ";
  expect(query, {{"o.npy", {1, 1}, {2}}, {"t.npy", {1, 1}, {1}}});
  expect(query + "--tangent-value tv.npy --tangent-key tk.npy", {{"t.npy", {1, 1}, {16}}});
}

// Two keys of equal score: weights 1/2, 1/2; grad_out . values = 1, 3; logits' gradients 1/2 (1 - 2), 1/2 (3 - 2).
TEST_F(Attend, Gradients) {
  save_inputs({1, 1}, {2}, {2, 1}, {5, 5}, {2, 1}, {1, 3});
  save<float>("g.npy", {1, 1}, {1});
  save<float>("t.npy", {3, 1}, {0, 0, 0});
  save<float>("zero.npy", {1}, {0});
  save<float>("ten.npy", {1}, {10});
  save<float>("b.npy", {2}, {1, 1});
  save<float>("b1.npy", {2}, {1, -1});
  save<float>("b2.npy", {1, 2}, {3, 5});
  const std::string gradient = "--grad-out g.npy ";
  expect(
      gradient + "--grad-query dq.npy --grad-key dk.npy --grad-value dv.npy",
      {{"o.npy", {1, 1}, {2}}, {"dq.npy", {1, 1}, {0}}, {"dk.npy", {2, 1}, {-1, 1}}, {"dv.npy", {2, 1}, {0.5, 0.5}}});
  // A table and slopes of 0 change nothing; dS = -1/2 at distance 0, 1/2 at distance 1.
  expect(gradient + "--clipped-table t.npy --grad-clipped-table dt.npy --alibi zero.npy --grad-alibi ds.npy",
         {{"dt.npy", {3, 1}, {0, -0.5, 0.5}}, {"ds.npy", {1}, {-0.5}}});
  // Rows of Shaw's table are multiplied with the query, 2.
  expect(gradient + "--shaw-table t.npy --grad-shaw-table dt.npy", {{"dt.npy", {3, 1}, {0, -1, 1}}});
  // A sink of the logit 10 that both keys have: three weights of 1/3, out = 4/3, and -1/3 * 4/3.
  expect(gradient + "--sinks ten.npy --grad-sinks ds.npy", {{"ds.npy", {1}, {-4.0 / 9}}});
  expect(gradient + "--bias b.npy --grad-bias db.npy", {{"db.npy", {2}, {-0.5, 0.5}}});
  const std::string biases = "--bias b1.npy --bias b2.npy --grad-bias d1.npy ";
  expect(gradient + biases + "--grad-bias d2.npy --logits z.npy",
         {{"z.npy", {1, 2}, {14, 14}}, {"d1.npy", {2}, {-0.5, 0.5}}, {"d2.npy", {1, 2}, {-0.5, 0.5}}});
  expect(gradient + biases, {{"d1.npy", {2}, {-0.5, 0.5}}});
}

// Three keys of equal score, weights 1/3. Along a tangent of 1 of the query the logits move by 2, 4 and 0, log-sum-exp
// by their mean 2, and the output by (2 + 12 + 0) / 3 - 2 * 3 = -4/3. With the words of attention_double_backward.h:
// A = 0, 2, -2; B = -2, 0, 2; C = 4/3, so that P (C + A B) = 4/9, 4/9, -8/9.
TEST_F(Attend, TangentOfLogSumExpAndSecondGradients) {
  save_inputs({1, 1}, {0}, {3, 1}, {2, 4, 0}, {3, 1}, {1, 3, 5});
  save<float>("tq.npy", {1, 1}, {1});
  save<float>("g.npy", {1, 1}, {1});
  expect("--tangent-query tq.npy --tangent-log-sum-exp tl.npy", {{"tl.npy", {1}, {2}}});
  expect(
      "--tangent-query tq.npy --grad-out g.npy --second-grad-query ddq.npy --second-grad-key ddk.npy "
      "--second-grad-value ddv.npy --second-grad-out ddo.npy --tangent-out to.npy --grad-value dv.npy",
      {{"ddq.npy", {1, 1}, {8.0 / 3}},
       {"ddk.npy", {3, 1}, {-2.0 / 3, 0, 2.0 / 3}},
       {"ddv.npy", {3, 1}, {0, 2.0 / 3, -2.0 / 3}},
       {"ddo.npy", {1, 1}, {-4.0 / 3}},
       {"to.npy", {1, 1}, {-4.0 / 3}},
       {"dv.npy", {3, 1}, {1.0 / 3, 1.0 / 3, 1.0 / 3}}});
}

// Equal scores make weights 1/20, and values [i == j] make them the output: a kept weight is divided by 3/4.
TEST_F(Attend, DropoutKeepsWhatTheMaskSays) {
  const Tensor mask = read_npy(QKV_TEST_DATA "/golden/dropout/whole.npy");
  std::vector<float> identity(400);
  std::vector<double> wanted;
  for (std::size_t j = 0; j < 20; ++j) identity[21 * j] = 1;
  for (std::int64_t i = 0; i < 17 * 20; ++i) wanted.push_back(mask.data<std::uint8_t>()[i] / 15.0);
  save_inputs({17, 1}, std::vector<float>(17), {20, 1}, std::vector<float>(20), {20, 20}, identity);
  expect("--dropout 0.25 --seed 7", {{"o.npy", {17, 20}, wanted}});
}

// As on a full disk, with ulimit -f. The output alone would fit: a write that fails leaves none of the files.
TEST_F(Attend, WritesAllOrNothing) {
  const std::vector<float> zeros(300);
  save_inputs({100, 3}, zeros, {100, 3}, zeros, {100, 3}, zeros);
  save<float>("o.npy", {1}, {7});
  const auto before = folder_.files();
  for (const auto& [options, limit, name] : {std::tuple("--weights w.npy", 8192, "w"), {"--dtype f64", 2048, "o"}}) {
    const Outcome outcome = folder_.run(kAttend + options, {.file_size = std::size_t(limit)});
    expect_message(outcome, 4, "qkv attend", name + std::string(".npy: cannot write: File too large\n"));
    EXPECT_TRUE(folder_.files() == before);
  }
}

}  // namespace
}  // namespace qkv::test
