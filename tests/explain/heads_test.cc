// What heads attend to: figures by hand, each head of a model against loops over its own numbers, a model whose numbers
// are written here, and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "attention/attention_testing.h"
#include "explain/chosen.h"
#include "explain/head_trace.h"
#include "explain/observe.h"
#include "explain/sublayers.h"
#include "qkv/explain/attention_maps.h"
#include "qkv/explain/cost.h"
#include "qkv/target.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

using test::at;
using test::encoding_of;
using test::Json;
using test::kRounding;
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

TEST(ModelHeads, FindsTokensByTextThenByNumber) {
  const Strings tokens = {"[CLS]", "it", "3", "it", "##do"};
  const std::pair<const char*, std::int64_t> rows[] = {{"it", 1}, {"3", 2}, {"4", 4}, {"do", 4}, {"##do", 4}, {"0", 0}};
  for (const auto& [name, number] : rows) EXPECT_EQ(find_token(tokens, name), number) << name;
  for (const char* name : {"5", "-1", "4x", "", "It", "99999999999999999999"}) {
    EXPECT_EQ(refusal([&] { find_token(tokens, name); }),
              std::string("explain: there is no token \"") + name + "\"; the tokens, 0 to 4, are: [CLS] it 3 it ##do");
  }
}

TEST(ModelHeads, EqualWeightsComeInTheOrderOfTheirKeys) {
  const Tensor weights = test::matrix(1, 7, {0.125, 0.25, 0.125, 0, 0.25, 0.25, 0});
  EXPECT_EQ(keys_by_weight(weights, 0), (std::vector<std::int64_t>{1, 4, 5, 0, 2, 3, 6}));
}

// Differences are of the logits, of the output and of nothing; NaN is no small difference.
TEST(ModelHeads, DifferencesOverNaNAreNaN) {
  HeadTrace trace = test::chosen_trace();
  trace.query.data<double>()[0] = std::nan("");
  complete(trace, std::vector<std::uint8_t>(trace.tokens.size()));
  EXPECT_TRUE(std::isnan(trace.logits_difference));
  EXPECT_FALSE(std::isnan(trace.output_difference));
  EXPECT_EQ(Json::parse(to_json(trace))["largest_difference_of_logits"], "nan");
}

// Each head's numbers follow from its own query, key and value, and from what is added to them.
void expect_consistent(const HeadTrace& trace, double tolerance) {
  const std::int64_t count = trace.query.size(0), size = trace.query.size(1);
  const bool biased = trace.bias.element_count() > 0;
  const auto sum_over = [](std::int64_t n, const auto& term) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += term(i);
    return sum;
  };
  const Tensor scores = test::filled(count, count, [&](auto i, auto j) {
    return sum_over(size, [&](auto e) { return at(trace.query, i, e) * at(trace.key, j, e); });
  });
  const Tensor logits = test::filled(count, count, [&](auto i, auto j) {
    return at(scores, i, j) / std::sqrt(static_cast<double>(size)) + (biased ? at(trace.bias, i, j) : 0);
  });
  const Tensor weights = test::filled(count, count, [&](auto i, auto j) {
    return std::exp(at(logits, i, j)) / sum_over(count, [&](auto k) { return std::exp(at(logits, i, k)); });
  });
  const Tensor output = test::filled(count, size, [&](auto i, auto e) {
    return sum_over(count, [&](auto j) { return at(weights, i, j) * at(trace.value, j, e); });
  });
  test::expect_near(trace.scores, scores, 1e-12);
  test::expect_near(trace.logits, logits, tolerance);
  test::expect_near(trace.weights, weights, tolerance);
  test::expect_near(trace.output, output, tolerance);
  for (std::int64_t i = 0; i < count; ++i) {
    EXPECT_NEAR(test::sum_of_row(trace.weights, i), 1, kRounding);
    const double whole = sum_over(count, [&](auto k) { return std::exp(at(logits, i, k)); });
    EXPECT_NEAR(trace.log_sum_exp.data<double>()[i], std::log(whole), tolerance);
  }
  EXPECT_LT(trace.logits_difference, tolerance);
  EXPECT_LT(trace.output_difference, tolerance);
}

TEST(ModelHeads, EveryHeadIsConsistentAndInOrder) {
  const EncodedText text = small_text();
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true}), without = survey_heads(text);
  ASSERT_EQ(survey.heads.size(), 6u);
  EXPECT_EQ(without.heads[0].weights.element_count(), 0);
  std::set<double> first_queries;
  for (std::int64_t i = 0; i < 6; ++i) {
    const HeadSurvey::Entry& entry = survey.heads[static_cast<std::size_t>(i)];
    EXPECT_EQ(entry.index, (HeadIndex{i / 3, i % 3}));
    const HeadTrace trace = trace_head(text, entry.index);
    EXPECT_EQ(trace.query.shape(), (Dims{5, 4}));
    EXPECT_EQ(trace.scale, 0.5);
    EXPECT_EQ(trace.heads, 3);
    EXPECT_EQ(trace.model_dim, 12);
    EXPECT_EQ(trace.target, selected_target());
    EXPECT_EQ(trace.bias.element_count(), 0);
    EXPECT_EQ(trace.summary.entropy, entry.summary.entropy);
    EXPECT_EQ(trace.summary.itself, entry.summary.itself);
    EXPECT_TRUE(testing::same_bits(entry.weights, trace.weights));
    expect_consistent(trace, 1e-5);
    first_queries.insert(trace.query.data<double>()[0]);
  }
  EXPECT_EQ(first_queries.size(), 6u);  // no head passes for another
}

// Of MPNet. Nearer than 8 a distance is its own bucket, 16 more for a key after the query.
TEST(ModelHeads, LogitsHaveTheBiasOfTheirPositions) {
  const std::string folder = QKV_TEST_DATA "/golden/encoders/mpnet";
  const Bert model = Bert::load(folder);
  const Tensor table =
      read_safetensors(folder + "/model.safetensors").tensors.at("mpnet.encoder.relative_attention_bias.weight");
  const EncodedText encoded(model, encoding_of({"a", "b", "c", "d", "e"}));
  for (const HeadIndex& index : {HeadIndex{0, 1}, HeadIndex{1, 2}}) {
    const HeadTrace trace = trace_head(encoded, index);
    const auto bias = [&](std::int64_t i, std::int64_t j) {
      return static_cast<double>(table.view().at<float>({j > i ? 16 + j - i : i - j, index.head}));
    };
    test::expect_near(trace.bias, test::filled(5, 5, bias), 0);
    expect_consistent(trace, 1e-4);
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
  expect_consistent(trace, 1e-5);
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
  ASSERT_EQ(survey.heads.size(), 1u);
  EXPECT_EQ(survey.heads[0].summary.first, (0.75 + 0.5) / 2);
  EXPECT_EQ(survey.heads[0].summary.separators, 0.125);
  // Without an output projection the values have their own lengths, 4, 8 and 16.
  EXPECT_EQ(survey.heads[0].value_norm, ((0.75 * 4 + 0.25 * 8) + (0.5 * 4 + 0.25 * 8 + 0.25 * 16)) / 2);
  HeadTrace trace = trace_head(pictures, {.layer = 0, .head = 0});
  trace.target = "avx2";
  EXPECT_EQ(trace.title, "Cross-attention, layer 0, head 0: a.png");
  EXPECT_EQ(trace.tokens, (Strings{"blue", "green"}));
  EXPECT_EQ(trace.keys, (Strings{"sky", "sea", "<class>"}));
  EXPECT_EQ(trace.model_dim, 7);
  EXPECT_EQ(at(trace.scores, 1, 2), -2);
  EXPECT_EQ(trace.logits_difference, 0);
  EXPECT_EQ(trace.output_difference, 0);
  const Json json = Json::parse(to_json(survey));
  EXPECT_EQ(json["attentions"][0]["all"][0]["weights"], Json::parse("[[0.75, 0.25, 0], [0.5, 0.25, 0.25]]"));
  test::expect_golden("pictures.txt", to_text(survey) + to_text(trace));
}

// Two target tokens are one word, of two source words; then the first one is part of none.
TEST(Explainable, WordsAreAlignedByTheirTokens) {
  TwoPictures pictures;
  pictures.attentions_.alignment = Alignment{.source_text = "sky-sea",
                                             .target_text = "blue-green",
                                             .source = {{"skysea", "<class>"}, {0, 0, 1}},
                                             .target = {{"blue-green"}, {0, 0}}};
  const HeadSurvey survey = survey_heads(pictures);
  test::expect_near(survey.word_weights, test::matrix(1, 2, {(0.75 + 0.25 + 0.5 + 0.25) / 2, 0.125}), 0);
  // Without sky and sea 0.75 and 0 are lost, without <class> -1 and 0, which count as nothing.
  test::expect_near(survey.word_alignment, test::matrix(1, 2, {1, 0}), 0);
  EXPECT_TRUE(words_to_text(survey).starts_with("sky-sea  ->  blue-green\n")) << words_to_text(survey);
  pictures.attentions_.alignment->target = {{"green"}, {-1, 0}};
  EXPECT_EQ(at(survey_heads(pictures).word_weights, 0, 0), 0.75);
  for (const std::vector<std::int64_t>& wrong : {std::vector<std::int64_t>{0, 1}, {0}, {0, 0, 0}}) {
    pictures.attentions_.alignment->target = {{"green"}, wrong};
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

// ||v_j W_O^h|| by loops: sum over o of (sum over e of v[j, e] W_O[o, h * size + e])^2.
template <class Model>
void expect_norms(const Explainable& input, const Model& model, const Strings& before, const Strings& after) {
  std::map<std::string, Tensor> tensors;
  model.visit([&](const std::string& name, const Parameter& own) { tensors[name] = convert(own.value, Dtype::f64); });
  for (const HeadSurvey::Entry& entry : survey_heads(input).heads) {
    const std::size_t site = entry.index.site;
    const HeadTrace trace = trace_head(input, entry.index);
    const Tensor& out = tensors.at(before[site] + std::to_string(entry.index.layer) + after[site] + "out_proj.weight");
    const std::int64_t queries = trace.weights.size(0), size = trace.value.size(1);
    const Tensor lengths = test::filled(1, trace.value.size(0), [&](auto, auto j) {
      double squares = 0;
      for (std::int64_t o = 0; o < out.size(0); ++o) {
        double sum = 0;
        for (std::int64_t e = 0; e < size; ++e) sum += at(trace.value, j, e) * at(out, o, entry.index.head * size + e);
        squares += sum * sum;
      }
      return std::sqrt(squares);
    });
    const Tensor norms = test::filled(queries, trace.value.size(0),
                                      [&](auto i, auto j) { return at(trace.weights, i, j) * at(lengths, 0, j); });
    double sum = 0;
    for (const double norm : test::values_of(norms)) sum += norm;
    // Sums of so many products of f32 numbers, computed in f64, where order alone differs.
    test::expect_near(trace.value_lengths.view(), lengths.view().select(0, 0), 1e-12);
    test::expect_near(entry.value_lengths.view(), lengths.view().select(0, 0), 1e-12);
    test::expect_near(trace.value_norms, norms, 1e-12);
    EXPECT_NEAR(entry.value_norm, sum / static_cast<double>(queries), 1e-12);
  }
}

TEST(ValueNorms, OfEncodersAndTranslations) {
  for (const Strings& tokens : {Strings{"a"}, {"a", "b", "c", "d", "e"}}) {
    expect_norms(EncodedText(tiny(), encoding_of(tokens)), tiny(), {"layers."}, {".self_attn."});
  }
  const Translator bart = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  expect_norms(TranslatedText(bart, "Good morning"), bart.model(),
               {"encoder.layers.", "decoder.layers.", "decoder.layers."},
               {".self_attn.", ".self_attn.", ".multihead_attn."});
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
