// What heads attend to: figures by hand, each head of a model against loops over its own numbers, a model whose numbers
// are written here, and refusals.
#include "explain/chosen.h"
#include "explain/observe/intermediates.h"
#include "explain/observe/left_out_masks.h"
#include "explain/observe/observe.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/cost.h"

namespace qkv {
namespace {

using test::at;
using test::encoding_of;
using test::Json;
using test::refusal;
using test::Strings;
using test::tiny;

EncodedText small_text() { return EncodedText(tiny(), encoding_of({"[CLS]", "it", "saw", "it", "[SEP]"})); }

TEST(ModelHeads, SummaryOfWeightsByHand) {
  const Tensor weights = test::matrix(3, 3, {0.5, 0.5, 0, 0.25, 0.5, 0.25, 0, 0, 1});
  const HeadSummary summary = summarize_head(weights, std::vector<std::uint8_t>{1, 0, 1});
  // Rows: ln 2, 1.5 ln 2 and 0.
  EXPECT_NEAR(summary.entropy, 2.5 * std::log(2.0) / 3, 1e-15);
  EXPECT_NEAR(summary.distance, (0.5 + 0.5 + 0) / 3, 1e-15);
  EXPECT_NEAR(summary.first, (0.5 + 0.25) / 3, 1e-15);
  EXPECT_NEAR(summary.previous, 0.25 / 3, 1e-15);
  EXPECT_NEAR(summary.next, (0.5 + 0.25) / 3, 1e-15);
  EXPECT_NEAR(summary.itself, (0.5 + 0.5 + 1) / 3, 1e-15);
  EXPECT_NEAR(summary.separators, (0.25 + 1) / 3, 1e-15);  // token 0 is special, but it is the first
  const Tensor last = Tensor::of<float>({4, 4}, {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  const HeadSummary distant = summarize_head(last, std::vector<std::uint8_t>(4));
  EXPECT_EQ(distant.distance, (3 + 2 + 1 + 0) / 4.0);
  EXPECT_EQ(distant.entropy, 0);
  EXPECT_EQ(distant.next, 0.25);
  EXPECT_EQ(distant.separators, 0);
  EXPECT_EQ(refusal([&] { summarize_head(last, std::vector<std::uint8_t>(3)); }),
            "explain: weights must be [queries, keys] with a mark per key, got [4, 4] and 3 marks");
}

TEST(ModelHeads, PatternsByTheirThresholds) {
  using enum HeadPattern;
  const double largest = std::log(8.0);
  const struct {
    HeadSummary summary;
    bool between;
    HeadPattern pattern;
  } rows[] = {
      {{.entropy = 1, .previous = 0.5}, false, previous},
      {{.entropy = 1, .previous = 0.499}, false, none},
      {{.entropy = 1, .next = 0.7}, false, next},
      {{.entropy = 1, .next = 0.7}, true, alignment},  // positions of two sequences
      {{.entropy = 1.05, .next = 0.7}, true, none},
      {{.entropy = 1, .first = 0.6, .itself = 0.55}, false, itself},
      {{.entropy = 1, .first = 0.6}, true, first},
      {{.entropy = 1, .separators = 0.5}, false, separators},
      {{.entropy = 0.9 * largest}, false, spread},
      {{.entropy = 0.89 * largest}, false, none},
  };
  for (const auto& row : rows) EXPECT_EQ(pattern_of(row.summary, largest, row.between), row.pattern) << &row - rows;
  EXPECT_EQ(pattern_of({}, 0, false), none);  // one key
}

// Keys seen by each query: 3 of 3; by a causal mask 1, 2, 3; without the first key 0, 1, 2; without any 0.
TEST(ModelHeads, LargestEntropyByHand) {
  const auto largest = [](bool causal, const std::vector<KeyIndex>& left_out) {
    return largest_entropy({.sequences = {{.name = "tokens", .tokens = {"a", "b", "c"}}},
                            .sites = {{.name = "heads", .layers = 1, .heads = 1, .causal = causal}},
                            .left_out = {.keys = left_out}},
                           0);
  };
  EXPECT_NEAR(largest(false, {}), std::log(3.0), 1e-15);
  EXPECT_NEAR(largest(true, {}), (std::log(2.0) + std::log(3.0)) / 3, 1e-15);
  EXPECT_NEAR(largest(false, {{0, 0}}), std::log(2.0), 1e-15);
  EXPECT_NEAR(largest(true, {{0, 0}}), std::log(2.0) / 3, 1e-15);
  EXPECT_EQ(largest(false, {{0, 0}, {1, 0}, {2, 0}}), 0);
}

// Words end at blanks and at punctuation. Whatever marks a space or a byte in a vocabulary: pieces that continue a word
// have the mark of BERT's, a space alone is named.
TEST(ModelHeads, TokensFormWords) {
  const struct {
    Strings tokens;
    std::vector<TextSpan> offsets;
    Strings labels, words;
    std::vector<std::int64_t> word_of;
  } rows[] = {
      {{"[CLS]", "un", "##do", "it", ",", "it", "[SEP]"},
       {{0, 0}, {0, 2}, {2, 4}, {5, 7}, {7, 8}, {8, 10}, {0, 0}},
       {"[CLS]", "un", "##do", "it", ",", "it", "[SEP]"},
       {"undo", "it", ",", "it"},
       {-1, 0, 0, 1, 2, 3, -1}},
      {{"<s>", "\xc4\xa0it", "\xe2\x96\x81un", "do", "caf\xc3\x83\xc2\xa9", "\xc3\xa9t", "</s>"},
       {{0, 0}, {0, 2}, {3, 5}, {5, 7}, {8, 13}, {14, 17}, {0, 0}},
       {"<s>", "it", "un", "##do", "caf\xc3\xa9", "\xc3\xa9t", "</s>"},
       {"it", "undo", "caf\xc3\xa9", "\xc3\xa9t"},
       {-1, 0, 1, 1, 2, 3, -1}},
      {{"<s>", "\xc4\xa0", "y", "\xe2\x96\x81", "</s>"},
       {{0, 0}, {0, 1}, {1, 2}, {3, 4}, {0, 0}},
       {"<s>", "(space)", "##y", "(space)", "</s>"},
       {"y", "(space)"},
       {-1, 0, 0, 1, -1}},
  };
  for (const auto& row : rows) {
    Encoding text = encoding_of(row.tokens);
    text.offsets = row.offsets;
    const EncodedText encoded(tiny(), text);
    const AttentionSequence& sequence = encoded.attentions().sequences.front();
    EXPECT_EQ(sequence.tokens, row.labels);
    EXPECT_EQ(sequence.words.words, row.words);
    EXPECT_EQ(sequence.words.word_of, row.word_of);
  }
}

// And keys of equal weight in their order.
TEST(ModelHeads, FindsTokensByTextThenByNumber) {
  const Tensor weights = test::matrix(1, 7, {0.125, 0.25, 0.125, 0, 0.25, 0.25, 0});
  EXPECT_EQ(keys_by_weight(weights, 0), (std::vector<std::int64_t>{1, 4, 5, 0, 2, 3, 6}));
  const Strings tokens = {"[CLS]", "it", "3", "it", "##do"};
  const std::pair<const char*, std::int64_t> rows[] = {{"it", 1}, {"3", 2}, {"4", 4}, {"do", 4}, {"##do", 4}, {"0", 0}};
  for (const auto& [name, number] : rows) EXPECT_EQ(find_token(tokens, name), number) << name;
  for (const char* name : {"5", "-1", "4x", "", "It", "99999999999999999999"}) {
    EXPECT_EQ(refusal([&] { find_token(tokens, name); }),
              std::string("explain: there is no token \"") + name + "\"; the tokens, 0 to 4, are: [CLS] it 3 it ##do");
  }
}

// Differences are of the logits, of the output and of nothing; NaN is no small difference.
TEST(ModelHeads, DifferencesOverNaNAreNaN) {
  HeadTrace trace = test::chosen_trace();
  trace.query.data<double>()[0] = std::nan("");
  complete(trace);
  EXPECT_TRUE(std::isnan(trace.logits_difference));
  EXPECT_FALSE(std::isnan(trace.output_difference));
  EXPECT_EQ(Json::parse(to_json(trace))["largest_difference_of_logits"], "nan");
}

// Of MPNet. Nearer than 8 a distance is its own bucket, 16 more for a key after the query.
TEST(ModelHeads, LogitsHaveTheBiasOfTheirPositions) {
  const std::string folder = QKV_TEST_DATA "/golden/encoders/mpnet";
  const TextEncoder model = TextEncoder::load(folder);
  const Tensor table =
      read_safetensors(folder + "/model.safetensors").tensors.at("mpnet.encoder.relative_attention_bias.weight");
  const EncodedText encoded(model, encoding_of({"a", "b", "c", "d", "e"}));
  for (const HeadIndex& index : {HeadIndex{0, 1}, HeadIndex{1, 2}}) {
    const HeadTrace trace = trace_head(encoded, index);
    const auto bias = [&](std::int64_t i, std::int64_t j) {
      return static_cast<double>(table.view().at<float>({j > i ? 16 + j - i : i - j, index.head}));
    };
    test::expect_near(trace.bias, test::filled(5, 5, bias), 0);
    const auto logit = [&](auto i, auto j) { return trace.scale * at(trace.scores, i, j) + bias(i, j); };
    test::expect_near(trace.logits, test::filled(5, 5, logit), 1e-4);
    EXPECT_LT(trace.logits_difference, 1e-4);
    const auto is_table = [](const std::string& remark) { return remark.starts_with("a table of relative positions"); };
    EXPECT_TRUE(std::ranges::any_of(trace.cost->remarks, is_table));
  }
}

TEST(ModelHeads, RefusesWhatDoesNotFit) {
  const EncodedText text = small_text();
  const auto trace = [&](std::int64_t layer, std::int64_t head) {
    return refusal([&] { trace_head(text, {layer, head}); });
  };
  EXPECT_EQ(trace(2, 0), "explain: there is no layer 2; the model has layers 0 to 1");
  EXPECT_EQ(trace(-1, 0), "explain: there is no layer -1; the model has layers 0 to 1");
  EXPECT_EQ(trace(0, 3), "explain: there is no head 3; each layer has heads 0 to 2");
  EXPECT_EQ(refusal([] { EncodedText(tiny(), Encoding()); }), "explain: the text has no tokens");
  Encoding many;
  many.ids.resize(17);
  EXPECT_EQ(refusal([&] { EncodedText(tiny(), many); }), "explain: the text has 17 tokens; the model reads at most 16");
}

// A kind of model that the library does not know, explained by what it says of itself: two pictures and one attention
// between them. One layer, one head of size 1: two queries, three keys. Query 0 ignores key 2.
class TwoPictures : public Explainable {
 public:
  const Attentions& attentions() const override { return attentions_; }
  void run(Observer& observer) const override {
    const auto send = [&](const char* name, std::int64_t rows, std::int64_t columns, const std::vector<float>& values) {
      observer.receive(std::string("block.0.cross.") + name, Tensor::of<float>({rows, 1, columns}, values));
    };
    observer.receive("block.0.other.weights", Tensor::of<float>({1, 1, 1}, {1}));
    send("query", 2, 1, {1, 2});
    send("key", 3, 1, {1, 0, -1});
    send("value", 3, 1, {4, 8, 16});
    send("logits", 2, 3, {1, 0, -1, 2, 0, -2});
    send("weights", 2, 3, {0.75, 0.25, 0, 0.5, 0.25, 0.25});
    send("heads", 2, 1, {5, 8});
  }

  // What the two cells lose without a patch.
  Outcome outcome(const LeftOut& more) const override {
    Outcome found{.log_probabilities = {-1, -2}};
    for (const KeyIndex& one : more.keys) {
      constexpr double kLosses[][2] = {{0.5, -1}, {0.25, 1}, {-1, 0}};
      for (std::size_t t = 0; t < 2; ++t) found.log_probabilities[t] -= kLosses[one.key][t];
    }
    return found;
  }

  Attentions attentions_{.sequences = {{"patches", "Seen:  ", {"sky", "sea", "<class>"}, {0, 0, 1}},
                                       {"cells", "Drawn:  ", {"blue", "green"}, {0, 0}}},
                         .sites = {{.name = "cross",
                                    .title = "Cross-attention",
                                    .caption = "cells attend to patches",
                                    .before = "block.",
                                    .after = ".cross.",
                                    .layers = 1,
                                    .heads = 1,
                                    .model_dim = 7,
                                    .queries = 1,
                                    .keys = 0}},
                         .input = "a.png"};
};

TEST(Explainable, AnyKindIsSurveyedAndTraced) {
  const TwoPictures pictures;
  const HeadSurvey survey = survey_heads(pictures, {.keep_weights = true});
  HeadTrace trace = trace_head(pictures, {.layer = 0, .head = 0});
  trace.target = "avx2";
  EXPECT_EQ(trace.model_dim, 7);
  EXPECT_EQ(at(trace.scores, 1, 2), -2);
  // Without an output projection the values have their own lengths, 4, 8 and 16: the value norm is the mean of 5 and 8.
  const Json json = Json::parse(to_json(survey));
  EXPECT_EQ(json["attentions"][0]["all"][0]["weights"], Json::parse("[[0.75, 0.25, 0], [0.5, 0.25, 0.25]]"));
  test::expect_golden("pictures.txt", to_text(survey) + to_text(trace));
}

// Two output tokens are one word, of two source words; then the first one is part of none.
TEST(Explainable, WordsAreAlignedByTheirTokens) {
  TwoPictures pictures;
  pictures.attentions_.alignment = Alignment{.source_text = "sky-sea",
                                             .output_text = "blue-green",
                                             .source = {{"skysea", "<class>"}, {0, 0, 1}},
                                             .output = {{"blue-green"}, {0, 0}}};
  const HeadSurvey survey = survey_heads(pictures);
  test::expect_near(survey.word_weights, test::matrix(1, 2, {(0.75 + 0.25 + 0.5 + 0.25) / 2, 0.125}), 0);
  // Without sky and sea 0.75 and 0 are lost, without <class> -1 and 0, which count as nothing.
  test::expect_near(survey.word_alignment, test::matrix(1, 2, {1, 0}), 0);
  EXPECT_TRUE(words_to_text(survey).starts_with("sky-sea  ->  blue-green\n")) << words_to_text(survey);
  pictures.attentions_.alignment->output = {{"green"}, {-1, 0}};
  EXPECT_EQ(at(survey_heads(pictures).word_weights, 0, 0), 0.75);
  for (const std::vector<std::int64_t>& wrong : {std::vector<std::int64_t>{0, 1}, {0}, {0, 0, 0}}) {
    pictures.attentions_.alignment->output = {{"green"}, wrong};
    EXPECT_THROW(survey_heads(pictures), std::invalid_argument);
  }
}

TEST(Sublayers, LengthsByHand) {
  std::vector<SublayerVectors> sublayers;
  const std::vector<AttentionSequence> sequences = {{.name = "source", .tokens = {"a"}},
                                                    {.name = "read", .tokens = {"a", "b"}, .scope = "decoder."}};
  const Tensor rows = Tensor::of<float>({2, 3}, {1, 2, -2, 0, 0, 0});
  add_sublayer(sublayers, sequences, "decoder.layers.3.memory.output", rows);
  add_sublayer(sublayers, sequences, "encoder.layers.3.output", rows);                        // of no sequence
  add_sublayer(sublayers, sequences, "decoder.layers.3.merged", rows);                        // no vector passed on
  add_sublayer(sublayers, sequences, "decoder.norm", Tensor::of<float>({1, 3}, {1, 2, -2}));  // not of its length
  ASSERT_EQ(sublayers.size(), 1u);
  EXPECT_EQ(sublayers[0].part, "attention");
  EXPECT_EQ(sublayers[0].sequence, 1u);
  EXPECT_EQ(sublayers[0].size, 3);
  EXPECT_EQ(sublayers[0].lengths, (std::vector<double>{3, 0}));
}

// Against plain sums over what an observer receives. Returns names, parts, sequences and, in JSON, attentions.
Strings sublayers_of(const Explainable& input) {
  std::map<std::string, Tensor> all;
  observe(input, [&](std::string_view name, const TensorView& value) {
    if (value.rank() == 2) all[std::string(name)] = convert(value, Dtype::f64);
  });
  const HeadSurvey survey = survey_heads(input);
  const Json json = Json::parse(to_json(survey))["sublayers"];
  Strings found;
  for (std::size_t s = 0; s < survey.sublayers.size(); ++s) {
    const SublayerVectors& sublayer = survey.sublayers[s];
    const Tensor& rows = all.at(sublayer.name);
    EXPECT_EQ(rows.shape(), (Dims{std::ssize(sublayer.lengths), sublayer.size})) << sublayer.name;
    for (std::int64_t i = 0; i < rows.size(0); ++i) {
      double sum = 0;
      for (std::int64_t d = 0; d < rows.size(1); ++d) sum += std::pow(at(rows, i, d), 2);
      EXPECT_DOUBLE_EQ(sublayer.lengths[static_cast<std::size_t>(i)], std::sqrt(sum)) << sublayer.name;
    }
    const std::string attention = json[s]["attention"].is_null() ? "" : " " + json[s]["attention"].get<std::string>();
    found.push_back(sublayer.name + " " + sublayer.part + " " + json[s]["sequence"].get<std::string>() + attention);
  }
  return found;
}

TEST(Sublayers, ModelsHaveThemInOrder) {
  EXPECT_EQ(sublayers_of(small_text()),
            (Strings{"embedding embedding tokens", "positions positions tokens", "embedding_norm norm tokens",
                     "layers.0.output attention tokens attention", "layers.0.attention_norm norm tokens",
                     "layers.0.feed_forward feed_forward tokens", "layers.0.feed_forward_norm norm tokens",
                     "layers.1.output attention tokens attention", "layers.1.attention_norm norm tokens",
                     "layers.1.feed_forward feed_forward tokens", "layers.1.feed_forward_norm norm tokens"}));
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  std::string lines;
  for (const std::string& one : sublayers_of(TranslatedText(bart, "Good morning"))) lines += one + "\n";
  test::expect_golden("sublayers.txt", lines);
}

// Two operations for each product of a number: queries x keys pairs, of a key and of a value.
double operations(std::int64_t heads, std::int64_t queries, std::int64_t keys, std::int64_t size) {
  return 2.0 * static_cast<double>(heads * queries * keys * 2 * size);
}

Json cost_of(std::int64_t inputs, std::int64_t heads, bool causal) {
  ExplainInput input;
  input.heads = heads;
  if (causal) input.causal = Align::top_left;
  generate_missing(input, {.inputs = inputs, .dim = 4});
  return Json::parse(to_json(explain(input)))["cost"];
}

// The cost of an explained call is what plan() says of it.
TEST(Cost, OfStepsByHand) {
  ExplainInput input = worked_example();
  const Json cost = Json::parse(to_json(explain(input)))["cost"];
  EXPECT_EQ(cost["operations"], operations(1, 3, 3, 3));
  EXPECT_EQ(cost["bytes"], 8.0 * 4 * 3 * 3);  // queries, keys, values and output of f64
  EXPECT_EQ(cost["skipped_tiles"], 0);
  EXPECT_EQ(cost_of(5, 2, false)["operations"], operations(2, 5, 5, 2));
  for (const std::int64_t heads : {0, 2}) {
    const Json all = cost_of(300, heads, false), causal = cost_of(300, heads, true);
    EXPECT_EQ(all["skipped_tiles"], 0);
    EXPECT_EQ(causal["tiles"], all["tiles"]);
    EXPECT_GT(causal["skipped_tiles"], 0);
    EXPECT_LT(causal["operations"], all["operations"]);
  }
  input.substitutes["weights"] = test::matrix(3, 3, {0, 0.5, 0.5, 0, 1, 0, 0, 0.9, 0.1});
  EXPECT_TRUE(Json::parse(to_json(explain(input)))["cost"].is_null());
}

TEST(Cost, OfAModelIsThatOfALayer) {
  const Encoding text = encoding_of({"a", "b", "c", "d"});
  const auto survey_cost = [&](const LeftOut& left_out) {
    return Json::parse(to_json(survey_heads(EncodedText(tiny(), text, {}, left_out))))["attentions"][0]["cost"];
  };
  const Json whole = survey_cost({});
  EXPECT_EQ(whole["operations"], operations(3, 4, 4, 4));
  EXPECT_EQ(Json::parse(to_json(trace_head(EncodedText(tiny(), text), {.layer = 1, .head = 0})))["cost"], whole);
  // A head that is left out sees nothing: none of its tiles is computed.
  const Json without = survey_cost({.heads = {{.layer = 0, .head = 1}}});
  EXPECT_EQ(without["tiles"], whole["tiles"]);
  EXPECT_GT(without["skipped_tiles"], whole["skipped_tiles"]);
}

TEST(Cost, OfMapsIsWhatTheyWereTold) {
  AttentionMaps maps({2, 70}, 90, Dtype::f32);
  EXPECT_TRUE(Json::parse(to_json(maps))["cost"].is_null());
  const Tensor q = Tensor::zeros({2, 70, 8}), k = Tensor::zeros({2, 90, 8});
  const AttentionPlan told = plan(q, k, k, {}, maps.extras());
  maps.set_cost(told);
  EXPECT_EQ(Json::parse(to_json(maps))["cost"], Json::parse(to_json(told)));
  EXPECT_EQ(told.operations, operations(2, 70, 90, 8));
}

}  // namespace
}  // namespace qkv
