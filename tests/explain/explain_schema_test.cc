// Every kind of JSON is what docs/explain.schema.json says.
#include <gtest/gtest.h>

#include "attention/attention_testing.h"
#include "explain/example.h"
#include "explain/json_schema.h"
#include "io/files_for_test.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/picture_attention.h"
#include "qkv/explain/token_measures.h"
#include "qkv/explain/translated_text.h"

namespace qkv {
namespace {

using Json = nlohmann::json;

Json parsed_schema() { return Json::parse(test::slurp(QKV_SOURCE_DIR "/docs/explain.schema.json")); }

void expect_valid(const std::string& json, const std::string& kind) {
  static const test::JsonSchema schema(parsed_schema());
  const Json value = Json::parse(json);
  EXPECT_EQ(value["kind"], kind);
  EXPECT_EQ(schema.check(value), "");
}

TEST(ExplainSchema, HoldsForSteps) {
  for (const std::int64_t heads : {0, 2}) {
    for (const bool masked : {false, true}) {
      ExplainInput input;
      input.heads = heads;
      if (masked) input.causal = Align::top_left;
      generate_missing(input, {.inputs = masked ? 300 : 3, .dim = 4});
      if (heads == 0) input.picture = {2, 2};
      expect_valid(to_json(explain(input)), "steps");
    }
  }
  ExplainInput broken = worked_example();
  broken.substitutes["value"] = test::matrix(3, 3, {1, 2, std::nan(""), 3, 4, HUGE_VAL, 5, -HUGE_VAL, 6});
  expect_valid(to_json(explain(broken)), "steps");
}

TEST(ExplainSchema, HoldsForHeads) {
  const Translator translator = Translator::load(QKV_SOURCE_DIR "/models/en-es");
  const TranslatedText text(translator, "You are welcome");
  for (const bool keep : {false, true}) expect_valid(to_json(survey_heads(text, {.keep_weights = keep})), "heads");
  const HeadTrace trace = trace_head(text, {.layer = 0, .head = 1, .site = 1});
  expect_valid(to_json(trace), "head");
  expect_valid(to_json(trace, 1), "head");
  const Bert mpnet = Bert::load(QKV_TEST_DATA "/golden/encoders/mpnet");
  const Encoding tokens{
      .ids = {0, 7, 2}, .tokens = {"<s>", "d", "</s>"}, .type_ids = {0, 0, 0}, .offsets = {}, .special = {1, 0, 1}};
  expect_valid(to_json(trace_head(EncodedText(mpnet, tokens), {})), "head");
}

TEST(ExplainSchema, HoldsForTokens) {
  const Translator translator = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  const TranslatedText text(translator, "Good morning");
  expect_valid(to_json(measure_token(text, 0)), "token");
  const LeftOut some{.keys = {{1, 2}}, .heads = {{0, 1, 0}}};
  const TranslatedText without(translator, "Good morning", TranslateOptions(), some);
  expect_valid(to_json(measure_token(without, 1)), "token");
  expect_valid(to_json(survey_heads(without)), "heads");
  const Vit model = Vit::load(QKV_TEST_DATA "/golden/vit/dinov2");
  Random random(5);
  const EncodedPicture picture(model, testing::normal(random, {14, 7, 3}, Dtype::f32));
  expect_valid(to_json(measure_token(picture, 0)), "token");
}

TEST(ExplainSchema, HoldsForPictures) {
  const Vit model = Vit::load(QKV_TEST_DATA "/golden/vit/dinov2");
  Random random(5);
  const EncodedPicture picture(model, testing::normal(random, {30, 24, 3}, Dtype::f32));
  expect_valid(to_json(survey_picture(picture), Tensor::zeros({28, 21, 3}, Dtype::u8)), "picture");
}

// A schema that lets everything through would show nothing.
TEST(ExplainSchema, RefusesWhatItDoesNotSay) {
  Json steps = parsed_schema();  // of that kind alone, so that the reason is named
  steps.erase("oneOf");
  steps["$ref"] = "#/$defs/steps";
  const test::JsonSchema schema(steps);
  const Json good = Json::parse(to_json(explain(worked_example())));
  const auto wrong = [&](const auto& change) {
    Json json = good;
    change(json);
    return schema.check(json);
  };
  EXPECT_EQ(schema.check(good), "");
  EXPECT_EQ(wrong([](Json& json) { json["schema"] = "qkv/explain/2"; }), "$.schema is not \"qkv/explain/1\"");
  EXPECT_EQ(wrong([](Json& json) { json.erase("scale"); }), "$ lacks scale");
  EXPECT_EQ(wrong([](Json& json) { json["more"] = 1; }), "$ has an unknown more");
  EXPECT_EQ(wrong([](Json& json) { json["output"][0][0] = nullptr; }), "$.output[0][0] is null");
  EXPECT_EQ(wrong([](Json& json) { json["kind"] = "heads"; }), "$.kind is not \"steps\"");
  Json other = good;
  other["kind"] = "other";
  EXPECT_NE(test::JsonSchema(parsed_schema()).check(other), "");
}

}  // namespace
}  // namespace qkv
