// What heads attend to: the figures by hand, one head against softmax and sums of its own, text, JSON and refusals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "attention/attention_testing.h"
#include "explain/example.h"
#include "explain/intermediates.h"
#include "explain/plain_models.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"
#include "qkv/files.h"
#include "qkv/target.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

using Json = nlohmann::json;
using test::kRounding;
using test::sum_of_row;
using test::tiny;

// One token per number, the first and the last of them special: a tiny model (golden/bert) of 2 layers of 3 heads.
Encoding encoding_of(const std::vector<std::string>& tokens) {
  Encoding text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    text.ids.push_back(static_cast<std::int32_t>(3 + 2 * i));
    text.tokens.push_back(tokens[i]);
    text.type_ids.push_back(0);
    text.special.push_back(i == 0 || i + 1 == tokens.size() ? 1 : 0);
  }
  return text;
}

const Encoding& small_text() {
  static const Encoding text = encoding_of({"[CLS]", "it", "saw", "it", "[SEP]"});
  return text;
}

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(ModelHeads, SummaryOfWeightsByHand) {
  const Tensor weights = test::matrix(3, 3,
                                      {0.5, 0.5, 0,      //
                                       0.25, 0.5, 0.25,  //
                                       0, 0, 1});
  const HeadSummary summary = summarize_head(weights, std::vector<std::uint8_t>{1, 0, 1});
  // Rows: ln 2, 1.5 ln 2 and 0.
  EXPECT_NEAR(summary.entropy, 2.5 * std::log(2.0) / 3, 1e-15);
  EXPECT_NEAR(summary.distance, (0.5 + 0.5 + 0) / 3, 1e-15);
  EXPECT_NEAR(summary.first, (0.5 + 0.25) / 3, 1e-15);
  EXPECT_NEAR(summary.previous, 0.25 / 3, 1e-15);
  EXPECT_NEAR(summary.next, (0.5 + 0.25) / 3, 1e-15);
  EXPECT_NEAR(summary.itself, (0.5 + 0.5 + 1) / 3, 1e-15);
  EXPECT_NEAR(summary.separators, (0.25 + 1) / 3, 1e-15);  // token 0 is special, but it is the first
}

TEST(ModelHeads, SummaryOfDistantWeights) {
  const Tensor last = Tensor::of<float>({4, 4}, {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  const HeadSummary summary = summarize_head(last, std::vector<std::uint8_t>(4));
  EXPECT_EQ(summary.distance, (3 + 2 + 1 + 0) / 4.0);
  EXPECT_EQ(summary.entropy, 0);
  EXPECT_EQ(summary.next, 0.25);
  EXPECT_EQ(summary.separators, 0);
  EXPECT_EQ(refusal([&] { summarize_head(last, std::vector<std::uint8_t>(3)); }),
            "explain: weights must be [queries, keys] with a mark per key, got [4, 4] and 3 marks");
}

// Words end at blanks and at punctuation; pieces of one are joined.
TEST(ModelHeads, TokensFormWords) {
  Encoding text = encoding_of({"[CLS]", "un", "##do", "it", ",", "it", "[SEP]"});
  text.offsets = {{0, 0}, {0, 2}, {2, 4}, {5, 7}, {7, 8}, {8, 10}, {0, 0}};
  text.special = {1, 0, 0, 0, 0, 0, 1};
  const EncodedText encoded(tiny(), text);
  const TokenWords& words = encoded.attentions().sequences.front().words;
  EXPECT_EQ(words.words, (std::vector<std::string>{"undo", "it", ",", "it"}));
  EXPECT_EQ(words.word_of, (std::vector<std::int64_t>{-1, 0, 0, 1, 2, 3, -1}));
}

// Whatever marks a space or a byte in a vocabulary: pieces that continue a word have the mark of BERT's.
TEST(ModelHeads, LabelsAreTextWithPiecesMarked) {
  Encoding text =
      encoding_of({"<s>", "\xc4\xa0it", "\xe2\x96\x81un", "do", "caf\xc3\x83\xc2\xa9", "\xc3\xa9t", "</s>"});
  text.offsets = {{0, 0}, {0, 2}, {3, 5}, {5, 7}, {8, 13}, {14, 17}, {0, 0}};
  text.special = {1, 0, 0, 0, 0, 0, 1};
  const EncodedText encoded(tiny(), text);
  const AttentionSequence& sequence = encoded.attentions().sequences.front();
  EXPECT_EQ(sequence.tokens, (std::vector<std::string>{"<s>", "it", "un", "##do", "caf\xc3\xa9", "\xc3\xa9t", "</s>"}));
  EXPECT_EQ(sequence.words.words, (std::vector<std::string>{"it", "undo", "caf\xc3\xa9", "\xc3\xa9t"}));
  EXPECT_EQ(find_token(sequence.tokens, "do"), 3);
  EXPECT_EQ(find_token(sequence.tokens, "##do"), 3);
}

TEST(ModelHeads, ASpaceAloneIsNamed) {
  Encoding text = encoding_of({"<s>", "\xc4\xa0", "y", "\xe2\x96\x81", "</s>"});
  text.offsets = {{0, 0}, {0, 1}, {1, 2}, {3, 4}, {0, 0}};
  text.special = {1, 0, 0, 0, 1};
  const EncodedText encoded(tiny(), text);
  const AttentionSequence& sequence = encoded.attentions().sequences.front();
  EXPECT_EQ(sequence.tokens, (std::vector<std::string>{"<s>", "(space)", "##y", "(space)", "</s>"}));
  EXPECT_EQ(sequence.words.words, (std::vector<std::string>{"y", "(space)"}));
}

TEST(ModelHeads, SurveyHasEveryHeadInOrder) {
  const HeadSurvey survey = survey_heads(EncodedText(tiny(), small_text()));
  ASSERT_EQ(survey.heads.size(), 6u);
  for (std::int64_t i = 0; i < 6; ++i) {
    const HeadSurvey::Entry& entry = survey.heads[static_cast<std::size_t>(i)];
    EXPECT_EQ(entry.index.layer, i / 3);
    EXPECT_EQ(entry.index.head, i % 3);
    const HeadTrace trace = trace_head(EncodedText(tiny(), small_text()), entry.index);
    EXPECT_EQ(trace.summary.entropy, entry.summary.entropy);
    EXPECT_EQ(trace.summary.itself, entry.summary.itself);
  }
}

// Each head's numbers follow from its own query, key and value.
void expect_consistent(const HeadTrace& trace) {
  const std::int64_t count = trace.query.size(0), head_dim = trace.query.size(1);
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_NEAR(sum_of_row(trace.weights, i), 1, kRounding);
    std::vector<double> exponentials;
    double sum = 0;
    for (std::int64_t j = 0; j < count; ++j) {
      double score = 0;
      for (std::int64_t e = 0; e < head_dim; ++e) {
        score += trace.query.view().at<double>({i, e}) * trace.key.view().at<double>({j, e});
      }
      EXPECT_NEAR(trace.scores.view().at<double>({i, j}), score, 1e-12 * (1 + std::abs(score)));
      const double logit = score / std::sqrt(static_cast<double>(head_dim));
      EXPECT_NEAR(trace.logits.view().at<double>({i, j}), logit, 1e-5);
      exponentials.push_back(std::exp(logit));
      sum += exponentials.back();
    }
    for (std::int64_t j = 0; j < count; ++j) {
      EXPECT_NEAR(trace.weights.view().at<double>({i, j}), exponentials[static_cast<std::size_t>(j)] / sum, 1e-5);
    }
    for (std::int64_t e = 0; e < head_dim; ++e) {
      double output = 0;
      for (std::int64_t j = 0; j < count; ++j) {
        output += exponentials[static_cast<std::size_t>(j)] / sum * trace.value.view().at<double>({j, e});
      }
      EXPECT_NEAR(trace.output.view().at<double>({i, e}), output, 1e-5);
    }
  }
  EXPECT_LT(trace.logits_difference, 1e-5);
  EXPECT_LT(trace.output_difference, 1e-5);
}

TEST(ModelHeads, OneHeadIsConsistent) {
  std::set<double> first_queries;
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    for (std::int64_t head = 0; head < 3; ++head) {
      const HeadTrace trace = trace_head(EncodedText(tiny(), small_text()), {layer, head});
      EXPECT_EQ(trace.query.shape(), (Dims{5, 4}));
      EXPECT_EQ(trace.weights.shape(), (Dims{5, 5}));
      EXPECT_EQ(trace.scale, 0.5);
      EXPECT_EQ(trace.target, selected_target());
      expect_consistent(trace);
      first_queries.insert(trace.query.data<double>()[0]);
    }
  }
  EXPECT_EQ(first_queries.size(), 6u);  // no head passes for another
}

// Of MPNet. Nearer than 8 a distance is its own bucket, 16 more for a key after the query.
TEST(ModelHeads, LogitsHaveTheBiasOfTheirPositions) {
  const std::string folder = QKV_TEST_DATA "/golden/encoders/mpnet";
  const Bert model = Bert::load(folder);
  const Tensor table =
      read_safetensors(folder + "/model.safetensors").tensors.at("mpnet.encoder.relative_attention_bias.weight");
  const EncodedText encoded(model, small_text());
  for (const HeadIndex& index : {HeadIndex{0, 1}, HeadIndex{1, 2}}) {
    const HeadTrace trace = trace_head(encoded, index);
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        const std::int64_t bucket = j > i ? 16 + j - i : i - j;
        EXPECT_EQ(trace.bias.view().at<double>({i, j}), table.view().at<float>({bucket, index.head}));
        EXPECT_NEAR(trace.logits.view().at<double>({i, j}),
                    trace.scale * trace.scores.view().at<double>({i, j}) + trace.bias.view().at<double>({i, j}), 1e-4);
      }
    }
    EXPECT_LT(trace.logits_difference, 1e-4);
    const Json json = Json::parse(to_json(trace, std::nullopt));
    EXPECT_EQ(json.at("bias").at(1).at(3).get<float>(), table.view().at<float>({18, index.head}));
    const auto is_table = [](const std::string& remark) { return remark.starts_with("a table of relative positions"); };
    EXPECT_TRUE(std::ranges::any_of(trace.cost->remarks, is_table));
  }
  EXPECT_EQ(trace_head(EncodedText(tiny(), small_text()), {0, 0}).bias.element_count(), 0);
}

TEST(ModelHeads, FindsTokensByTextThenByNumber) {
  const std::vector<std::string> tokens = {"[CLS]", "it", "3", "it", "[SEP]"};
  EXPECT_EQ(find_token(tokens, "it"), 1);
  EXPECT_EQ(find_token(tokens, "3"), 2);
  EXPECT_EQ(find_token(tokens, "4"), 4);
  for (const char* name : {"5", "-1", "4x", "", "It", "99999999999999999999"}) {
    EXPECT_EQ(refusal([&] { find_token(tokens, name); }),
              std::string("explain: there is no token \"") + name + "\"; the tokens, 0 to 4, are: [CLS] it 3 it [SEP]");
  }
}

TEST(ModelHeads, RefusesWhatDoesNotFit) {
  const auto trace = [](std::int64_t layer, std::int64_t head) {
    return refusal([&] { trace_head(EncodedText(tiny(), small_text()), {layer, head}); });
  };
  EXPECT_EQ(trace(2, 0), "explain: there is no layer 2; the model has layers 0 to 1");
  EXPECT_EQ(trace(-1, 0), "explain: there is no layer -1; the model has layers 0 to 1");
  EXPECT_EQ(trace(0, 3), "explain: there is no head 3; each layer has heads 0 to 2");
  EXPECT_EQ(refusal([] { EncodedText(tiny(), Encoding()); }), "explain: the text has no tokens");
  Encoding text;
  text.ids.resize(17);
  EXPECT_EQ(refusal([&] { EncodedText(tiny(), text); }), "explain: the text has 17 tokens; the model reads at most 16");
}

// A head whose numbers are chosen: it attends to the last token, then to the first one.
HeadTrace chosen_trace() {
  HeadTrace trace;
  trace.heads = 1;
  trace.model_dim = 2;
  trace.tokens = trace.keys = {"the", "\x1b[31m", "the"};
  trace.query = trace.key = trace.value = trace.output = test::matrix(3, 2, {1, 2, 3, 4, 5, 6});
  trace.scores = trace.logits = test::matrix(3, 3, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  trace.weights = test::matrix(3, 3, {0.25, 0.125, 0.625, 0.25, 0.125, 0.625, 0.25, 0.125, 0.625});
  trace.value_norms = trace.weights;
  trace.target = "avx2";
  return trace;
}

TEST(ModelHeads, TextHasTopKeysFirst) {
  const std::string text = to_text(chosen_trace(), 2);
  EXPECT_TRUE(test::has_line_with(text, "  0 the    ->  the (2) 0.625, the (0) 0.250, ?[31m 0.125\n")) << text;
  EXPECT_TRUE(test::has_line_with(text, "this is number 2; also at 0")) << text;
  const std::size_t table = text.find("Step 2.");
  EXPECT_LT(text.find("0.62500", table), text.find("0.25000", table));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LE(test::longest_line(text), 98u);
  EXPECT_EQ(to_text(chosen_trace()).find("Step 1."), std::string::npos);
  EXPECT_NE(to_text(chosen_trace(), 2, {.color = true}).find(" \x1b[36m0.625\x1b[0m"), std::string::npos);
}

TEST(ModelHeads, EqualWeightsComeInTheOrderOfTheirKeys) {
  const Tensor weights = test::matrix(1, 7, {0.125, 0.25, 0.125, 0, 0.25, 0.25, 0});
  EXPECT_EQ(keys_by_weight(weights, 0), (std::vector<std::int64_t>{1, 4, 5, 0, 2, 3, 6}));
}

Attentions one_attention(const std::vector<std::string>& tokens) {
  return {.sequences = {{.name = "tokens", .tokens = tokens}}, .sites = {{.name = "heads"}}};
}

TEST(ModelHeads, ZeroHasNoSign) {
  HeadTrace trace = chosen_trace();
  trace.logits = trace.scores = trace.weights = test::matrix(3, 3, {-0.0, -4e-6, 1, -0.0, -4e-6, 1, -0.0, -4e-6, 1});
  trace.summary.entropy = trace.summary.distance = trace.summary.first = -1e-9;
  EXPECT_EQ(to_text(trace, 2).find("-0.0"), std::string::npos) << to_text(trace, 2);
  HeadSurvey survey;
  survey.attentions = one_attention({"a"});
  survey.heads = {{.index = {}, .summary = trace.summary}};
  EXPECT_EQ(to_text(survey).find("-0.0"), std::string::npos) << to_text(survey);
}

// 30 keys, of which a table shows 20 and a line 5; 9 numbers in a value, of which a line shows 5.
TEST(ModelHeads, NothingIsShortenedInFull) {
  HeadTrace trace = chosen_trace();
  const auto counted = [](std::int64_t rows, std::int64_t columns, double first) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < rows * columns; ++i) values.push_back(first + static_cast<double>(i));
    return Tensor::of<double>({rows, columns}, values);
  };
  trace.keys.clear();
  for (int i = 0; i < 30; ++i) trace.keys.push_back(fmt::format("k{}", i));
  trace.key = trace.value = counted(30, 9, 1000);
  trace.scores = trace.logits = counted(3, 30, 2000);
  trace.weights = trace.value_norms = counted(3, 30, 3000);
  const std::string text = to_text(trace, 2, {.full = true}), usual = to_text(trace, 2);
  EXPECT_EQ(text.find("..."), std::string::npos);
  for (int i = 0; i < 90; ++i) EXPECT_NE(text.find(fmt::format(" {:.3f}", 3000.0 + i)), std::string::npos) << i;
  for (int i = 60; i < 90; ++i) EXPECT_NE(text.find(fmt::format(" {:.5f}", 2000.0 + i)), std::string::npos) << i;
  for (int i = 0; i < 270; ++i) EXPECT_TRUE(text.find(std::to_string(1000 + i)) != std::string::npos) << i;
  EXPECT_NE(usual.find("(and 10 more: all of them with --full or --json)"), std::string::npos);
}

TEST(ModelHeads, WeightsThatAreNoNumbersComeLast) {
  HeadTrace trace = chosen_trace();
  trace.weights.data<double>()[0] = std::nan("");
  EXPECT_TRUE(test::has_line_with(to_text(trace), "->  the (2) 0.625, ?[31m 0.125, the (0) nan\n")) << to_text(trace);
}

// Differences are of the logits, of the output and of nothing; NaN is no small difference.
TEST(ModelHeads, DifferencesOverNaNAreNaN) {
  HeadTrace trace = chosen_trace();
  trace.query.data<double>()[0] = std::nan("");
  complete(trace, std::vector<std::uint8_t>(trace.tokens.size()));
  EXPECT_TRUE(std::isnan(trace.logits_difference));
  EXPECT_FALSE(std::isnan(trace.output_difference));
  EXPECT_EQ(Json::parse(to_json(trace))["largest_difference_of_logits"], "nan");
}

TEST(ModelHeads, TextOfSurveyHasALinePerHead) {
  HeadSurvey survey;
  survey.attentions = one_attention({"[CLS]", "a"});
  survey.heads = {{{0, 0}, {.entropy = 0.5, .distance = 1, .first = 0.75}, {}, {}, 1.5},
                  {{0, 1}, {.separators = 0.125}}};
  const std::string text = to_text(survey);
  EXPECT_TRUE(test::has_line_with(text, "0 [CLS], 1 a\n")) << text;
  EXPECT_TRUE(test::has_line_with(
      text, "      0    0 0.500/0.693      1.00  0.750    0.000  0.000  0.000      0.000      1.500\n"))
      << text;
  EXPECT_TRUE(test::has_line_with(text, "0.693 if it is\n")) << text;
}

// Heads with a pattern by strength; between two sequences no columns of positions.
TEST(ModelHeads, TextNamesTheMostStrikingHeads) {
  HeadSurvey survey;
  survey.attentions = one_attention({"[CLS]", "a", "b"});
  survey.heads = {{{0, 0}, {.previous = 0.6}, HeadPattern::previous},
                  {{0, 1}, {.entropy = 1.09}, HeadPattern::spread},
                  {{1, 0}, {.next = 0.9}, HeadPattern::next}};
  std::string text = to_text(survey);
  EXPECT_TRUE(test::has_line_with(text, "layer 1, head 0: next; 0.900 of its weight goes to the token after\n"))
      << text;
  EXPECT_LT(text.find("head 0: next"), text.find("head 0: previous"));
  EXPECT_EQ(text.find("head 1: spread"), std::string::npos);
  EXPECT_TRUE(test::has_line_with(text, "separators value norm\n")) << text;
  survey.attentions.sequences.push_back({.name = "other", .tokens = {"x", "y"}, .special = {0, 0}});
  survey.attentions.sites[0].keys = 1;
  survey.heads = {{{0, 0}, {.entropy = 0.1}, HeadPattern::alignment}};
  text = to_text(survey, {.width = 120});
  EXPECT_TRUE(test::has_line_with(text, "layer head entropy/max  first separators value norm\n")) << text;
  EXPECT_NE(text.find("entropy 0.100 of at most 0.693"), std::string::npos) << text;
}

TEST(ModelHeads, JsonHoldsEveryNumberInFull) {
  const HeadTrace trace = trace_head(EncodedText(tiny(), small_text()), {1, 2});
  const Json json = Json::parse(to_json(trace, 3));
  EXPECT_EQ(json["layer"], 1);
  EXPECT_EQ(json["head"], 2);
  EXPECT_EQ(json["token"], 3);
  EXPECT_EQ(json["tokens"], small_text().tokens);
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      // As f32 in short: reads back to the number.
      EXPECT_EQ(json["weights"][static_cast<std::size_t>(i)][static_cast<std::size_t>(j)].get<float>(),
                static_cast<float>(trace.weights.view().at<double>({i, j})));
    }
  }
  EXPECT_EQ(json["output"][4].size(), 4u);
  EXPECT_EQ(json["heads"], 3);
  EXPECT_EQ(json["model_dim"], 12);
  EXPECT_TRUE(Json::parse(to_json(trace))["token"].is_null());
  const HeadSurvey survey = survey_heads(EncodedText(tiny(), small_text()));
  const Json table = Json::parse(to_json(survey))["attentions"][0];
  ASSERT_EQ(table["all"].size(), 6u);
  EXPECT_EQ(table["all"][4]["layer"], 1);
  EXPECT_EQ(table["all"][4]["head"], 1);
  EXPECT_EQ(table["all"][4]["previous"].get<double>(), survey.heads[4].summary.previous);
  EXPECT_EQ(table["largest_entropy"], std::log(5.0));
  EXPECT_TRUE(table["all"][0]["weights"].is_null());
}

TEST(ModelHeads, PatternsByTheirThresholds) {
  using enum HeadPattern;
  const double largest = std::log(8.0);
  EXPECT_EQ(pattern_of({.entropy = 1, .previous = 0.5}, largest, false), previous);
  EXPECT_EQ(pattern_of({.entropy = 1, .previous = 0.499}, largest, false), none);
  EXPECT_EQ(pattern_of({.entropy = 1, .next = 0.7}, largest, false), next);
  EXPECT_EQ(pattern_of({.entropy = 1, .next = 0.7}, largest, true), alignment);  // positions of two sequences
  EXPECT_EQ(pattern_of({.entropy = 1.05, .next = 0.7}, largest, true), none);
  EXPECT_EQ(pattern_of({.entropy = 1, .first = 0.6, .itself = 0.55}, largest, false), itself);
  EXPECT_EQ(pattern_of({.entropy = 1, .first = 0.6}, largest, true), first);
  EXPECT_EQ(pattern_of({.entropy = 1, .separators = 0.5}, largest, false), separators);
  EXPECT_EQ(pattern_of({.entropy = 0.9 * largest}, largest, false), spread);
  EXPECT_EQ(pattern_of({.entropy = 0.89 * largest}, largest, false), none);
  EXPECT_EQ(pattern_of({}, 0, false), none);  // one key
  EXPECT_STREQ(name_of(spread), "spread");
  EXPECT_STREQ(name_of(previous), "previous");
}

TEST(ModelHeads, JsonRanksKeysAsTheTextDoes) {
  EXPECT_EQ(Json::parse(to_json(chosen_trace()))["keys_by_weight"], Json::parse("[[2, 0, 1], [2, 0, 1], [2, 0, 1]]"));
}

TEST(ModelHeads, SurveyKeepsWeightsOnRequest) {
  const HeadSurvey survey = survey_heads(EncodedText(tiny(), small_text()), {.keep_weights = true});
  const Json table = Json::parse(to_json(survey))["attentions"][0]["all"];
  for (std::size_t i = 0; i < 6; ++i) {
    const HeadTrace trace = trace_head(EncodedText(tiny(), small_text()), survey.heads[i].index);
    EXPECT_TRUE(testing::same_bits(survey.heads[i].weights, trace.weights));
    EXPECT_EQ(table[i]["weights"], Json::parse(to_json(trace))["weights"]);
  }
}

TEST(ModelHeads, MiniLmOnARealSentence) {
  if (!std::filesystem::exists(minilm_folder() + "/model.safetensors")) {
    GTEST_SKIP() << "no " << minilm_folder() << ": run models/get-minilm";
  }
  const Bert model = Bert::load(minilm_folder());
  const Encoding text = Tokenizer::load(minilm_folder() + "/tokenizer.json")
                            .encode("The animal didn't cross the street because it was too tired.");
  const HeadTrace trace = trace_head(EncodedText(model, text), {.layer = 3, .head = 7});
  EXPECT_EQ(trace.tokens[static_cast<std::size_t>(find_token(trace.tokens, "it"))], "it");
  EXPECT_EQ(trace.query.shape(), (Dims{16, 32}));
  expect_consistent(trace);
  const HeadSurvey survey = survey_heads(EncodedText(model, text));
  EXPECT_EQ(survey.heads.size(), 72u);
  for (const HeadSurvey::Entry& entry : survey.heads) {
    const HeadSummary& summary = entry.summary;
    EXPECT_LE(summary.entropy, std::log(16.0) + kRounding);
    for (const double share : {summary.first, summary.previous, summary.next, summary.itself, summary.separators}) {
      EXPECT_GE(share, 0);
      EXPECT_LE(share, 1 + kRounding);
    }
  }
}

}  // namespace
}  // namespace qkv
