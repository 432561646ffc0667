// Weights that another program computed: what is shown of them is theirs (tests/python/reports_test.py has the rest).
#include "qkv/explain/given_weights.h"

#include "explain/example.h"
#include "explain/json_schema.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

using test::Json;

Tensor one_layer(const std::vector<float>& weights) { return Tensor::of<float>({1, 2, 2}, weights); }

GivenWeights given(std::vector<Tensor> layers) {
  return GivenWeights({{.name = "tokens", .tokens = {"a", "<s>"}}},
                      {{.name = "attention", .layers = std::move(layers)}});
}

TEST(GivenWeights, AreSurveyedAsThoseOfAModel) {
  const GivenWeights weights = given({one_layer({1, 0, 0.25, 0.75}), one_layer({1, 0, 0.5, 0})});
  EXPECT_TRUE(weights.attentions().sites[0].causal);
  EXPECT_EQ(weights.attentions().sequences[0].special, (std::vector<std::uint8_t>{0, 1}));
  const HeadSurvey survey = survey_heads(weights, {.keep_weights = true});
  ASSERT_EQ(survey.heads.size(), 2u);
  EXPECT_EQ(survey.heads[0].summary.separators, 0.75 / 2);
  EXPECT_EQ(test::at(survey.heads[0].weights, 1, 0), 0.25);
  const Json json = Json::parse(to_json(survey));
  test::expect_valid(json, "heads");
  EXPECT_EQ(json["remarks"][0],
            "Rows of weights that do not sum to 1: 1; the first, of attention, layer 1, head 0, query 1, sums to 0.5.");
  EXPECT_FALSE(test::holds(to_text(survey), "value norm\n"));
}

TEST(GivenWeights, RefusesWhatDoesNotFit) {
  const std::pair<std::vector<Tensor>, const char*> rows[] = {
      {{}, "report: attention has no layers"},
      {{Tensor::zeros({2, 2})}, "report: attention, layer 0: weights are [2, 2]; they must be [heads, queries, keys]"},
      {{one_layer({1, 0, 0, 1}), Tensor::zeros({1, 2, 3})},
       "report: attention, layer 1: weights are [1, 2, 3]; of 1 heads, 2 and 2 tokens they must be [1, 2, 2]"},
      {{one_layer({1, 0, 2, -1})},
       "report: attention, layer 0, head 0: the weight of query 1 on key 1 is -1; weights are 0 or more"},
      {{one_layer({1, 0, 1, std::numeric_limits<float>::infinity()})},
       "report: attention, layer 0, head 0: the weight of query 1 on key 1 is not a number"},
  };
  for (const auto& [layers, message] : rows) {
    EXPECT_EQ(test::refusal([&] { given(layers); }), message);
  }
  EXPECT_EQ(test::refusal([] { GivenWeights({}, {}); }), "report: there are no weights");
}

}  // namespace
}  // namespace qkv
