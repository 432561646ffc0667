// qkv attend: chosen rows, caches, limits, several masks and biases, alignment, tangents and second gradients, by hand.
#include <cmath>

#include "apps/attend.h"

namespace qkv::test {
namespace {

TEST_F(Attend, ChosenRows) {
  save_worked_example<float>();
  const std::string rows = save<std::int64_t>("rows.npy", {2, 3}, {0, 0, 2, 0, 0, 0});
  expect_success(attend({"--score", "dot", "--rows", rows, "--row-weights", folder_ / "w.npy"}));
  expect_array("w.npy", Dtype::f32, {2, 3},
               {2.95387223e-04, .880536902, .119167711, .0633789383, .468310531, .468310531});
  expect_message(attend({"--rows", rows}), 2, "qkv attend", "--row-weights");
  expect_message(attend({"--row-weights", folder_ / "w.npy"}), 2, "qkv attend", "--rows");
  const auto refused = [&](const std::string& file, const std::string& part) {
    expect_message(attend({"--rows", file, "--row-weights", folder_ / "w.npy"}), 3, "qkv attend", part);
  };
  refused(save<float>("rows.npy", {1, 3}, {0, 0, 0}), "i64");
  refused(save<std::int64_t>("rows.npy", {3}, {0, 0, 0}), "rows");
  refused(save<std::int64_t>("rows.npy", {1, 3}, {0, 0, 3}), "3");
  refused(save<std::int64_t>("rows.npy", {}, {0}), "rows");
}

TEST_F(Attend, MemoryLimit) {
  save_worked_example<float>();
  expect_success(attend({"--memory-limit", "100000000"}));
  const std::string bytes = contents(folder_ / "o.npy");
  expect_success(attend({}));
  EXPECT_EQ(contents(folder_ / "o.npy"), bytes);
  expect_message(attend({"--memory-limit", "1"}), 3, "qkv attend", "memory_limit");
  expect_message(attend({"--memory-limit", "0"}), 2, "qkv attend", "--memory-limit");
}

TEST_F(Attend, EmptyRows) {
  save_indifferent_queries();
  const std::string mask = save<std::uint8_t>("m.npy", {3, 4}, {1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 1, 1});
  const auto is_nan = [&](const std::string& name) {
    std::string rows;
    const Tensor array = read_npy(folder_ / name);
    for (std::int64_t i = 0; i < 3; ++i) rows += std::isnan(array.view().at<float>({i, 1})) ? "x" : ".";
    return rows;
  };
  const auto run = [&](const std::vector<std::string>& more) {
    std::vector<std::string> options = {"--mask", mask, "--weights", folder_ / "w.npy"};
    options.insert(options.end(), more.begin(), more.end());
    return attend(options);
  };
  for (const std::string value : {"zero", "nan"}) {
    expect_success(run({"--empty-rows", value}));
    const std::string expected = value == "nan" ? ".x." : "...";
    EXPECT_EQ(is_nan("o.npy"), expected);
    EXPECT_EQ(is_nan("w.npy"), expected);
  }
  const Outcome verified = run({"--empty-rows", "nan", "--verify", "3"});
  EXPECT_EQ(verified.code, 0) << verified.err;
  EXPECT_NE(verified.out.find("largest error 0,"), std::string::npos) << verified.out;
  expect_message(run({"--empty-rows", "none"}), 2, "qkv attend", "zero|nan");
  const std::string grad_out = save<float>("g.npy", {3, 2}, {1, 1, 1, 1, 1, 1});
  expect_message(run({"--empty-rows", "nan", "--grad-out", grad_out, "--grad-query", folder_ / "dq.npy"}), 3,
                 "qkv attend", "empty_rows must be zero");
}

TEST_F(Attend, SeveralMasks) {
  save_indifferent_queries();
  const std::string first = save<std::uint8_t>("a.npy", {3, 4}, {1, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1});
  const std::string second = save<std::uint8_t>("b.npy", {1, 4}, {1, 0, 1, 1});
  expect_weights({"--mask", first, "--mask", second}, {3, 4}, {1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 1, 1});
}

// Two keys of equal score: weights 1/2, 1/2; grad_out . values = 1, 3; logits' gradients 1/2 (1 - 2), 1/2 (3 - 2).
TEST_F(Attend, SeveralBiases) {
  save<float>("q.npy", {1, 1}, {2});
  save<float>("k.npy", {2, 1}, {5, 5});
  save<float>("v.npy", {2, 1}, {1, 3});
  const std::string grad_out = save<float>("g.npy", {1, 1}, {1});
  const std::string one = save<float>("a.npy", {2}, {1, -1}), other = save<float>("b.npy", {1, 2}, {3, 5});
  expect_success(attend({"--grad-out", grad_out, "--bias", one, "--bias", other, "--grad-bias", folder_ / "da.npy",
                         "--grad-bias", folder_ / "db.npy", "--logits", folder_ / "z.npy"}));
  expect_array("z.npy", Dtype::f32, {1, 2}, {14, 14});
  expect_array("da.npy", Dtype::f32, {2}, {-0.5, 0.5});
  expect_array("db.npy", Dtype::f32, {1, 2}, {-0.5, 0.5});
  expect_success(attend({"--grad-out", grad_out, "--bias", one, "--bias", other, "--grad-bias", folder_ / "da.npy"}));
  expect_message(attend({"--grad-out", grad_out, "--bias", one, "--grad-bias", folder_ / "da.npy", "--grad-bias",
                         folder_ / "db.npy"}),
                 2, "qkv attend", "--grad-bias: has 2 files for 1 of --bias");
}

// Three queries over four keys: bottom-right, query i is at i + 1.
TEST_F(Attend, AlignmentWithoutCausal) {
  save_indifferent_queries();
  expect_weights({"--window", "1,0", "--align", "bottom-right"}, {3, 4}, {1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1});
  expect_weights({"--window", "1,0", "--align", "top-left"}, {3, 4}, {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0});
  save_indifferent_queries({1});
  const std::string slope = save<float>("s.npy", {1}, {std::log(2.0f)});
  expect_weights({"--alibi", slope, "--align", "bottom-right"}, {1, 3, 4}, {4, 8, 4, 2, 2, 4, 8, 4, 1, 2, 4, 8});
  const std::string table = save<float>("t.npy", {3, 1}, {0, std::log(3.0f), 0});
  expect_weights({"--clipped-table", table, "--align", "bottom-right"}, {1, 3, 4},
                 {1, 3, 1, 1, 1, 1, 3, 1, 1, 1, 1, 3});
  expect_message(attend({"--align", "top-left"}), 2, "qkv attend", "--align: has no effect");
  expect_message(attend({"--causal", "top-left", "--align", "top-left"}), 2, "qkv attend", "--causal");
  expect_message(attend({"--align", "middle"}), 2, "qkv attend", "top-left|bottom-right");
}

TEST_F(Attend, PrefixAndDilatedMasks) {
  save_indifferent_queries();
  const std::string two = save<std::int32_t>("p.npy", {1}, {2});
  expect_weights({"--prefix", two}, {3, 4}, {1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0});
  expect_weights({"--prefix", two, "--align", "bottom-right"}, {3, 4}, {1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1});
  expect_weights({"--dilated", "1,0,2"}, {3, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0});
  expect_weights({"--dilated", "-1,-1,3", "--align", "bottom-right"}, {3, 4}, {0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1});
  expect_weights({"--dilated", "-1,-1,2", "--window", "1,1"}, {3, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
  expect_message(attend({"--prefix", two, "--causal", "top-left"}), 2, "qkv attend", "--causal");
  expect_message(attend({"--prefix", save<std::int32_t>("n.npy", {1}, {-1})}), 3, "qkv attend",
                 "prefix[0] is -1; it must be 0 or more");
  expect_message(attend({"--dilated", "1,0"}), 2, "qkv attend", "must be three numbers LEFT,RIGHT,STEP");
  expect_message(attend({"--dilated", "1,0,0"}), 2, "qkv attend", "STEP is 0; it must be 1 or more");
}

// Keys of equal score: the output is the mean of the values that a query sees.
TEST_F(Attend, AppendsToACache) {
  save<float>("q.npy", {1, 1, 2, 1}, {0, 0});
  save<float>("k.npy", {1, 1, 2, 1}, {2, 3});
  save<float>("v.npy", {1, 1, 2, 1}, {0, 9});
  const std::string key = save<float>("pk.npy", {1, 1, 1, 1}, {1}), value = save<float>("pv.npy", {1, 1, 1, 1}, {6});
  const std::vector<std::string> past = {"--past-key", key, "--past-value", value};
  const auto with = [&](std::initializer_list<std::string> more) {
    std::vector<std::string> all = past;
    all.insert(all.end(), more);
    return attend(all);
  };
  expect_success(with({"--causal", "bottom-right", "--weights", folder_ / "w.npy", "--present-key", folder_ / "ak.npy",
                       "--present-value", folder_ / "av.npy"}));
  expect_array("o.npy", Dtype::f32, {1, 1, 2, 1}, {3, 5});
  expect_array("w.npy", Dtype::f32, {1, 1, 2, 3}, {0.5, 0.5, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  expect_array("ak.npy", Dtype::f32, {1, 1, 3, 1}, {1, 2, 3}, 0);
  expect_array("av.npy", Dtype::f32, {1, 1, 3, 1}, {6, 0, 9}, 0);
  expect_success(with({"--dtype", "bf16"}));
  expect_array("o.npy", Dtype::f32, {1, 1, 2, 1}, {5, 5});
  expect_message(attend({"--past-key", key}), 2, "qkv attend", "--past-value");
  expect_message(attend({"--present-key", key}), 2, "qkv attend", "--past-key");
  expect_message(with({"--grad-out", key, "--grad-key", folder_ / "dk.npy"}), 2, "qkv attend", "--grad-out");
  expect_message(with({"--verify", "1"}), 2, "qkv attend", "--verify");
  expect_message(with({"--causal", "top-left"}), 3, "qkv attend", "");
  save<float>("pk.npy", {1, 2, 1, 1}, {1, 1});
  expect_message(with({}), 3, "qkv attend", "rows of 2 heads");
  save<float>("pk.npy", {1, 1}, {1});
  expect_message(with({}), 3, "qkv attend", "");
}

// Three keys of equal score, weights 1/3. Along a tangent of 1 of the query the logits move by 2, 4 and 0, log-sum-exp
// by their mean 2, and the output by (2 + 12 + 0) / 3 - 2 * 3 = -4/3. With the words of attention_double_backward.h:
// A = 0, 2, -2; B = -2, 0, 2; C = 4/3, so that P (C + A B) = 4/9, 4/9, -8/9.
TEST_F(Attend, TangentOfLogSumExpAndSecondGradients) {
  save<float>("q.npy", {1, 1}, {0});
  save<float>("k.npy", {3, 1}, {2, 4, 0});
  save<float>("v.npy", {3, 1}, {1, 3, 5});
  const std::string tangent = save<float>("tq.npy", {1, 1}, {1}), grad_out = save<float>("g.npy", {1, 1}, {1});
  expect_success(attend({"--tangent-query", tangent, "--tangent-log-sum-exp", folder_ / "tl.npy"}));
  expect_array("tl.npy", Dtype::f32, {1}, {2});
  expect_success(
      attend({"--tangent-query", tangent, "--grad-out", grad_out, "--second-grad-query", folder_ / "ddq.npy",
              "--second-grad-key", folder_ / "ddk.npy", "--second-grad-value", folder_ / "ddv.npy", "--second-grad-out",
              folder_ / "ddo.npy", "--tangent-out", folder_ / "to.npy", "--grad-value", folder_ / "dv.npy"}));
  expect_array("ddq.npy", Dtype::f32, {1, 1}, {8.0 / 3});
  expect_array("ddk.npy", Dtype::f32, {3, 1}, {-2.0 / 3, 0, 2.0 / 3});
  expect_array("ddv.npy", Dtype::f32, {3, 1}, {0, 2.0 / 3, -2.0 / 3});
  expect_array("ddo.npy", Dtype::f32, {1, 1}, {-4.0 / 3});
  expect_array("to.npy", Dtype::f32, {1, 1}, {-4.0 / 3});
  expect_array("dv.npy", Dtype::f32, {3, 1}, {1.0 / 3, 1.0 / 3, 1.0 / 3});
  expect_message(attend({"--tangent-log-sum-exp", folder_ / "tl.npy"}), 2, "qkv attend", "--tangent-query");
  expect_message(attend({"--second-grad-key", folder_ / "ddk.npy"}), 2, "qkv attend", "--grad-out");
  expect_message(attend({"--grad-out", grad_out, "--second-grad-key", folder_ / "ddk.npy"}), 2, "qkv attend",
                 "--tangent-query");
}

TEST_F(Attend, OptionsWithoutEffectAreRefused) {
  save_worked_example<float>();
  expect_message(attend({"--top", "3"}), 2, "qkv attend", "--top-keys");
  expect_message(attend({"--blocks", "3"}), 2, "qkv attend", "--block-weights");
  expect_message(attend({"--grad-out", folder_ / "v.npy"}), 2, "qkv attend", "requires a gradient to write");
}

TEST_F(Attend, HelpNamesEveryOption) {
  const std::string help = run_program({"attend", "--help"}).out;
  for (const char* option :
       {"--rows", "--row-weights", "--memory-limit", "--align", "--past-key", "--past-value", "--present-key",
        "--present-value", "--tangent-log-sum-exp", "--second-grad-query", "--second-grad-key", "--second-grad-value",
        "--second-grad-out", "--grad-bias", "--mask", "--bias", "--clipped-table", "--grad-clipped-table"}) {
    EXPECT_NE(help.find(std::string("  ") + option + " "), std::string::npos) << option;
  }
}

// The output alone would fit: a write that fails leaves none of the files.
TEST_F(Attend, WritesAllOrNothing) {
  for (const char* name : {"q.npy", "k.npy", "v.npy"}) save<float>(name, {100, 3}, std::vector<float>(300));
  save<float>("o.npy", {1}, {7});
  const std::vector<std::string> before = folder_.names();
  const std::string old = contents(folder_ / "o.npy");
  expect_message(attend({"--weights", folder_ / "w.npy"}, {.file_size = 8192}), 4, "qkv attend",
                 "w.npy: cannot write: File too large");
  EXPECT_EQ(folder_.names(), before);
  EXPECT_EQ(contents(folder_ / "o.npy"), old);
}

// Messages of our own for what only the system finds.
TEST_F(Attend, LoopsOfLinks) {
  save_worked_example<float>();
  std::filesystem::create_symlink("loop", folder_ / "loop");
  std::filesystem::create_symlink("loop.npy", folder_ / "loop.npy");
  for (const std::string& file : {folder_ / "loop/o.npy", folder_ / "loop.npy"}) {
    const Outcome outcome = attend({"--weights", file});
    expect_message(outcome, 4, "qkv attend", file + ": cannot write: Too many levels of symbolic links");
    EXPECT_EQ(outcome.err.find("filesystem"), std::string::npos) << outcome.err;
  }
  expect_message(attend({"--mask", folder_ / "loop.npy"}), 4, "qkv attend",
                 "loop.npy: cannot read: Too many levels of symbolic links");
  const Outcome model = run_program({"embed", "--model", folder_ / "loop"}, {.input = "/dev/null"});
  expect_message(model, 4, "qkv embed", "Too many levels of symbolic links");
  EXPECT_EQ(model.err.find("filesystem"), std::string::npos) << model.err;
}

}  // namespace
}  // namespace qkv::test
