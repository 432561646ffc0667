// What language models write, looked into, beside what transformers says of the same runs
// (tests/golden/language/explain.py); induction and duplicate by hand; tokens, words and what is refused.
#include "qkv/explain/written_text.h"

#include "explain/example.h"
#include "explain/measure/weight_measures.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/report.h"
#include "qkv/explain/token_measures.h"
#include "qkv/files.h"
#include "qkv/pipelines/generator.h"

namespace qkv {
namespace {

using test::at;
using test::Json;
using test::refusal;
using test::Strings;

constexpr std::int64_t kWritten = 10;  // the token that explain.py measures

const std::string kFolder = QKV_TEST_DATA "/golden/language/";

struct Golden {
  explicit Golden(const std::string& name)
      : model(LanguageModel::load(kFolder + name)),
        tensors(read_safetensors(kFolder + name + "_explain.safetensors").tensors) {
    const Tensor& own = tensors.at("ids");
    ids.assign(own.data<std::int32_t>(), own.data<std::int32_t>() + own.element_count());
  }
  WrittenText text(LeftOut left_out = {}) const {
    return WrittenText(model, nullptr, ids, {.prompt = 8, .explain_prompt = true}, std::move(left_out));
  }
  Tensor exact(const std::string& name) const { return convert(tensors.at(name), Dtype::f64); }

  LanguageModel model;
  std::map<std::string, Tensor> tensors;
  std::vector<std::int32_t> ids;
};

// Within what f32 rounds in two computations of logits of size 1 to 10.
constexpr double kNear = 2e-5;

const std::vector<std::string> kModels = {"gpt2", "llama", "mistral", "qwen3", "gpt_neox", "gemma2"};

TEST(ExplainWriting, BothTextsTogetherAreTheWhole) {
  const Generator generator = Generator::load(QKV_SOURCE_DIR "/models/verses");
  const std::string whole = "In the beginning of the reign";
  const std::vector<std::int32_t> ids = generator.tokenizer().encode(whole).ids;
  for (std::size_t prompt = 1; prompt < ids.size(); ++prompt) {
    const WrittenText text(generator.model(), &generator.tokenizer(), ids, {.prompt = prompt, .explain_prompt = true});
    const Alignment& texts = *text.attentions().alignment;
    EXPECT_EQ(texts.source_text + texts.output_text, whole) << prompt;
  }
}

// The mask alone gives the first of three tokens (1 + 1/2 + 1/3) / 3 = 0.61 of the weight.
TEST(ExplainWriting, AHeadThatShowsItsMaskHasNoName) {
  const LanguageModel model = LanguageModel::load(kFolder + "gpt2");
  const WrittenText text(model, nullptr, {5, 6, 7, 8}, {.prompt = 3, .explain_prompt = true});
  int named = 0, unnamed = 0;
  for (const HeadSurvey::Entry& head : survey_heads(text, {.keep_weights = true}).heads) {
    double elsewhere = 0;
    const std::int64_t queries = head.weights.size(0);
    for (std::int64_t i = 1; i < queries; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        elsewhere += std::abs(at(head.weights, i, j) - 1.0 / static_cast<double>(i + 1)) / 2;
      }
    }
    const bool shows_mask = elsewhere / static_cast<double>(queries - 1) < 0.2;
    EXPECT_TRUE(!shows_mask || head.pattern == HeadPattern::none || head.pattern == HeadPattern::spread);
    if (head.summary.first >= 0.5) (head.pattern == HeadPattern::none ? unnamed : named) += 1;
  }
  EXPECT_GT(unnamed, 0) << named;
}

TEST(ExplainWriting, WeightsAreThoseOfTransformers) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const WrittenText text = golden.text();
    const Tensor wanted = golden.exact("attentions");
    const std::int64_t heads = wanted.size(1);
    for (const HeadSurvey::Entry& head : survey_heads(text, {.keep_weights = true}).heads) {
      test::expect_near(head.weights, wanted.view().select(0, head.index.layer).select(0, head.index.head), kNear);
      const HeadTrace trace = trace_head(text, head.index);
      test::expect_near(trace.weights, head.weights, 0);
      EXPECT_LT(trace.logits_difference, 1e-5);
      EXPECT_LT(trace.output_difference, 1e-5);
    }
    EXPECT_EQ(text.attentions().sites[0].heads, heads);
  }
}

TEST(ExplainWriting, ProbabilitiesAndGuessesAreThoseOfTransformers) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const WrittenText text = golden.text();
    const Tensor lens = golden.exact("lens"), own = golden.exact("log_probabilities");
    const std::vector<WrittenToken>& written = text.attentions().alignment->written;
    ASSERT_EQ(std::ssize(written), own.element_count());
    for (std::int64_t i = 0; i < std::ssize(written); ++i) {
      const WrittenToken& token = written[static_cast<std::size_t>(i)];
      EXPECT_NEAR(std::log(token.probability), own.data<double>()[i], kNear);
      ASSERT_EQ(std::ssize(token.layers), lens.size(0));
      for (std::int64_t layer = 0; layer < lens.size(0); ++layer) {
        const LayerGuess& guess = token.layers[static_cast<std::size_t>(layer)];
        const auto wanted = [&](std::int32_t id) { return lens.view().at<double>({layer, i, id}); };
        for (std::int32_t id = 0; id < lens.size(2); ++id) EXPECT_LE(wanted(id), wanted(guess.best.id) + kNear);
        EXPECT_NEAR(std::log(guess.best.probability), wanted(guess.best.id), kNear);
        EXPECT_NEAR(std::log(guess.written), wanted(token.id), kNear);
      }
      ASSERT_EQ(token.candidates.size(), 5u);
      for (const TokenProbability& one : token.candidates) {
        EXPECT_NEAR(std::log(one.probability), lens.view().at<double>({lens.size(0) - 1, i, one.id}), kNear);
      }
    }
  }
}

TEST(ExplainWriting, GradientsAndWhatIsLeftOutAreThoseOfTransformers) {
  for (const std::string& name : kModels) {
    SCOPED_TRACE(name);
    const Golden golden(name);
    const WrittenText text = golden.text();
    const Tensor weights = golden.exact("attentions"), gradients = golden.exact("gradients");
    const Tensor own = golden.exact("log_probabilities"), without_head = golden.exact("without_head");
    const TokenMeasures measures = measure_token(text, kWritten);
    EXPECT_NEAR(*measures.log_probability, own.data<double>()[kWritten], kNear);
    std::vector<double> by_key(kWritten + 1), by_head;
    for (std::int64_t l = 0; l < weights.size(0); ++l) {
      for (std::int64_t h = 0; h < weights.size(1); ++h) {
        by_head.push_back(0);
        for (std::int64_t i = 0; i <= kWritten; ++i) {
          for (std::int64_t j = 0; j <= i; ++j) {
            const double product = weights.view().at<double>({l, h, i, j}) * gradients.view().at<double>({l, h, i, j});
            by_key[static_cast<std::size_t>(j)] += product;
            by_head.back() += product;
          }
        }
      }
    }
    const auto expect = [&](const std::vector<MeasuredBy>& by, Measure measure, const auto& wanted, std::size_t from) {
      const auto found = std::ranges::find(by, measure, &MeasuredBy::measure);
      ASSERT_NE(found, by.end());
      ASSERT_EQ(found->values.size(), wanted.size());
      for (std::size_t i = from; i < wanted.size(); ++i) EXPECT_NEAR(found->values[i], wanted[i], 5 * kNear) << i;
    };
    expect(measures.keys[0].by, Measure::gradient, by_key, 0);
    expect(measures.by_heads, Measure::gradient, by_head, 0);
    std::vector<double> losses;
    for (const HeadIndex& head : measures.heads) {
      losses.push_back(own.data<double>()[kWritten] -
                       without_head.view().at<double>({head.layer, head.head, kWritten}));
    }
    expect(measures.by_heads, Measure::knock_out, losses, 0);
    if (!golden.tensors.contains("without_key")) continue;
    losses.clear();
    for (std::int64_t j = 0; j <= kWritten; ++j) {
      losses.push_back(own.data<double>()[kWritten] - at(golden.exact("without_key"), j, kWritten));
    }
    expect(measures.keys[0].by, Measure::knock_out, losses, 1);
  }
}

// A repeats behind C: "a b c a": induction goes to b, duplicate to a.
TEST(ExplainWriting, CopiesByHand) {
  const std::vector<std::int32_t> ids{1, 2, 3, 1, 1};
  Tensor weights = Tensor::zeros({5, 5}, Dtype::f64);
  for (std::int64_t i = 0; i < 3; ++i) weights.view().at<double>({i, i}) = 1;
  const double rows[2][5] = {{0.25, 0.5, 0.125, 0.125, 0}, {0.125, 0.25, 0, 0.5, 0.125}};
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) weights.view().at<double>({3 + i, j}) = rows[i][j];
  }
  const HeadSummary found = summarize_head(weights, std::vector<std::uint8_t>(5), ids);
  EXPECT_EQ(found.induction, (0.5 + 0.25 + 0.125) / 2);  // behind token 0; behind tokens 0 and 3
  EXPECT_EQ(found.duplicate, (0.25 + 0.125 + 0.5) / 2);
  EXPECT_EQ(summarize_head(weights, std::vector<std::uint8_t>(5)).induction, 0);
  const std::vector<std::int32_t> apart{1, 2, 3, 4, 5};
  EXPECT_EQ(summarize_head(weights, std::vector<std::uint8_t>(5), apart).duplicate, 0);
  EXPECT_EQ(refusal([&] { summarize_head(weights, std::vector<std::uint8_t>(5), std::span(ids).first(4)); }),
            "explain: 4 ids are of weights [5, 5]");
  using enum HeadPattern;
  EXPECT_EQ(pattern_of({.entropy = 1, .first = 0.6, .induction = 0.5}, 3, false), induction);
  EXPECT_EQ(pattern_of({.entropy = 1, .itself = 0.5, .duplicate = 0.9}, 3, false), itself);
  EXPECT_EQ(pattern_of({.entropy = 1, .first = 0.6, .duplicate = 0.5}, 3, false), duplicate);
  EXPECT_EQ(pattern_of({.entropy = 1, .induction = 0.499}, 3, false), none);
}

struct Nothing : Observer {
  void receive(std::string_view, const TensorView&) override {}
};

const Generator& generator() {
  static const Generator found = Generator::load(kFolder + "gpt2");
  return found;
}

TEST(ExplainWriting, TokensAndWordsAreThoseOfTheText) {
  const Tokenizer& tokenizer = generator().tokenizer();
  const std::vector<std::int32_t> ids = tokenizer.encode("The cat sat\non a mat").ids;
  const std::size_t prompt = tokenizer.encode("The cat").ids.size();
  const WrittenText text(generator().model(), &tokenizer, ids, {.prompt = prompt});
  const Attentions& all = text.attentions();
  EXPECT_EQ(all.input, "\"The cat\" -> \" sat\non a mat\"");
  Strings tokens;  // by hand, from the decoded ones
  for (const std::int32_t id : ids) {
    const std::string own = tokenizer.decode(std::vector{id});
    const bool begins = tokens.empty() || own[0] == ' ' || own[0] == '\n' || tokens.back() == "\\n";
    tokens.push_back((begins ? "" : "##") + (own == "\n" ? "\\n" : own.substr(own[0] == ' ' ? 1 : 0)));
  }
  EXPECT_EQ(all.alignment->source.words, Strings(tokens.begin(), tokens.end() - 1));
  EXPECT_EQ(all.alignment->output.words, Strings(tokens.begin() + static_cast<std::ptrdiff_t>(prompt), tokens.end()));
  EXPECT_EQ(all.sequences[0].tokens.size(), ids.size() - 1);
  EXPECT_EQ(all.alignment->output.word_of[prompt - 2], -1);
  EXPECT_EQ(all.alignment->output.word_of[prompt - 1], 0);
  EXPECT_TRUE(all.alignment->written[prompt - 2].layers.empty());
  EXPECT_EQ(all.alignment->written[prompt - 1].layers.size(), 3u);
}

TEST(ExplainWriting, TextJsonAndReportSayTheSame) {
  const Golden golden("llama");
  const WrittenText text = golden.text({.keys = {}, .heads = {{.layer = 1, .head = 2}}});
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  const Json json = Json::parse(to_json(survey));
  EXPECT_TRUE(json["translation"].is_null());
  const Json& written = json["continuation"]["written"];
  EXPECT_EQ(written.size(), 12u);
  EXPECT_EQ(written[3]["layers"].size(), 2u);
  EXPECT_EQ(json["attentions"][0]["kv_heads"], 2);
  EXPECT_EQ(json["left_out"]["heads"].size(), 1u);
  const std::string shown = to_text(survey);
  EXPECT_TRUE(test::holds(shown, "without head 1.2")) << shown;
  EXPECT_TRUE(test::holds(shown, "induction duplicate value norm"));
  EXPECT_TRUE(test::holds(shown, written[3]["layers"][0]["token"].get<std::string>()));
  Report report;
  report.add(survey);
  EXPECT_TRUE(test::holds(report.html("", ""), "\"continuation\""));
  Nothing nothing;
  EXPECT_EQ(refusal([&] { text.run_backward(0, nothing); }),
            "explain: gradients are those of the whole model: leave nothing out");
}

TEST(ExplainWriting, RefusesWhatDoesNotFit) {
  const LanguageModel& model = generator().model();
  const auto refused = [&](const std::vector<std::int32_t>& ids, std::size_t prompt, LeftOut left_out = {}) {
    return refusal([&] { WrittenText(model, nullptr, ids, {.prompt = prompt}, std::move(left_out)); });
  };
  EXPECT_EQ(refused({1, 2}, 2), "explain: 2 of 2 tokens are a prompt; it needs a token, and one must be written");
  EXPECT_EQ(refused({1, 2}, 0), "explain: 0 of 2 tokens are a prompt; it needs a token, and one must be written");
  EXPECT_EQ(refused({300, 2}, 1), "explain: id 300 is not in a vocabulary of 300");
  EXPECT_EQ(refused({1, 300}, 1), "explain: id 300 is not in a vocabulary of 300");
  EXPECT_EQ(refused(std::vector<std::int32_t>(258), 1),
            "language_model: a sequence has 257 tokens; the model reads at most 256");
  EXPECT_EQ(refused({1, 2, 3}, 1, {.keys = {{2, 0}}, .heads = {}}), "explain: there is no key 2; the keys are 0 to 1");
  EXPECT_EQ(refused({1, 2, 3}, 1, {.keys = {}, .heads = {{.layer = 3}}}),
            "explain: there is no layer 3; the model has layers 0 to 2");
  Nothing nothing;
  EXPECT_EQ(refusal([&] { model.observe_gradients(std::vector<std::int32_t>{1}, 2, 1, nothing); }),
            "language_model: cannot continue 2 of 1 tokens");
}

}  // namespace
}  // namespace qkv
