// qkv attend: numbers that are known, for every option.
#include "apps/attend.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace qkv::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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

TEST_F(Attend, WorkedExampleUnscaled) {
  save_worked_example<float>();
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--scale", "1"}, {"--score", "dot"}, {"--score=scaled-dot", "--scale=1.0"}}) {
    std::vector<std::string> options = {"--weights",       folder_ / "w.npy", "--logits",
                                        folder_ / "z.npy", "--log-sum-exp",   folder_ / "l.npy"};
    options.insert(options.end(), option.begin(), option.end());
    expect_success(attend(options));
    expect_array("o.npy", Dtype::f32, {3, 3}, kUnscaledOutput);
    expect_array("w.npy", Dtype::f32, {3, 3}, kUnscaledWeights);
    expect_array("z.npy", Dtype::f32, {3, 3}, kUnscaledLogits);
    expect_array("l.npy", Dtype::f32, {3}, kUnscaledLogSumExp);
  }
}

TEST_F(Attend, WorkedExampleScaled) {
  save_worked_example<float>();
  expect_success(attend({"--log-sum-exp", folder_ / "l.npy"}));
  expect_array("o.npy", Dtype::f32, {3, 3}, kScaledOutput);
  expect_array("l.npy", Dtype::f32, {3}, kScaledLogSumExp);
}

TEST_F(Attend, WorkedExampleWithLookAheadMask) {
  save_worked_example<float>();
  for (const char* align : {"top-left", "bottom-right"}) {
    expect_success(attend({"--causal", align}));
    expect_array("o.npy", Dtype::f32, {3, 3}, kLookAheadOutput);
  }
}

// bf16 holds the example's inputs; each weight is rounded by up to 2^-8, to values of up to 8.
TEST_F(Attend, PrecisionReduced) {
  save_worked_example<float>();
  expect_success(attend({"--precision", "reduced"}));
  expect_array("o.npy", Dtype::f32, {3, 3}, kScaledOutput, 0.033);
}

TEST_F(Attend, DoublePrecisionComesFromTheFilesOrTheOption) {
  save_worked_example<double>();
  expect_success(attend({"--log-sum-exp", folder_ / "l.npy"}));
  expect_array("o.npy", Dtype::f64, {3, 3}, kScaledOutput, 1e-8);  // the gold numbers have nine digits
  expect_array("l.npy", Dtype::f64, {3}, kScaledLogSumExp, 1e-8);
  save_worked_example<float>();
  expect_success(attend({"--dtype", "f64", "--scale", "1"}));
  expect_array("o.npy", Dtype::f64, {3, 3}, kUnscaledOutput, 1e-8);
}

TEST_F(Attend, DtypeIsTheStorageInside) {
  // One key: the output is its value as stored. 1 + 2^-8 and 1 + 2^-11 lie half way between neighbours of the short
  // types.
  save<float>("q.npy", {1, 2}, {1, 1});
  save<float>("k.npy", {1, 2}, {1, 1});
  save<float>("v.npy", {1, 2}, {1.00390625f, 1.00048828125f});
  expect_success(attend({"--dtype", "bf16"}));
  expect_array("o.npy", Dtype::f32, {1, 2}, {1, 1}, 0);
  expect_success(attend({"--dtype", "f16"}));
  expect_array("o.npy", Dtype::f32, {1, 2}, {1.00390625, 1}, 0);
  expect_success(attend({}));
  expect_array("o.npy", Dtype::f32, {1, 2}, {1.00390625, 1.00048828125}, 0);
}

TEST_F(Attend, IntegersNeedADtype) {
  save_worked_example<std::int32_t>();
  expect_message(attend({}), 3, "qkv attend", "holds i32");
  expect_success(attend({"--dtype", "f32"}));
  expect_array("o.npy", Dtype::f32, {3, 3}, kScaledOutput);
}

TEST_F(Attend, ReadsSafetensorsCsvAndJson) {
  save_worked_example<float>();
  write_safetensors(
      folder_ / "all.safetensors",
      {.tensors = {{"q", read_npy(folder_ / "q.npy")}, {"k", read_npy(folder_ / "k.npy")}}, .metadata = {}});
  std::ofstream(folder_ / "v.csv") << "1,2,3\n2,8,0\n2,6,3\n";
  std::ofstream(folder_ / "v.json") << "[[1, 2, 3], [2, 8, 0], [2, 6, 3]]";
  std::filesystem::copy(folder_ / "v.csv", folder_ / "V.CSV");
  for (const char* value : {"v.csv", "v.json", "V.CSV"}) {
    expect_success(
        run_program({"attend", "--query", folder_ / "all.safetensors:q", "--key", folder_ / "all.safetensors:k",
                     "--value", folder_ / value, "--dtype", "f32", "--out", folder_ / "o.npy"}));
    expect_array("o.npy", Dtype::f32, {3, 3}, kScaledOutput);
  }
}

TEST_F(Attend, ShapesOfBatchesAndGroupedHeads) {
  save<float>("q.npy", {2, 4, 3, 2}, std::vector<float>(48, 0));
  save<float>("k.npy", {2, 2, 1, 2}, std::vector<float>(8, 1));
  save<float>("v.npy", {2, 2, 1, 5}, std::vector<float>(20, 7));
  expect_success(attend({"--weights", folder_ / "w.npy", "--logits", folder_ / "z.npy", "--log-sum-exp",
                         folder_ / "l.npy", "--threads", "2"}));
  expect_array("o.npy", Dtype::f32, {2, 4, 3, 5}, std::vector<double>(120, 7));
  expect_array("w.npy", Dtype::f32, {2, 4, 3, 1}, std::vector<double>(24, 1));
  expect_array("z.npy", Dtype::f32, {2, 4, 3, 1}, std::vector<double>(24, 0));
  expect_array("l.npy", Dtype::f32, {2, 4, 3}, std::vector<double>(24, 0));
}

TEST_F(Attend, CausalAndWindow) {
  save_indifferent_queries();
  const Dims shape = {3, 4};
  expect_weights({}, shape, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  expect_weights({"--causal", "top-left"}, shape, {1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0});
  expect_weights({"--causal", "bottom-right"}, shape, {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  expect_weights({"--window", "1,0"}, shape, {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0});
  expect_weights({"--window", "-1,1"}, shape, {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  expect_weights({"--window", "0,-1"}, shape, {1, 1, 1, 1, 0, 1, 1, 1, 0, 0, 1, 1});
  expect_weights({"--window", "1,5", "--causal", "bottom-right"}, shape, {1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1});
}

TEST_F(Attend, MaskAndLengths) {
  save_indifferent_queries({2, 1});
  const Dims shape = {2, 1, 3, 4};
  const std::vector<double> first = {1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0};
  std::vector<double> both = first;
  both.resize(24, 0);  // the second sequence has no keys
  expect_weights({"--lengths", save<std::int32_t>("n.npy", {2}, {3, 0})}, shape, both);
  expect_weights({"--lengths", save<std::int64_t>("n.npy", {2}, {3, 0})}, shape, both);
  const std::vector<double> rows = {0, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0};
  std::vector<double> twice = rows;
  twice.insert(twice.end(), rows.begin(), rows.end());
  expect_weights({"--mask", save<std::uint8_t>("m.npy", {3, 4}, {0, 2, 0, 1, 255, 0, 0, 0, 0, 0, 0, 0})}, shape, twice);
  write_npy(folder_ / "m.npy", convert(read_npy(folder_ / "m.npy"), Dtype::boolean));
  expect_weights({"--mask", folder_ / "m.npy", "--log-sum-exp", folder_ / "l.npy", "--logits", folder_ / "z.npy"},
                 shape, twice);
  const double ln2 = std::numbers::ln2;
  expect_array("l.npy", Dtype::f32, {2, 1, 3}, {ln2, 0, -kInfinity, ln2, 0, -kInfinity});
  std::vector<double> logits = twice;
  for (double& logit : logits) logit = logit > 0 ? 0 : -kInfinity;
  expect_array("z.npy", Dtype::f32, shape, logits);
  expect_weights(
      {"--mask", save<std::uint8_t>("m.npy", {2, 1, 1, 4}, {1, 0, 0, 1, 0, 1, 0, 0}), "--causal", "top-left"}, shape,
      {1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0});
}

TEST_F(Attend, Documents) {
  save_indifferent_queries();
  const std::string key = save<std::int64_t>("k_ids.npy", {4}, {7, 7, 2, 7});
  expect_weights({"--documents", save<std::int32_t>("q_ids.npy", {3}, {2, 7, 9}), "--documents-key", key}, {3, 4},
                 {0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0});
  write_npy(folder_ / "q.npy", Tensor::zeros({4, 2}));
  expect_weights({"--documents", key}, {4, 4}, {1, 1, 0, 1, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 1});
  expect_message(attend({"--documents-key", key}), 2, "qkv attend", "--documents");
  expect_message(attend({"--documents", folder_ / "q_ids.npy"}), 3, "qkv attend", "query documents [3]");
}

TEST_F(Attend, Sinks) {
  save_indifferent_queries({2});
  const float ln4 = 2 * std::numbers::ln2_v<float>;
  expect_success(attend({"--sinks", save<float>("s.npy", {2}, {ln4, -1e30f}), "--weights", folder_ / "w.npy",
                         "--log-sum-exp", folder_ / "l.npy"}));
  std::vector<double> weights(24, 0.25);
  std::fill_n(weights.begin(), 12, 0.125);
  expect_array("w.npy", Dtype::f32, {2, 3, 4}, weights);
  const double ln8 = std::log(8.0);
  expect_array("l.npy", Dtype::f32, {2, 3}, {ln8, ln8, ln8, ln4, ln4, ln4});
  expect_message(attend({"--sinks", save<float>("s.npy", {3}, {0, 0, 0})}), 3, "qkv attend", "sinks");
}

TEST_F(Attend, BiasAndAlibi) {
  save_indifferent_queries({1, 2});
  const float ln2 = std::numbers::ln2_v<float>;
  const Dims shape = {1, 2, 3, 4};
  expect_weights({"--bias", save<float>("b.npy", {1, 4}, {ln2, 0, 0, 0})}, shape,
                 {2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1});
  const std::vector<double> alibi = {8, 4, 2, 1, 4, 8, 4, 2, 2, 4, 8, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  expect_weights({"--alibi", save<float>("s.npy", {2}, {ln2, 0})}, shape, alibi);
  expect_weights({"--alibi", save<float>("s.npy", {1, 2}, {ln2, 0})}, shape, alibi);
  // In double precision, slopes and bias in f32 widen.
  expect_success(attend({"--alibi", folder_ / "s.npy", "--bias", folder_ / "b.npy", "--dtype", "f64"}));
  expect_message(attend({"--bias", save<double>("b.npy", {1, 4}, {1, 0, 0, 0})}), 3, "qkv attend", "holds f64");
  expect_message(attend({"--bias", save<std::int32_t>("b.npy", {1, 4}, {1, 0, 0, 0})}), 3, "qkv attend", "holds i32");
}

// Tables of the logarithms of shares: [buckets, 1].
TEST_F(Attend, RelativeTables) {
  save_indifferent_queries({1});
  const Dims shape = {1, 3, 4};
  const auto logarithms = [&](const char* name, std::vector<float> shares) {
    for (float& share : shares) share = std::log(share);
    return save<float>(name, {static_cast<std::int64_t>(shares.size()), 1}, shares);
  };
  expect_weights({"--clipped-table", logarithms("t.npy", {1, 2, 3, 4, 5})}, shape,
                 {3, 4, 5, 5, 2, 3, 4, 5, 1, 2, 3, 4});
  // Distances 0 and 1 have a bucket each, 2 and more share one; keys behind the query the second half.
  const std::string t5 = logarithms("t5.npy", {1, 2, 3, 9, 5, 6, 7, 8});
  expect_weights({"--t5-table", t5, "--t5-max-distance", "4"}, shape, {1, 6, 7, 8, 2, 1, 6, 7, 3, 2, 1, 6});
  expect_weights({"--t5-table", t5, "--t5-bidirectional", "no"}, shape, {1, 1, 1, 1, 2, 1, 1, 1, 3, 2, 1, 1});
  // Four positions, two by two; three queries at the first ones.
  const std::vector<double> differences = {5, 4, 2, 1, 6, 5, 3, 2, 8, 7, 5, 4};
  const std::string swin = logarithms("s.npy", {1, 2, 3, 4, 5, 6, 7, 8, 9});
  expect_weights({"--swin-table", swin, "--swin-window", "2,2"}, shape, differences);
  expect_message(attend({"--swin-table", swin}), 2, "qkv attend", "--swin-window");
  expect_message(attend({"--shaw-table", save<float>("r.npy", {2, 1}, {1, 1})}), 3, "qkv attend", "2 n + 1 rows");
  expect_message(attend({"--swin-table", swin, "--swin-window", "2"}), 2, "qkv attend", "--swin-window");
  expect_message(attend({"--swin-table", swin, "--swin-window", "3,2"}), 3, "qkv attend", "(2 * 3 - 1)");
  expect_message(attend({"--t5-max-distance", "4"}), 2, "qkv attend", "--t5-table");
}

TEST_F(Attend, SoftCapAndScaleMakeTheLogits) {
  save<float>("q.npy", {1, 1}, {3});
  save<float>("k.npy", {2, 1}, {1, -2});
  save<float>("v.npy", {2, 1}, {1, 2});
  expect_success(attend({"--scale", "-0.5", "--soft-cap", "2", "--logits", folder_ / "z.npy"}));
  expect_array("z.npy", Dtype::f32, {1, 2}, {2 * std::tanh(-1.5 / 2), 2 * std::tanh(3.0 / 2)});
}

TEST_F(Attend, ScoresWithParameters) {
  save<float>("q.npy", {1, 1}, {1});
  save<float>("k.npy", {2, 1}, {0, 1});
  save<float>("v.npy", {2, 1}, {1, 2});
  const std::string w_query = save<float>("a.npy", {1, 1}, {1});
  const std::string w_key = save<float>("b.npy", {1, 1}, {2});
  const std::string v = save<float>("c.npy", {1}, {3});
  const std::string w = save<float>("w.npy", {1, 2}, {1, 2});
  const std::string square = save<double>("s.npy", {1, 1}, {5});
  const std::vector<double> expected = {3 * std::tanh(1.0), 3 * std::tanh(3.0)};
  expect_success(attend({"--score", "additive", "--score-w-query", w_query, "--score-w-key", w_key, "--score-v", v,
                         "--logits", folder_ / "z.npy"}));
  expect_array("z.npy", Dtype::f32, {1, 2}, expected);
  expect_success(attend({"--score", "concat", "--score-w", w, "--score-v", v, "--logits", folder_ / "z.npy"}));
  expect_array("z.npy", Dtype::f32, {1, 2}, expected);
  expect_success(attend({"--score", "bilinear", "--score-w", square, "--logits", folder_ / "z.npy", "--dtype", "f64"}));
  expect_array("z.npy", Dtype::f64, {1, 2}, {0, 5}, 1e-14);
  expect_message(attend({"--score", "bilinear", "--score-w", square}), 3, "qkv attend", "--score-w");
  expect_message(attend({"--score", "bilinear"}), 2, "qkv attend", "--score-w is missing");
  expect_message(attend({"--score-v", v}), 2, "qkv attend", "--score-v");
}

TEST_F(Attend, PackedSequences) {
  // Sequences of 1 and 2 queries over 3 and 1 keys; with queries of zero the output is the mean of the visible values.
  save<float>("q.npy", {3, 1, 2}, std::vector<float>(6, 0));
  save<float>("k.npy", {4, 1, 2}, std::vector<float>(8, 1));
  save<float>("v.npy", {4, 1, 1}, {1, 2, 6, 40});
  const std::string offsets_query = save<std::int32_t>("oq.npy", {3}, {0, 1, 3});
  const std::string offsets_key = save<std::int64_t>("ok.npy", {3}, {0, 3, 4});
  const std::vector<std::string> packed = {"--offsets-query", offsets_query, "--offsets-key", offsets_key};
  std::vector<std::string> options = packed;
  options.insert(options.end(),
                 {"--weights", folder_ / "w.npy", "--logits", folder_ / "z.npy", "--log-sum-exp", folder_ / "l.npy"});
  expect_success(attend(options));
  expect_array("o.npy", Dtype::f32, {3, 1, 1}, {3, 40, 40});
  const double third = 1.0 / 3;
  expect_array("w.npy", Dtype::f32, {3, 1, 3}, {third, third, third, 1, 0, 0, 1, 0, 0});
  expect_array("z.npy", Dtype::f32, {3, 1, 3}, {0, 0, 0, 0, -kInfinity, -kInfinity, 0, -kInfinity, -kInfinity});
  expect_array("l.npy", Dtype::f32, {3, 1}, {std::log(3.0), 0, 0});
  expect_message(attend({"--offsets-query", offsets_query}), 2, "qkv attend", "--offsets-key");
  expect_message(attend({"--offsets-key", offsets_key}), 2, "qkv attend", "--offsets-query");
  options[3] = save<std::int32_t>("ok.npy", {3}, {0, 3, 1000000000});
  expect_message(attend(options), 3, "qkv attend", "offsets");
  options[3] = save<float>("ok.npy", {3}, {0, 3, 4});
  expect_message(attend(options), 3, "qkv attend", "offsets");
}

// Two sequences of three keys and one, in pages of two rows; the third page holds what nobody may read.
TEST_F(Attend, PagedKeys) {
  const float nan = std::nanf("");
  save<float>("q.npy", {2, 1, 1, 1}, {0, 0});
  save<float>("k.npy", {4, 2, 1, 1}, {1, nan, 1, 1, nan, nan, 1, nan});
  save<float>("v.npy", {4, 2, 1, 1}, {3, nan, 5, 7, nan, nan, 11, nan});
  const std::string table = save<std::int32_t>("t.npy", {2, 2}, {1, 0, 3, -1});
  const std::string lengths = save<std::int32_t>("n.npy", {2}, {3, 1});
  expect_success(attend({"--block-table", table, "--lengths", lengths, "--weights", folder_ / "w.npy"}));
  expect_array("o.npy", Dtype::f32, {2, 1, 1, 1}, {5, 11});
  expect_array("w.npy", Dtype::f32, {2, 1, 1, 3}, {1 / 3., 1 / 3., 1 / 3., 1, 0, 0});
  expect_message(attend({"--block-table", table}), 3, "qkv attend", "block_table[1, 1] is -1");
  expect_message(attend({"--block-table", table, "--offsets-key", lengths}), 2, "qkv attend", "--offsets-key");
}

TEST_F(Attend, Verify) {
  save_worked_example<float>();
  const Outcome outcome = attend({"--verify", "64"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("3 rows recomputed in double precision: largest error "), 0u) << outcome.out;
  EXPECT_NE(outcome.out.find("largest value 7.81"), std::string::npos) << outcome.out;
  expect_message(attend({"--verify", "0"}), 2, "qkv attend", "--verify");
}

// One query of two heads that share keys, of which only one has a slope.
TEST_F(Attend, VerifyFindsNoErrorInGroupsOfDifferentSlopes) {
  std::vector<float> numbers(40 * 16);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i * i % 97));
  save<float>("q.npy", {2, 1, 16}, {numbers.begin(), numbers.begin() + 32});
  save<float>("k.npy", {1, 40, 16}, numbers);
  save<float>("v.npy", {1, 40, 16}, numbers);
  const Outcome outcome =
      attend({"--alibi", save<float>("s.npy", {2}, {0, 0.1f}), "--causal", "bottom-right", "--verify", "2"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string said = "largest error ";
  const std::size_t at = outcome.out.find(said);
  ASSERT_NE(at, std::string::npos) << outcome.out;
  EXPECT_LT(std::stod(outcome.out.substr(at + said.size())), 1e-6) << outcome.out;
}

TEST_F(Attend, EmptyArraysGiveEmptyOrZeroResults) {
  write_npy(folder_ / "q.npy", Tensor::zeros({2, 3}));
  write_npy(folder_ / "k.npy", Tensor::zeros({0, 3}));
  write_npy(folder_ / "v.npy", Tensor::zeros({0, 2}));
  expect_success(attend({"--weights", folder_ / "w.npy", "--log-sum-exp", folder_ / "l.npy"}));
  expect_array("o.npy", Dtype::f32, {2, 2}, {0, 0, 0, 0});
  expect_array("w.npy", Dtype::f32, {2, 0}, {});
  expect_array("l.npy", Dtype::f32, {2}, {-kInfinity, -kInfinity});
}

TEST_F(Attend, EveryTargetAndThreadCountGivesTheGoldNumbers) {
  save_worked_example<float>();
  for (const char* target : {"amx", "avx512-bf16", "avx512", "avx2", "sse4", "neon", "portable"}) {
    const std::string variable = std::string("QKV_TARGET=") + target;
    if (run_program({"info"}, {.environment = {variable}}).code != 0) continue;
    expect_success(attend({"--threads", "3"}, {.environment = {variable}}));
    expect_array("o.npy", Dtype::f32, {3, 3}, kScaledOutput);
  }
}

TEST_F(Attend, NamesMayHoldAnything) {
  save_worked_example<float>();
  const std::string out = folder_ / "aus gabe\xc3\xa4\xe2\x82\xac.NPY";
  std::filesystem::copy(folder_ / "v.npy", folder_ / "v\xc3\xa4 lue.npy");
  expect_success(run_program({"attend", "--query", folder_ / "q.npy", "--key", folder_ / "k.npy", "--value",
                              folder_ / "v\xc3\xa4 lue.npy", "--out", out}));
  EXPECT_TRUE(std::filesystem::exists(out));
}

// Two keys of equal score: weights 1/2, 1/2. A tangent of 1 of the query moves their scores by 2 and 4, the weights by
// -1/2 and 1/2, and the output by (3 - 1) / 2; one of the values adds its mean.
TEST_F(Attend, Tangents) {
  save<float>("q.npy", {1, 2}, {0, 0});
  save<float>("k.npy", {2, 2}, {2, 0, 4, 0});
  save<float>("v.npy", {2, 1}, {1, 3});
  const std::string query = save<float>("tq.npy", {1, 2}, {1, 0}), value = save<float>("tv.npy", {2, 1}, {10, 20});
  expect_success(attend({"--scale", "1", "--tangent-query", query, "--tangent-out", folder_ / "t.npy"}));
  expect_array("o.npy", Dtype::f32, {1, 1}, {2});
  expect_array("t.npy", Dtype::f32, {1, 1}, {1});
  expect_success(attend({"--scale", "1", "--tangent-query", query, "--tangent-value", value, "--tangent-key",
                         save<float>("tk.npy", {2, 2}, {1, 1, 1, 1}), "--tangent-out", folder_ / "t.npy"}));
  expect_array("t.npy", Dtype::f32, {1, 1}, {16});
  expect_message(attend({"--tangent-query", query}), 2, "qkv attend", "--tangent-out");
  expect_message(attend({"--tangent-out", folder_ / "t.npy"}), 2, "qkv attend", "--tangent-query");
  expect_message(attend({"--tangent-value", query, "--tangent-out", folder_ / "t.npy"}), 3, "qkv attend",
                 "the tangent of value must be [1, 2, 1], got [1, 1, 2]");
  expect_message(attend({"--dtype", "bf16", "--tangent-query", query, "--tangent-out", folder_ / "t.npy"}), 3,
                 "qkv attend", "query has type bf16; it must be f32 or f64");
}

// Two keys of equal score: weights 1/2, 1/2; grad_out . values = 1, 3; logits' gradients 1/2 (1 - 2), 1/2 (3 - 2).
TEST_F(Attend, Gradients) {
  save<float>("q.npy", {1, 1}, {2});
  save<float>("k.npy", {2, 1}, {5, 5});
  save<float>("v.npy", {2, 1}, {1, 3});
  const std::string grad_out = save<float>("g.npy", {1, 1}, {1});
  expect_success(attend({"--grad-out", grad_out, "--grad-query", folder_ / "dq.npy", "--grad-key", folder_ / "dk.npy",
                         "--grad-value", folder_ / "dv.npy"}));
  expect_array("o.npy", Dtype::f32, {1, 1}, {2});
  expect_array("dq.npy", Dtype::f32, {1, 1}, {0});
  expect_array("dk.npy", Dtype::f32, {2, 1}, {-1, 1});
  expect_array("dv.npy", Dtype::f32, {2, 1}, {0.5, 0.5});
  expect_message(attend({"--grad-key", folder_ / "dk.npy"}), 2, "qkv attend", "--grad-out");

  // A table and slopes of 0 change nothing; dS = -1/2 at distance 0, 1/2 at distance 1.
  const std::string table = save<float>("t.npy", {3, 1}, {0, 0, 0}), zero = save<float>("s.npy", {1}, {0});
  expect_success(attend({"--grad-out", grad_out, "--clipped-table", table, "--grad-clipped-table", folder_ / "dt.npy",
                         "--alibi", zero, "--grad-alibi", folder_ / "ds.npy"}));
  expect_array("dt.npy", Dtype::f32, {3, 1}, {0, -0.5, 0.5});
  // Rows of Shaw's table are multiplied with the query, 2.
  expect_success(attend({"--grad-out", grad_out, "--shaw-table", table, "--grad-shaw-table", folder_ / "dt.npy"}));
  expect_array("dt.npy", Dtype::f32, {3, 1}, {0, -1, 1});
  expect_array("ds.npy", Dtype::f32, {1}, {-0.5});
  // A sink of the logit 10 that both keys have: three weights of 1/3, out = 4/3, and -1/3 * 4/3.
  expect_success(
      attend({"--grad-out", grad_out, "--sinks", save<float>("s.npy", {1}, {10}), "--grad-sinks", folder_ / "ds.npy"}));
  expect_array("ds.npy", Dtype::f32, {1}, {-4.0 / 9});
  expect_message(attend({"--grad-out", grad_out, "--grad-sinks", folder_ / "ds.npy"}), 2, "qkv attend", "--sinks");

  const std::string bias = save<float>("b.npy", {2}, {1, 1});
  expect_success(attend({"--grad-out", grad_out, "--bias", bias, "--grad-bias", folder_ / "db.npy"}));
  expect_array("db.npy", Dtype::f32, {2}, {-0.5, 0.5});
  expect_message(attend({"--grad-out", grad_out, "--grad-bias", folder_ / "db.npy"}), 2, "qkv attend", "--bias");
}

// Equal scores make weights 1/20, and values [i == j] make them the output: a kept weight is divided by 3/4.
TEST_F(Attend, DropoutKeepsWhatTheMaskSays) {
  const Tensor mask = read_npy(QKV_TEST_DATA "/golden/dropout/whole.npy");
  std::vector<float> identity(400);
  std::vector<double> wanted;
  for (std::size_t j = 0; j < 20; ++j) identity[21 * j] = 1;
  for (std::int64_t i = 0; i < 17 * 20; ++i) wanted.push_back(mask.data<std::uint8_t>()[i] / 15.0);
  save<float>("q.npy", {17, 1}, std::vector<float>(17));
  save<float>("k.npy", {20, 1}, std::vector<float>(20));
  save<float>("v.npy", {20, 20}, identity);
  expect_success(attend({"--dropout", "0.25", "--seed", "7"}));
  expect_array("o.npy", Dtype::f32, {17, 20}, wanted);
  expect_message(attend({"--dropout", "1.5"}), 2, "qkv attend", "--dropout: \"1.5\" must be a number from 0 to 1");
  expect_message(attend({"--dropout", "nan"}), 2, "qkv attend", "from 0 to 1");
  expect_message(attend({"--seed", "7"}), 2, "qkv attend", "--dropout");
}

}  // namespace
}  // namespace qkv::test
