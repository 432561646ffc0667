// JSON of explanations: golden files of chosen numbers, all kinds by docs/explain.schema.json, and what is left out.
#include "attention/attention_testing.h"
#include "explain/chosen.h"
#include "explain/json_schema.h"
#include "explain/map_bytes.h"
#include "explain/show/report_page.h"
#include "qkv/explain/written_text.h"

namespace qkv {
namespace {

using test::Json;
using test::Strings;

TEST(ExplainGolden, JsonOfChosenNumbers) {
  HeadTrace additive = test::chosen_trace();
  additive.score = Score::Kind::additive;
  additive.v = Tensor::of<double>({2}, {0.5, 2});
  additive.bias = additive.scores;
  additive.causal = true;
  HeadSurvey translated = test::chosen_survey();
  translated.attentions.alignment = Alignment{.source_text = "a",
                                              .output_text = "b",
                                              .source = {{"a"}, {0}},
                                              .output = {{"b"}, {0, -1}},
                                              .written = {{{"b", 7, 0.5}, {{"b", 7, 0.5}, {"c", 9, 0.25}}}},
                                              .cut = 2};
  translated.word_alignment = translated.word_weights = test::matrix(1, 1, {1});
  const std::pair<const char*, std::string> rows[] = {
      {"head", to_json(test::chosen_trace(), 2)},  {"head_additive", to_json(additive)},
      {"heads", to_json(test::chosen_survey())},   {"heads_translated", to_json(translated)},
      {"token", to_json(test::chosen_measures())}, {"picture", to_json(test::chosen_picture(), test::chosen_view())},
  };
  for (const auto& [name, text] : rows) {
    Json json = Json::parse(text);
    test::expect_valid(json, std::string(name).substr(0, std::string(name).find('_')));
    for (const char* member : {"version", "target"}) EXPECT_EQ(json.erase(member), 1u);
    std::string lines;
    for (const auto& [member, value] : json.items()) lines += member + ": " + value.dump() + "\n";
    test::expect_golden(name + std::string(".json.txt"), lines);
  }
}

TEST(ExplainSchema, HoldsForModels) {
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  const LeftOut some{.keys = {{1, 2}}, .heads = {{0, 1, 0}}};
  const TranslatedText text(test::shipped(), "You are welcome"), whole(bart, "Good morning"),
      without(bart, "Good morning", TranslateOptions(), some);
  const TextEncoder mpnet = TextEncoder::load(QKV_TEST_DATA "/golden/encoders/mpnet");
  const Vit vit = Vit::load(QKV_TEST_DATA "/golden/vit/dinov2");
  const LanguageModel gemma = LanguageModel::load(QKV_TEST_DATA "/golden/language/gemma2");
  const WrittenText written(gemma, nullptr, {3, 1, 4, 1, 5}, {.prompt = 2});
  Random random(5);
  const EncodedPicture small(vit, testing::normal(random, {14, 7, 3})),
      large(vit, testing::normal(random, {30, 24, 3}));
  const std::pair<const char*, std::string> rows[] = {
      {"heads", to_json(survey_heads(text))},
      {"heads", to_json(survey_heads(without, {.keep_weights = true}))},
      {"head", to_json(trace_head(text, {.layer = 0, .head = 1, .site = 1}), 1)},
      {"head", to_json(trace_head(EncodedText(mpnet, test::encoding_of({"<s>", "d", "</s>"})), {}))},
      {"token", to_json(measure_token(whole, 0))},
      {"token", to_json(measure_token(without, 1))},
      {"token", to_json(measure_token(small, 0))},
      {"heads", to_json(survey_heads(written, {.keep_weights = true}))},
      {"head", to_json(trace_head(written, {.layer = 1}), 2)},
      {"token", to_json(measure_token(written, 1))},
      {"picture", to_json(survey_picture(large), Tensor::zeros({28, 21, 3}, Dtype::u8))},
  };
  for (const auto& [kind, json] : rows) test::expect_valid(Json::parse(json), kind);
}

// A schema that lets everything through would show nothing.
TEST(ExplainSchema, RefusesWhatItDoesNotSay) {
  const test::JsonSchema schema("steps");
  const Json good = Json::parse(to_json(explain(worked_example())));
  const std::pair<Json, std::string> rows[] = {
      {{{"op", "replace"}, {"path", "/schema"}, {"value", "qkv/explain/2"}}, "$.schema is not \"qkv/explain/1\""},
      {{{"op", "remove"}, {"path", "/scale"}}, "$ lacks scale"},
      {{{"op", "add"}, {"path", "/more"}, {"value", 1}}, "$ has an unknown more"},
      {{{"op", "replace"}, {"path", "/output/0/0"}, {"value", nullptr}}, "$.output[0][0] is null"},
      {{{"op", "replace"}, {"path", "/kind"}, {"value", "heads"}}, "$.kind is not \"steps\""},
  };
  for (const auto& [change, wrong] : rows) {
    EXPECT_EQ(schema.check(good.patch(Json::array({change}))), wrong);
  }
  EXPECT_EQ(schema.check(good), "");
}

// Without `full` tensors of all pairs end at 256 inputs, those of pairs and sizes at 12.
TEST(ExplainJson, LargeTensorsAreLeftOut) {
  const struct {
    std::int64_t inputs;
    bool full;
    std::string left_out;
  } rows[] = {{12, false, ""},          {13, false, "triples "},        {13, true, ""},
              {256, false, "triples "}, {257, false, "pairs triples "}, {257, true, ""}};
  for (const auto& [inputs, full, left_out] : rows) {
    Explanation explanation;
    explanation.inputs = inputs;
    explanation.full = full;
    explanation.output = explanation.true_output = Tensor::zeros({1, 1}, Dtype::f64);
    Block block;
    for (const auto& [name, shape] : {std::pair("numbers", Dims{inputs}),
                                      {"sizes", {inputs, 2}},
                                      {"pairs", {inputs, inputs}},
                                      {"triples", {inputs, inputs, 1}},
                                      {"of heads", {2, inputs, 3}}}) {
      block.quantities.push_back({.name = name, .values = Tensor::zeros(shape, Dtype::f64), .rows = {}});
    }
    explanation.sections = {{0, "", {block}}};
    std::string found;
    const Json json = Json::parse(to_json(explanation));
    for (const Json& tensor : json["sections"][0]["blocks"][0]["tensors"]) {
      if (tensor["values"].is_null()) found += tensor["name"].get<std::string>() + " ";
    }
    EXPECT_EQ(found, left_out) << inputs;
  }
}

TEST(ExplainJson, LabelsOfAnyBytesGiveValidJson) {
  ExplainInput input = worked_example();
  input.labels = {"a\"b", "\x80\xff", "c\n\x1b"};
  const Json json = Json::parse(to_json(explain(input)));
  EXPECT_EQ(json["sections"][1]["blocks"][0]["tensors"][0]["rows"],
            Json({"a\"b", "\xef\xbf\xbd\xef\xbf\xbd", "c\n\x1b"}));
}

std::string letters(std::string_view bytes) {
  std::string text;
  append_base85(text, bytes);
  return text;
}

// The specification of Z85, and powers of 85 by hand; an end has a letter more than it has bytes.
TEST(Base85, IsZ85) {
  const std::string zeros(6, '\0');
  EXPECT_EQ(letters("\x86\x4F\xD2\x6F\xB5\x59\xF7\x5B"), "HelloWorld");
  EXPECT_EQ(letters("\xFF\xFF\xFF\xFF"), "%nSc0");  // 82 23 54 12 0
  for (const auto& [bytes, count] : {std::pair(0, 0), {1, 2}, {4, 5}, {6, 8}}) {
    EXPECT_EQ(letters(zeros.substr(0, static_cast<std::size_t>(bytes))),
              std::string(static_cast<std::size_t>(count), '0'));
  }
  std::string all;
  for (int i = 0; i < 1 << 16; ++i) all += static_cast<char>(i * 2654435761u >> 13);
  EXPECT_EQ(letters(all).find_first_of("<\"'\\ "), std::string::npos);  // which would end an element
}

// And takes no more room than is said.
TEST(Deflated, InflatesToWhatItWas) {
  Random random(1);
  for (const std::size_t size : {0u, 1u, 2u, 1000u, 512u * 512u}) {
    std::string same(size, 'a'), noise(size, '\0');
    for (char& byte : noise) byte = static_cast<char>(random.bits());
    for (const std::string& bytes : {same, noise}) {
      const std::string small = deflated(bytes);
      EXPECT_EQ(test::inflated(small, size), bytes);
      EXPECT_LE(small.size(), size + size / 2048 + 16);
    }
    EXPECT_LE(deflated(same).size(), size / 20 + 20);
  }
}

}  // namespace
}  // namespace qkv
