// The cost of an explained call is what plan() says of it: operations by hand, tiles that masks hide, null where there
// is no such call.
#include "qkv/explain/cost.h"

#include <nlohmann/json.hpp>

#include "explain/example.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

// Two operations for each product of a number: queries x keys pairs, of a key and of a value.
double operations(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t size) {
  return 2.0 * static_cast<double>(heads * queries * keys * 2 * size);
}

Json cost_of(const ExplainInput& input) { return Json::parse(to_json(explain(input)))["cost"]; }

ExplainInput generated(std::int64_t inputs, std::int64_t heads, bool causal) {
  ExplainInput input;
  input.heads = heads;
  if (causal) input.causal = Align::top_left;
  generate_missing(input, {.inputs = inputs, .dim = 4});
  return input;
}

TEST(Cost, OfStepsByHand) {
  const Json cost = cost_of(worked_example());
  EXPECT_EQ(cost["operations"], operations(1, 3, 3, 3));
  EXPECT_EQ(cost["bytes"], 8.0 * 4 * 3 * 3);  // queries, keys, values and output of f64
  EXPECT_EQ(cost["skipped_tiles"], 0);
  EXPECT_EQ(cost_of(generated(5, 2, false))["operations"], operations(2, 5, 5, 2));
}

TEST(Cost, CountsTilesThatAMaskHides) {
  for (const std::int64_t heads : {0, 2}) {
    const Json all = cost_of(generated(300, heads, false)), causal = cost_of(generated(300, heads, true));
    EXPECT_EQ(all["skipped_tiles"], 0);
    EXPECT_EQ(causal["tiles"], all["tiles"]);
    EXPECT_GT(causal["skipped_tiles"].get<int>(), 0);
    EXPECT_LT(causal["operations"].get<double>(), all["operations"].get<double>());
  }
}

TEST(Cost, IsNullWhereWeightsWerePutIn) {
  ExplainInput input = worked_example();
  input.substitutes["weights"] = test::matrix(3, 3, {0, 0.5, 0.5, 0, 1, 0, 0, 0.9, 0.1});
  EXPECT_TRUE(cost_of(input).is_null());
}

TEST(Cost, OfAModelIsThatOfALayer) {
  const Bert model = Bert::load(QKV_TEST_DATA "/golden/bert/tiny");
  Encoding text;
  for (const std::int32_t id : {3, 5, 7, 9}) {
    text.ids.push_back(id);
    text.tokens.push_back(std::to_string(id));
    text.type_ids.push_back(0);
    text.special.push_back(0);
  }
  const std::int64_t heads = model.config().heads, size = model.config().model_dim / heads;
  const auto survey_cost = [&](const LeftOut& left_out) {
    return Json::parse(to_json(survey_heads(EncodedText(model, text, {}, left_out))))["attentions"][0]["cost"];
  };
  const Json whole = survey_cost({});
  EXPECT_EQ(whole["operations"], operations(heads, 4, 4, size));
  const HeadTrace trace = trace_head(EncodedText(model, text), {.layer = 1, .head = 0});
  EXPECT_EQ(Json::parse(to_json(trace))["cost"], whole);
  // A head that is left out sees nothing: none of its tiles is computed.
  const Json without = survey_cost({.heads = {{.layer = 0, .head = 1}}});
  EXPECT_EQ(without["tiles"], whole["tiles"]);
  EXPECT_GT(without["skipped_tiles"], whole["skipped_tiles"]);
}

TEST(Cost, OfMapsIsWhatTheyWereTold) {
  AttentionMaps maps({2, 70}, 90, Dtype::f32);
  EXPECT_TRUE(Json::parse(to_json(maps))["cost"].is_null());
  const Tensor q = Tensor::zeros({2, 70, 8}, Dtype::f32), k = Tensor::zeros({2, 90, 8}, Dtype::f32);
  const AttentionPlan told = plan(q, k, k, {}, maps.extras());
  maps.set_cost(told);
  EXPECT_EQ(Json::parse(to_json(maps))["cost"], Json::parse(to_json(told)));
  EXPECT_EQ(told.operations, operations(2, 70, 90, 8));
}

}  // namespace
}  // namespace qkv
