// The walk-through as JSON: valid, complete, every number in full.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "explain/example.h"
#include "qkv/explain/explain.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

TEST(ExplainJson, HoldsEveryIntermediateInFull) {
  const Explanation explanation = explain(worked_example());
  const Json json = Json::parse(to_json(explanation));
  ASSERT_EQ(json["steps"].size(), 8u);
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
    EXPECT_EQ(json["steps"][i]["number"], i + 1);
    std::vector<std::string> names;
    for (const Json& tensor : json["steps"][i]["tensors"]) names.push_back(tensor["name"]);
    EXPECT_EQ(names, expected[i]);
  }
  EXPECT_EQ(json["steps"][2]["tensors"][1]["values"], Json::parse("[[0,1,1],[4,4,0],[2,3,1]]"));
  EXPECT_EQ(json["steps"][2]["tensors"][1]["role"], "key");
  EXPECT_EQ(json["steps"][7]["tensors"][3]["shape"], Json::parse("[3,3,3]"));
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
  EXPECT_EQ(json["steps"][0]["tensors"][0]["values"].size(), 100u);
  EXPECT_EQ(json["steps"][0]["tensors"][0]["values"][50].size(), 40u);
  EXPECT_EQ(json["output"].size(), 100u);
}

TEST(ExplainJson, HiddenLogitsAreInfinities) {
  ExplainInput input = worked_example();
  input.causal = Align::top_left;
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(json["steps"][3]["tensors"][0]["values"][1], "-inf");
}

TEST(ExplainJson, TellsNaNFromInfinities) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ExplainInput input = worked_example();
  input.substitutes["value"] = test::matrix(3, 3, {1, 2, -std::nan(""), 3, 4, kInfinity, 5, -kInfinity, 6});
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(json["steps"][2]["tensors"][2]["values"][0], Json::parse("[1, 2, \"nan\"]"));
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
  EXPECT_EQ(Json::parse(to_json(explain(input)))["steps"][0]["tensors"][0]["rows"][0], "a\"b");
}

}  // namespace
}  // namespace qkv
