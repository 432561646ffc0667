// Each measure of a token against plain double loops: of the model with a key or head left out, of the model with a
// weight changed, and over the weights and values of the run; and where a Vision Transformer looks.
#include <gtest/gtest.h>

#include <cmath>

#include "attention/attention_testing.h"
#include "explain/chosen.h"
#include "explain/gradient_weights.h"
#include "explain/plain_models.h"
#include "explain/rank_correlation.h"
#include "memory_for_test.h"
#include "qkv/layers/initial_weights.h"

namespace qkv {
namespace {

using test::at;
using test::encoding_of;
using test::Strings;
using test::tiny;
using Numbers = std::vector<double>;

// The models run in f32: a few roundings of numbers below 10.
constexpr double kSingle = 5e-6;

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

// The knock-out of every key and head of token t beside loss(left out): what that token loses.
template <class Loss>
void expect_knock_outs(const TokenMeasures& found, const Loss& loss) {
  for (const TokenMeasures::Keys& of : found.keys) {
    const Numbers& keys = *values_of(of.by, Measure::knock_out);
    for (std::size_t j = 0; j < keys.size(); ++j) {
      EXPECT_NEAR(keys[j], loss(LeftOut{.keys = {{static_cast<std::int64_t>(j), of.site}}}), kSingle);
    }
  }
  const Numbers& heads = *values_of(found.by_heads, Measure::knock_out);
  ASSERT_EQ(heads.size(), found.heads.size());
  for (std::size_t h = 0; h < heads.size(); ++h) EXPECT_NEAR(heads[h], loss({.heads = {found.heads[h]}}), kSingle);
}

TEST(TokenMeasures, KnockOutIsAnotherRunOfTheModel) {
  for (const Strings& tokens : {Strings{"a"}, {"a", "b"}, {"a", "b", "c", "d", "e"}}) {
    const EncodedText text(tiny(), encoding_of(tokens));
    const test::PlainBert plain(tiny(), text);
    const test::Rows whole = plain.outputs({});
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const TokenMeasures found = measure_token(text, static_cast<std::int64_t>(t));
      EXPECT_FALSE(found.log_probability);
      EXPECT_EQ(found.heads.size(), 6u);
      EXPECT_EQ(values_of(found.keys.at(0).by, Measure::knock_out)->size(), tokens.size());
      expect_knock_outs(found, [&](const LeftOut& one) {  // the cosine of the vectors below 1
        const Numbers without = plain.outputs({.left_out = one})[t];
        double ab = 0, aa = 0, bb = 0;
        for (std::size_t e = 0; e < without.size(); ++e) {
          ab += whole[t][e] * without[e], aa += whole[t][e] * whole[t][e], bb += without[e] * without[e];
        }
        return 1 - ab / std::sqrt(aa * bb);
      });
    }
  }
  for (const char* name : {"bart_text", "opus_text"}) {
    const TranslatedText text = translated(name);
    const test::PlainMarian plain(dynamic_cast<const Marian&>(tiny_translator(name).model()), text);
    const Numbers whole = plain.log_probabilities({});
    for (std::size_t t = 0; t < whole.size(); ++t) {
      const TokenMeasures found = measure_token(text, static_cast<std::int64_t>(t));
      EXPECT_NEAR(*found.log_probability, whole[t], kSingle);
      EXPECT_EQ(values_of(found.keys[1].by, Measure::knock_out)->size(), t + 1);  // it depends on no later token
      expect_knock_outs(found,
                        [&](const LeftOut& one) { return whole[t] - plain.log_probabilities({.left_out = one})[t]; });
    }
  }
}

// Differences of the plain model, one weight of which is changed after softmax: one in three.
TEST(TokenMeasures, GradientsAreFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const char* name : {"bart_text", "opus_text"}) {
    const TranslatedText text = translated(name);
    const test::PlainMarian plain(dynamic_cast<const Marian&>(tiny_translator(name).model()), text);
    for (const std::size_t t : {std::size_t{0}, text.attentions().alignment->written.size() - 1}) {
      std::vector<std::pair<double, double>> pairs;  // of what was found and what is expected
      double largest = 0;
      std::int64_t number = 0;
      for (const HeadGradient& one : gradient_weights(text, static_cast<std::int64_t>(t))) {
        const Tensor weights = trace_head(text, one.index).weights;
        ASSERT_EQ(one.values.shape(), weights.shape());
        for (std::int64_t n = number++ % 3; n < weights.element_count(); n += 3) {
          const auto i = static_cast<std::size_t>(n / weights.size(1)),
                     j = static_cast<std::size_t>(n % weights.size(1));
          const auto probability = [&](double step) {
            return plain.log_probabilities({.added = test::PlainChanges::Added{one.index, i, j, step}})[t];
          };
          const double slope = (probability(kStep) - probability(-kStep)) / (2 * kStep);
          pairs.emplace_back(one.values.data<double>()[n], slope * weights.data<double>()[n]);
          largest = std::max(largest, std::abs(pairs.back().second));
        }
      }
      EXPECT_GT(largest, 1e-5);
      for (const auto& [found, expected] : pairs) EXPECT_NEAR(found, expected, 1e-3 * largest);  // f32 against f64
    }
  }
}

// Sums over the pairs of the run, by the table of token_measures.h.
TEST(TokenMeasures, SumsOfWeightsNormsAndGradients) {
  const TranslatedText text = translated("opus_text");
  const std::int64_t t = 1;
  const TokenMeasures found = measure_token(text, t);
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  const std::vector<HeadGradient> gradients = gradient_weights(text, t);
  ASSERT_EQ(found.heads.size(), survey.heads.size());
  for (std::size_t s = 0; s < 3; ++s) {
    const AttentionSite& site = survey.attentions.sites[s];
    const std::vector<MeasuredBy>& by = found.keys[s].by;
    const std::size_t keys = values_of(by, Measure::weight)->size();
    Numbers weight(keys), norm(keys), gradient(keys);
    for (std::size_t h = 0; h < survey.heads.size(); ++h) {
      const HeadSurvey::Entry& head = survey.heads[h];
      if (head.index.site != s) continue;
      EXPECT_EQ(found.heads[h], head.index);
      const Tensor& of_head = std::ranges::find(gradients, head.index, &HeadGradient::index)->values;
      double head_norm = 0, head_gradient = 0;
      const std::int64_t queries = head.weights.size(0);
      const double rows = s == 0 ? static_cast<double>(queries) : 1;
      for (std::size_t j = 0; j < keys; ++j) {
        const auto key = static_cast<std::int64_t>(j);
        for (std::int64_t i = 0; i < queries; ++i) {
          gradient[j] += at(of_head, i, key);
          head_gradient += at(of_head, i, key);
          if (s != 0 && i != t) continue;
          const double own = at(head.weights, i, key), length = head.value_lengths.data<double>()[key];
          weight[j] += own / rows / static_cast<double>(site.layers * site.heads);
          norm[j] += own * length / rows;
          head_norm += own * length / rows;
        }
      }
      EXPECT_NEAR(values_of(found.by_heads, Measure::value_norm)->at(h), head_norm, 1e-12);
      EXPECT_NEAR(values_of(found.by_heads, Measure::gradient)->at(h), head_gradient, 1e-12);
    }
    for (const auto& [measure, expected] :
         {std::pair(Measure::weight, weight), {Measure::value_norm, norm}, {Measure::gradient, gradient}}) {
      for (std::size_t j = 0; j < keys; ++j) EXPECT_NEAR(values_of(by, measure)->at(j), expected[j], 1e-12);
    }
    EXPECT_EQ(values_of(by, Measure::rollout), nullptr);
    for (const MeasuredBy& one : by) {
      EXPECT_EQ(one.correlation, rank_correlation(one.values, *values_of(by, Measure::knock_out)));
    }
  }
}

// The product over the layers of (A + I) / 2, whole matrices; A is the mean of a layer's heads.
test::Rows rollout_of(const HeadSurvey& survey, std::int64_t tokens) {
  const AttentionSite& site = survey.attentions.sites[0];
  Tensor product = test::filled(tokens, tokens, [](auto i, auto j) { return i == j; });
  for (std::int64_t layer = 0; layer < site.layers; ++layer) {
    product = test::filled(tokens, tokens, [&](auto i, auto j) {
      double sum = at(product, i, j) / 2;
      for (const HeadSurvey::Entry& head : survey.heads) {
        if (head.index.layer != layer) continue;
        for (std::int64_t k = 0; k < tokens; ++k) {
          sum += at(head.weights, i, k) / static_cast<double>(2 * site.heads) * at(product, k, j);
        }
      }
      return sum;
    });
  }
  test::Rows rows;
  for (std::int64_t i = 0; i < tokens; ++i) rows.push_back(test::values_of(product.view().select(0, i)));
  return rows;
}

TEST(TokenMeasures, RolloutIsARowOfTheProduct) {
  const EncodedText text(tiny(), encoding_of({"a", "b", "c", "d", "e"}));
  const test::Rows product = rollout_of(survey_heads(text, {.keep_weights = true}), 5);
  for (std::size_t t = 0; t < 5; ++t) {
    const TokenMeasures found = measure_token(text, static_cast<std::int64_t>(t));
    const Numbers& rollout = *values_of(found.keys[0].by, Measure::rollout);
    for (std::size_t j = 0; j < 5; ++j) EXPECT_NEAR(rollout[j], product[t][j], 1e-12);
    EXPECT_EQ(values_of(found.keys[0].by, Measure::gradient), nullptr);
  }
}

// A matrix of all pairs would take 400 MB.
TEST(TokenMeasures, SlowRolloutOfTenThousandTokensFits) {
  constexpr std::int64_t kTokens = 10'000;
  Weights weights = initial_weights(1);
  const Bert model(
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
    EXPECT_EQ(whole.attentions().alignment->target_text, without.attentions().alignment->target_text);
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

TEST(PictureAttention, RolloutAndWeightsAreThoseOfTheRun) {
  const EncodedPicture own = picture();
  EXPECT_EQ(own.grid(), (PictureSize{4, 3}));
  EXPECT_EQ(own.attentions().sequences.front().tokens,
            (Strings{"class", "0,0", "0,1", "0,2", "1,0", "1,1", "1,2", "2,0", "2,1", "2,2", "3,0", "3,1", "3,2"}));
  const HeadSurvey survey = survey_heads(own, {.keep_weights = true});
  const test::Rows product = rollout_of(survey, 13);
  for (const auto& [name, token] : {std::pair("class", 0), std::pair("2,1", 8), std::pair("12", 12)}) {
    const PictureAttention found = survey_picture(own, name);
    const auto patch = [](auto i, auto j) { return static_cast<std::size_t>(i * 3 + j + 1); };
    test::expect_near(
        found.rollout,
        test::filled(4, 3,
                     [&, row = product[static_cast<std::size_t>(token)]](auto i, auto j) { return row[patch(i, j)]; }),
        1e-12);
    ASSERT_EQ(found.heads.size(), 6u);
    for (std::size_t n = 0; n < 6; ++n) {
      const Tensor& weights = survey.heads[n].weights;
      EXPECT_EQ(found.heads[n].index, survey.heads[n].index);
      EXPECT_EQ(found.heads[n].to_class, at(weights, token, 0));
      EXPECT_EQ(found.heads[n].summary.entropy, survey.heads[n].summary.entropy);
      test::expect_near(
          found.heads[n].patches,
          test::filled(4, 3, [&, row = token](auto i, auto j) { return at(weights, row, i * 3 + j + 1); }), 0);
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
