// Each measure of a token beside plain Python's (golden/explain/measures.py) and sums over the weights and values of
// the run; and where a Vision Transformer looks.
#include "attention/attention_testing.h"
#include "core/share.h"
#include "explain/chosen.h"
#include "explain/measure/weight_measures.h"
#include "explain/measure/word_alignment.h"
#include "memory_for_test.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/target.h"

namespace qkv {
namespace {

using test::at;
using test::encoding_of;
using test::expect_near;
using test::Json;
using test::Strings;
using test::tiny;
using Numbers = std::vector<double>;

const Translator& tiny_translator(const std::string& name) {
  static std::map<std::string, Translator> all;
  if (!all.contains(name)) all.emplace(name, Translator::load(QKV_TEST_DATA "/golden/translate/" + name));
  return all.at(name);
}

TranslatedText translated(const std::string& name, const LeftOut& left_out = {}) {
  return TranslatedText(tiny_translator(name), "Good morning", TranslateOptions(), left_out);
}

const Vit& tiny_vit() {
  static const Vit model = Vit::load(QKV_TEST_DATA "/golden/vit/dinov2");
  return model;
}

// 4 x 3 patches of 7 x 7 pixels, and some pixels beside them that no patch has.
EncodedPicture picture(const LeftOut& left_out = {}) {
  Random random(5);
  return EncodedPicture(tiny_vit(), testing::normal(random, {30, 24, 3}), {}, left_out);
}

const Numbers* values_of(const std::vector<MeasuredBy>& by, Measure measure) {
  const auto found = std::ranges::find(by, measure, &MeasuredBy::measure);
  return found == by.end() ? nullptr : &found->values;
}

// The models run in f32, golden/explain/measures.py in f64: a few roundings of numbers below 10, more where products
// are added up one after another. A slope there is the difference of two runs.
const double kSingle = selected_target() == "portable" ? 4e-5 : 5e-6;
constexpr double kSlope = 1e-3;

void expect_measures(const std::vector<MeasuredBy>& by, const Json& expected) {
  ASSERT_EQ(by.size(), expected.size());
  const Numbers& knock_out = by.back().values;
  for (const MeasuredBy& one : by) {
    const Tensor wanted = test::tensor_of(expected.at(name_of(one.measure)));
    const double slope = one.measure == Measure::gradient ? kSlope * testing::largest(wanted) : 0;
    expect_near(Tensor::of<double>({std::ssize(one.values)}, one.values), wanted, kSingle + slope,
                name_of(one.measure));
    EXPECT_EQ(one.correlation, rank_correlation(one.values, knock_out));
  }
}

void expect_traces(const Explainable& text, const Json& heads) {
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  ASSERT_EQ(survey.heads.size(), heads.size());
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const Json& expected = heads[n];
    const HeadSurvey::Entry& entry = survey.heads[n];
    EXPECT_EQ(entry.index, (HeadIndex{expected["layer"], expected["head"], expected["site"]}));
    const HeadTrace trace = trace_head(text, entry.index);
    const Json json = Json::parse(to_json(trace));
    for (const char* member : {"query", "key", "value", "scores", "logits", "weights", "log_sum_exp", "output",
                               "value_lengths", "value_norms", "scale", "heads", "model_dim"}) {
      expect_near(test::tensor_of(json[member]), test::tensor_of(expected[member]), 2 * kSingle, member);
    }
    EXPECT_EQ(trace.target, selected_target());
    EXPECT_TRUE(testing::same_bits(entry.weights, trace.weights));
    EXPECT_TRUE(testing::same_bits(entry.value_lengths, trace.value_lengths));
    EXPECT_EQ(entry.summary.entropy, trace.summary.entropy);
    const std::vector<double> norms = test::values_of(trace.value_norms);
    const auto queries = static_cast<double>(trace.tokens.size());
    EXPECT_NEAR(entry.value_norm, std::accumulate(norms.begin(), norms.end(), 0.0) / queries, 1e-12);
    EXPECT_LT(trace.logits_difference, 1e-5);
    EXPECT_LT(trace.output_difference, 1e-5);
  }
}

TEST(ExplainTokenMeasures, TracesAndMeasuresAreThoseOfPlainPython) {
  for (const Json& one : Json::parse(test::slurp(test::golden_file("measures.json")))) {
    const std::string name = one["model"];
    SCOPED_TRACE(name);
    const std::size_t count = one["tokens"].size();
    std::unique_ptr<Explainable> text;
    if (name == "bert") text = std::make_unique<EncodedText>(tiny(), encoding_of(Strings(count, "a")));
    if (name != "bert") text = std::make_unique<TranslatedText>(translated(name));
    expect_traces(*text, one["heads"]);
    for (std::size_t t = 0; t < count; ++t) {
      const TokenMeasures found = measure_token(*text, static_cast<std::int64_t>(t));
      ASSERT_EQ(found.log_probability.has_value(), name != "bert");
      if (found.log_probability) {
        EXPECT_NEAR(*found.log_probability, one["log_probabilities"][t], kSingle);
      }
      for (const TokenMeasures::Keys& of : found.keys) expect_measures(of.by, one["tokens"][t]["keys"][of.site]);
      expect_measures(found.by_heads, one["tokens"][t]["heads"]);
      EXPECT_EQ(found.heads.size(), one["heads"].size());
    }
  }
}

// A matrix of all pairs would take 400 MB.
// A turn for each key and head that is left out, and for each source word that is hidden.
TEST(TokenMeasures, TellTheirShare) {
  const TranslatedText text = translated("opus_text");
  std::vector<double> told;
  const ShareScope scope([&](double share) { told.push_back(share); });
  const TokenMeasures found = measure_token(text, 1);
  std::size_t turns = found.heads.size();
  for (const auto& site : found.keys) turns += site.by.front().values.size();
  ASSERT_EQ(told.size(), turns);
  for (std::size_t i = 0; i < turns; ++i) EXPECT_EQ(told[i], static_cast<double>(i + 1) / static_cast<double>(turns));
  told.clear();
  const Tensor aligned = align_words(text);
  EXPECT_EQ(std::ssize(told), aligned.size(1));
  EXPECT_EQ(told.back(), 1);
}

TEST(TokenMeasures, SlowRolloutOfTenThousandTokensFits) {
  constexpr std::int64_t kTokens = 10'000;
  Weights weights = initial_weights(1);
  const TextEncoder model(
      {.vocab = 7, .positions = kTokens, .types = 0, .model_dim = 16, .layers = 3, .heads = 2, .ff_dim = 16}, weights);
  Encoding text = encoding_of(Strings(kTokens, "t"));
  for (std::int32_t& id : text.ids) id %= 7;
  const EncodedText encoded(model, text);
  const test::Memory taken = test::cost([&] {
    const TokenMeasures found = measure_token(encoded, 4'321);
    EXPECT_TRUE(found.heads.empty());
    double sum = 0;
    for (const double share : found.keys.at(0).by.at(0).values) sum += share;
    if (std::abs(sum - 1) > 1e-5) throw std::runtime_error("the sum is " + std::to_string(sum));
    return found;
  });
  EXPECT_LT(taken.peak, 64 * test::kMebibyte);
}

// The key has no weight in its attention, the head none at all, and all other rows still sum to 1.
void expect_left_out(const Explainable& without, const LeftOut& left_out) {
  const KeyIndex& key = left_out.keys.at(0);
  for (const HeadSurvey::Entry& head : survey_heads(without, {.keep_weights = true}).heads) {
    const bool gone = head.index == left_out.heads.at(0);
    for (std::int64_t i = 0; i < head.weights.size(0); ++i) {
      EXPECT_NEAR(test::sum_of_row(head.weights, i), gone ? 0 : 1, 1e-6);
      EXPECT_TRUE(head.index.site != key.site || at(head.weights, i, key.key) == 0);
    }
    EXPECT_TRUE(!gone || head.pattern == HeadPattern::none);
  }
}

TEST(LeftOut, IsNotSeenInTheRun) {
  const LeftOut some{.keys = {{1, 0}}, .heads = {{1, 2, 0}}};
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n') + 1); };
  std::string titles = first_line(to_text(survey_heads(EncodedText(tiny(), encoding_of({"a", "b"}), {}, some))));
  expect_left_out(EncodedText(tiny(), encoding_of({"a", "b", "c", "d"}), {}, some), some);
  expect_left_out(picture(some), some);
  for (const std::size_t site : {std::size_t{0}, std::size_t{2}}) {
    const LeftOut own{.keys = {{1, site}}, .heads = {{0, 1, site}}};
    const TranslatedText whole = translated("bart_text"), without = translated("bart_text", own);
    expect_left_out(without, own);
    // The probabilities are those of that run.
    const Numbers expected = whole.outcome(own).log_probabilities;
    for (std::size_t t = 0; t < expected.size(); ++t) {
      EXPECT_NEAR(std::log(without.attentions().alignment->written[t].probability), expected[t], 1e-9);
    }
    EXPECT_EQ(whole.attentions().alignment->output_text, without.attentions().alignment->output_text);
    EXPECT_EQ(values_of(measure_token(without, 0).by_heads, Measure::gradient), nullptr);
    titles += first_line(words_to_text(survey_heads(without)));
  }
  test::expect_golden("left_out.txt", titles);
}

TEST(LeftOut, RefusesWhatIsNotThere) {
  const Encoding tokens = encoding_of({"a", "b", "c", "d"});
  const EncodedText text(tiny(), tokens);
  for (const LeftOut& wrong : {LeftOut{.keys = {{4, 0}}}, LeftOut{.keys = {{-1, 0}}}, LeftOut{.keys = {{0, 1}}},
                               LeftOut{.heads = {{2, 0, 0}}}, LeftOut{.heads = {{0, 3, 0}}}}) {
    EXPECT_THROW(text.outcome(wrong), std::invalid_argument);
    EXPECT_THROW(EncodedText(tiny(), tokens, {}, wrong), std::invalid_argument);
  }
  for (const std::int64_t wrong : {4, -1}) EXPECT_THROW(measure_token(text, wrong), std::invalid_argument);
}

// By hand; the ties as scipy.stats.spearmanr has them.
TEST(RankCorrelation, OnlyTheOrderCounts) {
  const struct {
    Numbers a, b;
    double correlation;
  } rows[] = {
      {{1, 2, 1000}, {-5, 0, 0.1}, 1},
      {{3, 2, 1}, {-5, 0, 0.1}, -1},
      {{1, 2, 3, 4}, {1, 3, 2, 4}, 0.8},  // 1 - 6 sum d^2 / (n (n^2 - 1)) with d = 0, 1, -1, 0: 1 - 12 / 60
      {{1, 2, 2, 3}, {1, 3, 2, 4}, 4.5 / std::sqrt(22.5)},  // ranks 0, 1.5, 1.5, 3 and 0, 2, 1, 3: 4.5 / sqrt(4.5 * 5)
      {{0, 0, 1}, {5, 5, 7}, 1},
  };
  for (const auto& row : rows) EXPECT_DOUBLE_EQ(rank_correlation(row.a, row.b).value(), row.correlation);
  const double strange = std::nan("");
  const std::pair<Numbers, Numbers> none[] = {{{}, {}},
                                              {{1}, {1}},
                                              {{1, 1, 1}, {1, 2, 3}},
                                              {{1, 2}, {1, 2, 3}},
                                              {{1, strange}, {1, 2}},
                                              {{1, 2}, {test::kInfinity, 2}}};
  for (const auto& [a, b] : none) EXPECT_FALSE(rank_correlation(a, b)) << a.size() << " " << b.size();
}

// By hand: the softmax of the model's own logits.
TEST(PictureAttention, ClassesAreThoseOfTheModel) {
  const Vit model = Vit::load(QKV_SOURCE_DIR "/models/digits");
  Random random(3);
  const Tensor pixels = testing::normal(random, {8, 8, 3});
  const std::vector<ClassProbability> classes = survey_picture(EncodedPicture(model, Tensor::copy(pixels))).classes;
  const Tensor logits = model.logits(pixels.view().reshape({1, 8, 8, 3}));
  Numbers shares(logits.data<float>(), logits.data<float>() + 10);
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share);
  ASSERT_EQ(classes.size(), 3u);
  for (const ClassProbability& one : classes) {
    const auto largest = std::ranges::max_element(shares);
    EXPECT_EQ(one.label, std::to_string(largest - shares.begin()));
    EXPECT_NEAR(one.probability, *largest / sum, 1e-6);
    *largest = 0;
  }
  EXPECT_TRUE(survey_picture(picture()).classes.empty() == tiny_vit().config().labels.empty());
}

TEST(PictureAttention, RolloutAndWeightsAreThoseOfTheRun) {
  const EncodedPicture own = picture();
  EXPECT_EQ(own.grid(), (PictureSize{4, 3}));
  EXPECT_EQ(own.attentions().sequences.front().tokens,
            (Strings{"class", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2", "2,0", "2,1", "2,2", "3,0", "3,1", "3,2"}));
  const HeadSurvey survey = survey_heads(own, {.keep_weights = true});
  const auto patches_of = [](const Numbers& row) { return Tensor::of<double>({4, 3}, {row.begin() + 1, row.end()}); };
  for (const auto& [name, token] : {std::pair("class", 0), std::pair("2,1", 8), std::pair("12", 12)}) {
    const PictureAttention found = survey_picture(own, name);
    const TokenMeasures measures = measure_token(own, token);
    expect_near(found.rollout, patches_of(*values_of(measures.keys[0].by, Measure::rollout)), 1e-12);
    ASSERT_EQ(found.heads.size(), 6u);
    for (std::size_t n = 0; n < 6; ++n) {
      const Numbers row = test::values_of(survey.heads[n].weights.view().select(0, token));
      EXPECT_EQ(found.heads[n].index, survey.heads[n].index);
      EXPECT_EQ(found.heads[n].to_class, row[0]);
      EXPECT_EQ(found.heads[n].summary.entropy, survey.heads[n].summary.entropy);
      expect_near(found.heads[n].patches, patches_of(row), 0);
    }
  }
  EXPECT_EQ(survey_picture(own, "3,2").token, "3,2");
  EXPECT_THROW(survey_picture(own, "4,0"), std::invalid_argument);
}

TEST(PictureAttention, TheViewIsThePictureAgain) {
  Tensor pixels = Tensor::uninitialized({5, 4, 3}, Dtype::u8);
  for (int i = 0; i < 60; ++i) pixels.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 4 + 3);
  for (const auto& normalize :
       {std::optional<ImageProcessorConfig::Normalize>(),
        std::optional(ImageProcessorConfig::Normalize{{0.4f, 0.5f, 0.6f}, {0.2f, 0.3f, 0.4f}})}) {
    const ImageProcessorConfig config{.resize = {}, .normalize = normalize};
    EXPECT_TRUE(testing::same_bits(view_of(ImageProcessor(config).process(pixels), config), pixels));
  }
}

}  // namespace
}  // namespace qkv
