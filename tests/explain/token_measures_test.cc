// Each measure of a token against plain double loops: of the model with a key or head left out, of the model with a
// weight changed, and over the weights and values of the run.
#include "qkv/explain/token_measures.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "attention/attention_testing.h"
#include "explain/example.h"
#include "explain/plain_models.h"
#include "explain/weight_measures.h"
#include "io/files_for_test.h"
#include "memory_for_test.h"
#include "qkv/explain/encoded_picture.h"
#include "qkv/explain/encoded_text.h"
#include "qkv/explain/explain_model.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/random.h"

namespace qkv {
namespace {

using Json = nlohmann::json;
using Numbers = std::vector<double>;
using test::tiny;

// The models run in f32: a few roundings of numbers below 10.
constexpr double kSingle = 5e-6;

Encoding tokens_of(std::size_t count) {
  Encoding text;
  for (std::size_t i = 0; i < count; ++i) {
    text.ids.push_back(static_cast<std::int32_t>(3 + 2 * i));
    text.tokens.push_back(std::string(1, static_cast<char>('a' + i)));
    text.type_ids.push_back(0);
    text.special.push_back(i == 0 ? 1 : 0);
  }
  return text;
}

const Translator& tiny_translator(const std::string& name) {
  static std::map<std::string, Translator> all;
  if (!all.contains(name)) all.emplace(name, Translator::load(QKV_TEST_DATA "/golden/translate/" + name));
  return all.at(name);
}

const std::string kTexts[][2] = {{"bart_text", "Good morning"}, {"opus_text", "Good morning"}};

const Numbers* values_of(const std::vector<MeasuredBy>& by, Measure measure) {
  const auto found = std::ranges::find(by, measure, &MeasuredBy::measure);
  return found == by.end() ? nullptr : &found->values;
}

double plain_cosine(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t e = 0; e < a.size(); ++e) ab += a[e] * b[e], aa += a[e] * a[e], bb += b[e] * b[e];
  return ab / std::sqrt(aa * bb);
}

TEST(TokenMeasures, KnockOutIsAnotherRunOfAnEncoder) {
  for (const std::size_t count : {1, 2, 5}) {
    const EncodedText text(tiny(), tokens_of(count));
    const test::PlainBert plain(tiny(), text);
    const test::Rows whole = plain.outputs({});
    for (std::size_t t = 0; t < count; ++t) {
      const TokenMeasures found = measure_token(text, static_cast<std::int64_t>(t));
      EXPECT_FALSE(found.log_probability);
      const Numbers& keys = *values_of(found.keys.at(0).by, Measure::knock_out);
      ASSERT_EQ(keys.size(), count);
      for (std::size_t j = 0; j < count; ++j) {
        const test::Rows without = plain.outputs({.left_out = {.keys = {{static_cast<std::int64_t>(j), 0}}}});
        EXPECT_NEAR(keys[j], 1 - plain_cosine(whole[t], without[t]), kSingle);
      }
      const Numbers& heads = *values_of(found.by_heads, Measure::knock_out);
      ASSERT_EQ(heads.size(), 6u);
      for (std::size_t h = 0; h < 6; ++h) {
        const test::Rows without = plain.outputs({.left_out = {.heads = {found.heads[h]}}});
        EXPECT_NEAR(heads[h], 1 - plain_cosine(whole[t], without[t]), kSingle);
      }
    }
  }
}

TEST(TokenMeasures, KnockOutIsAnotherRunOfATranslator) {
  for (const auto& [name, source] : kTexts) {
    SCOPED_TRACE(name);
    const Translator& translator = tiny_translator(name);
    const TranslatedText text(translator, source);
    const test::PlainMarian plain(dynamic_cast<const Marian&>(translator.model()), text);
    const Numbers whole = plain.log_probabilities({});
    for (std::size_t t = 0; t < whole.size(); ++t) {
      const TokenMeasures found = measure_token(text, static_cast<std::int64_t>(t));
      EXPECT_NEAR(*found.log_probability, whole[t], kSingle);
      for (const TokenMeasures::Keys& of : found.keys) {
        const Numbers& keys = *values_of(of.by, Measure::knock_out);
        for (std::size_t j = 0; j < keys.size(); ++j) {
          const LeftOut one{.keys = {{static_cast<std::int64_t>(j), of.site}}};
          EXPECT_NEAR(keys[j], whole[t] - plain.log_probabilities({.left_out = one})[t], kSingle);
        }
      }
      EXPECT_EQ(values_of(found.keys[1].by, Measure::knock_out)->size(), t + 1);  // it depends on no later token
      const Numbers& heads = *values_of(found.by_heads, Measure::knock_out);
      for (std::size_t h = 0; h < heads.size(); ++h) {
        const LeftOut one{.heads = {found.heads[h]}};
        EXPECT_NEAR(heads[h], whole[t] - plain.log_probabilities({.left_out = one})[t], kSingle);
      }
    }
  }
}

// Differences of the plain model, whose one weight is changed after softmax.
TEST(TokenMeasures, GradientsAreFiniteDifferences) {
  constexpr double kStep = 1e-5;
  for (const auto& [name, source] : kTexts) {
    SCOPED_TRACE(name);
    const Translator& translator = tiny_translator(name);
    const TranslatedText text(translator, source);
    const test::PlainMarian plain(dynamic_cast<const Marian&>(translator.model()), text);
    for (const std::size_t t : {std::size_t{0}, text.attentions().alignment->written.size() - 1}) {
      std::vector<std::pair<double, double>> pairs;  // of what was found and what is expected
      double largest = 0;
      for (const HeadGradient& one : gradient_weights(text, static_cast<std::int64_t>(t))) {
        const HeadTrace trace = trace_head(text, one.index);
        ASSERT_EQ(one.values.shape(), trace.weights.shape());
        for (std::int64_t i = 0; i < one.values.size(0); ++i) {
          for (std::int64_t j = 0; j < one.values.size(1); ++j) {
            const auto at = [&](double step) {
              const test::PlainChanges::Added added{one.index, static_cast<std::size_t>(i), static_cast<std::size_t>(j),
                                                    step};
              return plain.log_probabilities({.added = added})[t];
            };
            const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
            const double expected = slope * trace.weights.view().at<double>({i, j});
            pairs.emplace_back(one.values.view().at<double>({i, j}), expected);
            largest = std::max(largest, std::abs(expected));
          }
        }
      }
      EXPECT_GT(largest, 1e-5);
      for (const auto& [found, expected] : pairs) EXPECT_NEAR(found, expected, 1e-3 * largest);  // f32 against f64
    }
  }
}

// Sums over the pairs of the run, by the table of token_measures.h.
TEST(TokenMeasures, SumsOfWeightsNormsAndGradients) {
  const TranslatedText text(tiny_translator("opus_text"), "Good morning");
  const std::int64_t t = 1;
  const TokenMeasures found = measure_token(text, t);
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  const std::vector<HeadGradient> gradients = gradient_weights(text, t);
  ASSERT_EQ(found.heads.size(), survey.heads.size());
  for (std::size_t s = 0; s < 3; ++s) {
    const AttentionSite& site = survey.attentions.sites[s];
    const std::size_t keys = values_of(found.keys[s].by, Measure::weight)->size();
    Numbers weight(keys), norm(keys), gradient(keys);
    for (std::size_t h = 0; h < survey.heads.size(); ++h) {
      const HeadSurvey::Entry& head = survey.heads[h];
      if (head.index.site != s) continue;
      EXPECT_EQ(found.heads[h], head.index);
      double head_norm = 0, head_gradient = 0;
      const std::int64_t queries = head.weights.size(0);
      for (std::size_t j = 0; j < keys; ++j) {
        const auto key = static_cast<std::int64_t>(j);
        for (std::int64_t i = 0; i < queries; ++i) {
          if (s != 0 && i != t) continue;
          const double rows = s == 0 ? static_cast<double>(queries) : 1;
          const double w = head.weights.view().at<double>({i, key});
          weight[j] += w / rows / static_cast<double>(site.layers * site.heads);
          norm[j] += w * head.value_lengths.data<double>()[key] / rows;
          head_norm += w * head.value_lengths.data<double>()[key] / rows;
        }
      }
      for (const HeadGradient& one : gradients) {
        if (!(one.index == head.index)) continue;
        for (std::int64_t i = 0; i < queries; ++i) {
          for (std::size_t j = 0; j < keys; ++j) {
            const double value = one.values.view().at<double>({i, static_cast<std::int64_t>(j)});
            gradient[j] += value;
            head_gradient += value;
          }
        }
      }
      EXPECT_NEAR(values_of(found.by_heads, Measure::value_norm)->at(h), head_norm, 1e-12);
      EXPECT_NEAR(values_of(found.by_heads, Measure::gradient)->at(h), head_gradient, 1e-12);
    }
    for (std::size_t j = 0; j < keys; ++j) {
      EXPECT_NEAR(values_of(found.keys[s].by, Measure::weight)->at(j), weight[j], 1e-12);
      EXPECT_NEAR(values_of(found.keys[s].by, Measure::value_norm)->at(j), norm[j], 1e-12);
      EXPECT_NEAR(values_of(found.keys[s].by, Measure::gradient)->at(j), gradient[j], 1e-12);
    }
    EXPECT_EQ(values_of(found.keys[s].by, Measure::rollout), nullptr);
    for (const MeasuredBy& one : found.keys[s].by) {
      EXPECT_EQ(one.correlation, rank_correlation(one.values, *values_of(found.keys[s].by, Measure::knock_out)));
    }
  }
}

// (A2 + I) / 2 times (A1 + I) / 2, whole matrices.
TEST(TokenMeasures, RolloutIsARowOfTheProduct) {
  constexpr std::size_t kTokens = 5;
  const EncodedText text(tiny(), tokens_of(kTokens));
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  std::vector<Numbers> product(kTokens, Numbers(kTokens));
  for (std::size_t i = 0; i < kTokens; ++i) product[i][i] = 1;
  for (std::int64_t layer = 0; layer < 2; ++layer) {
    std::vector<Numbers> next(kTokens, Numbers(kTokens));
    for (std::size_t i = 0; i < kTokens; ++i) {
      for (std::size_t k = 0; k < kTokens; ++k) {
        double mean = 0;
        for (std::size_t h = 0; h < 3; ++h) {
          mean += survey.heads[static_cast<std::size_t>(layer) * 3 + h].weights.view().at<double>(
                      {static_cast<std::int64_t>(i), static_cast<std::int64_t>(k)}) /
                  3;
        }
        for (std::size_t j = 0; j < kTokens; ++j) next[i][j] += (mean + (i == k ? 1 : 0)) / 2 * product[k][j];
      }
    }
    product = next;
  }
  for (std::size_t t = 0; t < kTokens; ++t) {
    const TokenMeasures found = measure_token(text, static_cast<std::int64_t>(t));
    const Numbers& rollout = *values_of(found.keys[0].by, Measure::rollout);
    for (std::size_t j = 0; j < kTokens; ++j) EXPECT_NEAR(rollout[j], product[t][j], 1e-12);
    EXPECT_EQ(values_of(found.keys[0].by, Measure::gradient), nullptr);
  }
}

// A matrix of all pairs would take 400 MB.
TEST(TokenMeasures, SlowRolloutOfTenThousandTokensFits) {
  constexpr std::int64_t kTokens = 10'000;
  Weights weights = initial_weights(1);
  const Bert model(
      {.vocab = 7, .positions = kTokens, .types = 0, .model_dim = 16, .layers = 3, .heads = 2, .ff_dim = 16}, weights);
  Encoding text;
  for (std::int64_t i = 0; i < kTokens; ++i) {
    text.ids.push_back(static_cast<std::int32_t>(i % 7));
    text.tokens.push_back(std::to_string(i));
    text.type_ids.push_back(0);
    text.special.push_back(0);
  }
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

void expect_left_out(const Explainable& whole, const Explainable& without, const LeftOut& left_out) {
  const HeadSurvey before = survey_heads(whole, {.keep_weights = true});
  const HeadSurvey after = survey_heads(without, {.keep_weights = true});
  for (std::size_t n = 0; n < before.heads.size(); ++n) {
    const HeadIndex& index = after.heads[n].index;
    const Tensor& weights = after.heads[n].weights;
    const bool gone = index == left_out.heads.at(0);
    for (std::int64_t i = 0; i < weights.size(0); ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < weights.size(1); ++j) {
        const double w = weights.view().at<double>({i, j});
        if (gone || (index.site == left_out.keys.at(0).site && j == left_out.keys.at(0).key)) {
          EXPECT_EQ(w, 0);
        }
        sum += w;
      }
      EXPECT_NEAR(sum, gone ? 0 : 1, 1e-6);
    }
    if (gone) {
      EXPECT_EQ(after.heads[n].pattern, HeadPattern::none);
    }
  }
}

TEST(LeftOut, IsNotSeenInTheRun) {
  const LeftOut some{.keys = {{1, 0}}, .heads = {{1, 2, 0}}};
  expect_left_out(EncodedText(tiny(), tokens_of(4)), EncodedText(tiny(), tokens_of(4), {}, some), some);
  const Vit vit = Vit::load(QKV_TEST_DATA "/golden/vit/dinov2");
  Random random(5);
  const Tensor pixels = testing::normal(random, {30, 24, 3}, Dtype::f32);
  expect_left_out(EncodedPicture(vit, pixels), EncodedPicture(vit, pixels, {}, some), some);
  const Translator& translator = tiny_translator("bart_text");
  for (const std::size_t site : {std::size_t{0}, std::size_t{2}}) {
    const LeftOut own{.keys = {{1, site}}, .heads = {{0, 1, site}}};
    const TranslatedText whole(translator, "Good morning"),
        without(translator, "Good morning", TranslateOptions(), own);
    expect_left_out(whole, without, own);
    // The probabilities are those of that run.
    const Numbers expected = whole.outcome(own).log_probabilities;
    for (std::size_t t = 0; t < expected.size(); ++t) {
      EXPECT_NEAR(std::log(without.attentions().alignment->written[t].probability), expected[t], 1e-9);
    }
    EXPECT_EQ(whole.attentions().alignment->target_text, without.attentions().alignment->target_text);
    EXPECT_EQ(values_of(measure_token(without, 0).by_heads, Measure::gradient), nullptr);
  }
}

TEST(LeftOut, RefusesWhatIsNotThere) {
  const EncodedText text(tiny(), tokens_of(4));
  EXPECT_THROW(text.outcome({.keys = {{4, 0}}}), std::invalid_argument);
  EXPECT_THROW(text.outcome({.keys = {{-1, 0}}}), std::invalid_argument);
  EXPECT_THROW(text.outcome({.keys = {{0, 1}}}), std::invalid_argument);
  EXPECT_THROW(text.outcome({.heads = {{2, 0, 0}}}), std::invalid_argument);
  EXPECT_THROW(text.outcome({.heads = {{0, 3, 0}}}), std::invalid_argument);
  EXPECT_THROW(EncodedText(tiny(), tokens_of(4), {}, {.heads = {{0, 3, 0}}}), std::invalid_argument);
  EXPECT_THROW(measure_token(text, 4), std::invalid_argument);
  EXPECT_THROW(measure_token(text, -1), std::invalid_argument);
}

TEST(TokenMeasures, TextAndJsonSayTheSame) {
  const TokenMeasures found = measure_token(TranslatedText(tiny_translator("bart_text"), "Good morning"), 1);
  const Json json = Json::parse(to_json(found));
  EXPECT_EQ(json["kind"], "token");
  EXPECT_EQ(json["token"], 1);
  EXPECT_EQ(json["sequence"], "target");
  EXPECT_EQ(json["log_probability"], *found.log_probability);
  ASSERT_EQ(json["keys"].size(), 3u);
  EXPECT_EQ(json["keys"][1]["tokens"].size(), 2u);
  EXPECT_EQ(json["keys"][2]["attention"], "encoder_decoder");
  const Json& measures = json["keys"][2]["measures"];
  ASSERT_EQ(measures.size(), 4u);
  EXPECT_EQ(measures[2]["measure"], "gradient");
  EXPECT_EQ(measures[2]["values"][0], found.keys[2].by[2].values[0]);
  EXPECT_EQ(measures[2]["rank_correlation"], *found.keys[2].by[2].correlation);
  EXPECT_EQ(json["heads"]["all"].size(), found.heads.size());
  const std::string text = to_text(found);
  for (const char* part : {"Keys of Encoder-decoder attention", "weight  value norm    gradient   knock-out",
                           "ranks as knock-out", "Heads, layer.head", "encoder-decoder 0.1"}) {
    EXPECT_TRUE(test::has_line_with(text, part)) << part << "\n" << text;
  }
  EXPECT_LE(test::longest_line(text), 98u);
}

}  // namespace
}  // namespace qkv
