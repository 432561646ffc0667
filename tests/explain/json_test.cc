// The walk-through as JSON: valid, complete, every number in full.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "explain/example.h"
#include "qkv/explain/explain.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

// The tensors of a step, one block after the other.
std::vector<Json> tensors_of(const Json& json, int number) {
  std::vector<Json> all;
  for (const Json& section : json["sections"]) {
    if (section["number"] != number) continue;
    for (const Json& block : section["blocks"]) {
      all.insert(all.end(), block["tensors"].begin(), block["tensors"].end());
    }
  }
  return all;
}

TEST(ExplainJson, HoldsEveryIntermediateInFull) {
  const Explanation explanation = explain(worked_example());
  const Json json = Json::parse(to_json(explanation));
  const std::vector<std::vector<std::string>> expected = {
      {"inputs"},
      {"w_query", "w_key", "w_value"},
      {"query", "key", "value"},
      {"logits of input 1"},
      {"weights of input 1"},
      {"weighted_values of input 1"},
      {"output of input 1"},
      {"logits", "weights", "log_sum_exp", "weighted_values", "output"}};
  for (std::size_t i = 0; i < 8; ++i) {
    std::vector<std::string> names;
    for (const Json& tensor : tensors_of(json, static_cast<int>(i) + 1)) names.push_back(tensor["name"]);
    EXPECT_EQ(names, expected[i]);
  }
  EXPECT_EQ(tensors_of(json, 3)[1]["values"], Json::parse("[[0,1,1],[4,4,0],[2,3,1]]"));
  EXPECT_EQ(tensors_of(json, 3)[1]["role"], "key");
  EXPECT_EQ(tensors_of(json, 8)[3]["shape"], Json::parse("[3,3,3]"));
  for (std::size_t i = 0; i < 9; ++i) {  // bit for bit
    EXPECT_EQ(json["output"][i / 3][i % 3].get<double>(), explanation.output.data<double>()[i]);
  }
  EXPECT_EQ(json["score"], "dot");
  EXPECT_EQ(json["scale"], 1);
  EXPECT_EQ(json["dtype"], "f64");
  EXPECT_EQ(json["largest_difference_from_reference"].get<double>(), explanation.largest_difference);
  EXPECT_TRUE(json["substituted"].empty());
}

TEST(ExplainJson, LargeTensorsAreNotShortened) {
  ExplainInput input;
  generate_missing(input, {.inputs = 100, .dim = 40});
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(tensors_of(json, 1)[0]["values"].size(), 100u);
  EXPECT_EQ(tensors_of(json, 1)[0]["values"][50].size(), 40u);
  EXPECT_EQ(json["output"].size(), 100u);
}

TEST(ExplainJson, HiddenLogitsAreInfinities) {
  ExplainInput input = worked_example();
  input.causal = Align::top_left;
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(tensors_of(json, 4)[0]["values"][1], "-inf");
}

TEST(ExplainJson, TellsNaNFromInfinities) {
  ExplainInput input = worked_example();
  input.substitutes["value"] = test::matrix(3, 3, {1, 2, -std::nan(""), 3, 4, test::kInfinity, 5, -test::kInfinity, 6});
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(tensors_of(json, 3)[2]["values"][0], Json::parse("[1, 2, \"nan\"]"));
  EXPECT_EQ(json["output"][0][1], "-inf");
  EXPECT_EQ(json["output"][0][2], "nan");
  EXPECT_EQ(json["largest_difference_from_reference"], "nan");
}

TEST(ExplainJson, TellsWhatWasSubstituted) {
  ExplainInput input = worked_example();
  input.substitutes["weights"] = test::matrix(3, 3, {0, .5, .5, 0, 1, 0, 0, .9, .1});
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(json["substituted"], Json::parse(R"(["weights"])"));
  EXPECT_EQ(json["output"][0], Json::parse("[2.0, 7.0, 1.5]"));
  EXPECT_NEAR(json["true_output"][0][0].get<double>(), 1.93662106, 5e-9);
}

TEST(ExplainJson, LabelsOfAnyBytesGiveValidJson) {
  ExplainInput input = worked_example();
  input.labels = {"a\"b", "\x80\xff", "c\n\x1b"};
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(tensors_of(json, 1)[0]["rows"][0], "a\"b");
}

TEST(ExplainJson, SectionsComeInOrderWithRolesOfWords) {
  const Explanation explanation = explain(worked_example());
  const Json json = Json::parse(to_json(explanation));
  ASSERT_EQ(json["sections"].size(), explanation.sections.size());
  for (std::size_t i = 0; i < explanation.sections.size(); ++i) {
    EXPECT_EQ(json["sections"][i]["number"], explanation.sections[i].number);
    EXPECT_EQ(json["sections"][i]["title"], explanation.sections[i].title);
  }
  const std::vector<Json> pairs = tensors_of(json, 8);
  EXPECT_EQ(pairs[1]["rows"], Json({"query 1", "query 2", "query 3"}));
  EXPECT_EQ(pairs[1]["columns"], Json({"key 1", "key 2", "key 3"}));
  bool has_query = false;
  for (const Json& section : json["sections"]) {
    if (section["number"] != 4) continue;
    for (const Json& piece : section["blocks"][0]["lines"][0]) {
      has_query = has_query || (piece["text"] == "query" && piece["role"] == "query");
    }
  }
  EXPECT_TRUE(has_query);
}

TEST(ExplainJson, PicturesAreThere) {
  ExplainInput input = worked_example();
  input.picture = {2, 2};
  const Json json = Json::parse(to_json(explain(input)));
  for (const Json& section : json["sections"]) {
    if (section["number"] != 1) continue;
    ASSERT_EQ(section["blocks"][0]["pictures"].size(), 3u);
    EXPECT_EQ(section["blocks"][0]["pictures"][1]["pixels"], Json::parse("[[0, 2], [0, 2]]"));
  }
}

// Without `full` tensors of all pairs end at 256 inputs, those of pairs and sizes at 12.
TEST(ExplainJson, LargeTensorsAreLeftOut) {
  const auto kept = [](std::int64_t inputs, bool full, std::int64_t heads) {
    ExplainInput input;
    input.full = full;
    input.heads = heads;
    generate_missing(input, {.inputs = inputs, .dim = 2});
    const Json json = Json::parse(to_json(explain(input)));
    std::string names;
    for (int step = 1; step <= 8; ++step) {
      for (const Json& tensor : tensors_of(json, step)) {
        EXPECT_FALSE(tensor["shape"].empty());
        if (tensor["values"].is_null()) names += " " + tensor["name"].get<std::string>();
      }
    }
    return names;
  };
  EXPECT_EQ(kept(12, false, 0), "");
  EXPECT_EQ(kept(13, false, 0), " weighted_values");
  EXPECT_EQ(kept(13, true, 0), "");
  EXPECT_EQ(kept(256, false, 0), " weighted_values");
  EXPECT_EQ(kept(257, false, 0), " scores logits weights weighted_values");
  EXPECT_EQ(kept(257, true, 0), "");
  EXPECT_EQ(kept(257, false, 2), " logits weights");
}

// Every pair is hidden by the first rule that hides it, and hidden is what has the logit -inf.
TEST(ExplainJson, SaysWhichRuleHidesAKey) {
  const auto explained = [](const auto& change) {
    ExplainInput input;
    change(input);
    generate_missing(input, {.inputs = 5, .dim = 3});
    const Explanation explanation = explain(input);
    EXPECT_TRUE(explanation.mask.has_value());
    const Tensor logits = test::quantity(explanation, "logits");
    for (std::int64_t i = 0; i < 25; ++i) {
      EXPECT_EQ(explanation.mask->hidden.data<double>()[i] > 0, std::isinf(logits.data<double>()[i])) << i;
    }
    return Json::parse(to_json(explanation))["mask"];
  };
  EXPECT_EQ(explained([](ExplainInput& input) { input.causal = Align::top_left; })["hidden"][1], Json({0, 0, 1, 1, 1}));
  EXPECT_EQ(explained([](ExplainInput& input) { input.prefix = 2; })["hidden"][0], Json({0, 0, 1, 1, 1}));
  EXPECT_EQ(explained([](ExplainInput& input) { input.window = Mask::window(1, 0); })["hidden"][3],
            Json({1, 1, 0, 0, 2}));
  EXPECT_EQ(explained([](ExplainInput& input) { input.window = Mask::dilated(1, 1, 2); })["hidden"][4],
            Json({1, 1, 0, 3, 0}));
  const Json both = explained([](ExplainInput& input) {
    input.causal = Align::top_left;
    input.mask = test::matrix(1, 5, {1, 0, 1, 1, 0});
  });
  EXPECT_EQ(both["hidden"][2], Json({0, 2, 0, 1, 1}));
  EXPECT_EQ(both["rules"].size(), 2u);
  ExplainInput open = worked_example();
  EXPECT_TRUE(Json::parse(to_json(explain(open)))["mask"].is_null());
}

}  // namespace
}  // namespace qkv
