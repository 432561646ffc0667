// qkv explain --model: the folder, the options and their refusals; the rest is explain/head_survey_test.cc.
#include <nlohmann/json.hpp>

#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

using Json = nlohmann::json;

Outcome explain(const TinyBert& model, const std::vector<std::string>& options) {
  std::vector<std::string> arguments = {"explain", "--model", model / "", "--text", "a b a c"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(arguments);
}

TEST(ExplainModel, ShowsEveryHeadThenOne) {
  const TinyBert model;
  const Outcome all = explain(model, {});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_TRUE(holds(all.out, "0 a, 1 b, 2 a, 3 ?\n")) << all.out;
  const Outcome one = explain(model, {"--layer", "1", "--head", "2"});
  EXPECT_TRUE(holds(one.out, "Layer 1, head 2\n") && !holds(one.out, "Step 1.")) << one.out;
  const Outcome token = explain(model, {"--layer", "1", "--head", "2", "--token", "a"});
  EXPECT_TRUE(holds(token.out, "Step 1. The query of token 0, \"a\"")) << token.out;
  EXPECT_TRUE(holds(token.out, "The token occurs several times: this is number 0; also at 2")) << token.out;
  EXPECT_TRUE(holds(explain(model, {"--layer", "0", "--head", "0", "--token", "2"}).out, "token 2, \"a\""));
}

TEST(ExplainModel, ShowsOtherKindsOfEncoders) {
  const TinyBert distilbert("encoders/distilbert");
  EXPECT_TRUE(holds(explain(distilbert, {}).out, "0 a, 1 b, 2 a, 3 ?\n"));
  const Outcome roberta =
      run_program({"explain", "--model", QKV_TEST_DATA "/golden/encoders/roberta", "--text", "cat <mask>"});
  EXPECT_EQ(roberta.code, 0) << roberta.err;
  EXPECT_TRUE(holds(roberta.out, "0 <s>, 1 cat, 2  <mask>, 3 </s>\n")) << roberta.out;
}

TEST(ExplainModel, ShowsTheBiasOfPositions) {
  const std::vector<std::string> arguments = {
      "explain", "--model", QKV_TEST_DATA "/golden/encoders/mpnet", "--text", "the cat", "--layer", "1", "--head", "2",
      "--token", "cat"};
  const Outcome one = run_program(arguments);
  EXPECT_EQ(one.code, 0) << one.err;
  EXPECT_TRUE(holds(one.out, " + bias of the key's relative position: [4]\n")) << one.out;
  EXPECT_TRUE(holds(one.out, "       score        bias       logit      weight  value norm\n")) << one.out;
  EXPECT_TRUE(holds(one.out, "logits from scale x scores + bias ")) << one.out;
  for (const char* table : {"roberta", "distilbert"}) {
    EXPECT_FALSE(
        holds(explain(TinyBert("encoders/" + std::string(table)), {"--layer", "0", "--head", "0", "--token", "a"}).out,
              "bias"));
  }
}

TEST(ExplainModel, WritesJson) {
  const TinyBert model;
  EXPECT_EQ(Json::parse(explain(model, {"--json"}).out).at("attentions").at(0).at("all").size(), 6u);
  const Json whole = Json::parse(explain(model, {"--json", "--weights"}).out);
  EXPECT_EQ(whole.at("attentions").at(0).at("all").at(5).at("weights").at(3).size(), 4u);
  const Json trace = Json::parse(explain(model, {"--json", "--layer", "0", "--head", "1", "--token", "b"}).out);
  EXPECT_EQ(trace.at("token"), 1);
  EXPECT_EQ(trace.at("weights").size(), 4u);
}

TEST(ExplainModel, MeasuresATokenAndLeavesOut) {
  const TinyBert model;
  const Outcome token = explain(model, {"--token", "2"});
  EXPECT_EQ(token.code, 0) << token.err;
  EXPECT_TRUE(holds(token.out, "Token 2, \"a\"") && holds(token.out, "ranks as knock-out")) << token.out;
  const Json json = Json::parse(explain(model, {"--token", "b", "--json"}).out);
  EXPECT_EQ(json.at("kind"), "token");
  EXPECT_EQ(json.at("heads").at("all").size(), 6u);
  const Outcome without = explain(model, {"--without-head", "1.2", "--without-key", "b", "--json", "--weights"});
  EXPECT_EQ(without.code, 0) << without.err;
  const Json heads = Json::parse(without.out);
  EXPECT_EQ(heads.at("left_out"), Json::parse(R"({"heads": [{"attention": "attention", "layer": 1, "head": 2}],
                                                  "keys": [{"attention": "attention", "key": 1}]})"));
  EXPECT_EQ(heads.at("attentions").at(0).at("all").at(5).at("weights").at(0), Json({0, 0, 0, 0}));
  EXPECT_EQ(heads.at("attentions").at(0).at("all").at(0).at("weights").at(0).at(1), 0);
  EXPECT_TRUE(holds(explain(model, {"--without-head", "1.2"}).out, " without head 1.2\n"));
  const Outcome translation = run_program({"explain", "--text", "You are welcome", "--without-head", "encoder.0.1",
                                           "--without-key", "encoder-decoder.You", "--token", "De"});
  EXPECT_EQ(translation.code, 0) << translation.err;
  EXPECT_TRUE(holds(translation.out, "without encoder head 0.1 and encoder-decoder key 0, \"You\"\n"))
      << translation.out;
}

TEST(ExplainModel, RefusesInOneLine) {
  const TinyBert model;
  const auto usage = [](const std::vector<std::string>& arguments, const std::string& part) {
    expect_message(run_program(arguments), 2, "qkv explain", part);
  };
  usage({"explain", "--model", model / ""}, "--model: needs --text or --image");
  usage({"explain", "--layer", "1", "--head", "1"}, "--layer: needs --text or --image");
  const auto refused = [&](const std::vector<std::string>& options, int code, const std::string& part) {
    expect_message(explain(model, options), code, "qkv explain", part);
  };
  refused({"--layer", "1"}, 2, "--layer requires --head");
  refused({"--token", "x"}, 3, "there is no token \"x\"; the tokens, 0 to 3, are: a b a ?");
  for (const char* head : {"1", "1.", ".1", "a.b", "0.1x", "0.1.2", ""}) {
    refused({"--without-head", head}, 2, "\" must be a layer and a head, as 0.1");
  }
  refused({"--without-head", "2.0"}, 3, "there is no layer 2; the model has layers 0 to 1");
  refused({"--without-key", "4"}, 3, "there is no token \"4\"; the tokens, 0 to 3, are: a b a ?");
  usage({"explain", "--without-head", "0.1"}, "--without-head: needs --text or --image");
  const auto translated = [&](const char* option, const char* value) {
    usage({"explain", "--text", "Hi", option, value}, "must begin with encoder., decoder. or encoder-decoder.");
  };
  translated("--without-head", "0.1");
  translated("--without-key", "decode.1");
  refused({"--weights"}, 2, "--weights requires --json");
  refused({"--weights", "--json", "--layer", "1", "--head", "1"}, 2, "--layer cannot be combined with --weights");
  refused({"--weights", "--json", "--token", "a"}, 2, "--token cannot be combined with --weights");
  refused({"--input", "[[1]]"}, 2, "--input: cannot be combined with --text");
  refused({"--seed", "3"}, 2, "--seed: cannot be combined with --text");
  refused({"--layer", "2", "--head", "0"}, 3, "there is no layer 2; the model has layers 0 to 1");
  refused({"--layer", "0", "--head", "0", "--token", ""}, 3, "there is no token \"\"");
  refused({"--layer", "0", "--head", "0", "--token", "x"}, 3,
          "there is no token \"x\"; the tokens, 0 to 3, are: a b a ?");
  expect_message(run_program({"explain", "--model", "/nowhere", "--text", "a"}), 4, "qkv explain",
                 "/nowhere/config.json");
}

}  // namespace
}  // namespace qkv::test
