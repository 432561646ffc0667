// What the outputs of heads came from, beside torch (golden/explain/judged.py), beside calls of the pipelines, as text
// and JSON; and what is refused.
#include "explain/chosen.h"
#include "pipelines/head_folder.h"
#include "qkv/explain/judged_text.h"
#include "qkv/explain/report.h"
#include "qkv/explain/token_measures.h"
#include "train/text_files.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using test::Json;
using Numbers = std::vector<double>;

const std::string kGolden = QKV_TEST_DATA "/golden/";

// The encoder of golden/rank with a head of three labels.
struct ThreeLabels : test::TemporaryFolder {
  explicit ThreeLabels(const std::string& problem) {
    const std::string rank = kGolden + "rank/";
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) put(name, test::slurp(rank + name));
    Json config = Json::parse(test::slurp(rank + "config.json"));
    config["id2label"] = {{"0", "cat"}, {"1", "dog"}, {"2", "caf\u00e9"}};
    config.erase("label2id");
    config["problem_type"] = problem;
    put("config.json", config.dump());
    SafeTensors weights = read_safetensors(rank + "model.safetensors");
    const auto heads = read_safetensors(kGolden + "text_classes/heads.safetensors").tensors;
    for (const char* name : {"classifier.weight", "classifier.bias"}) {
      weights.tensors[name] = heads.at("3/" + std::string(name));
    }
    write_safetensors(*this / "model.safetensors", weights);
  }
};

// A folder of golden/text_training with a tokenizer of a few words.
struct Words : test::TemporaryFolder {
  explicit Words(const std::string& kind) {
    std::filesystem::create_directories(*this / "encoder");
    test::tiny_encoder(*this);
    for (const char* name : {"/config.json", "/model.safetensors"}) {
      put(std::string("encoder") + name, read_file(kGolden + "text_training/" + kind + name));
    }
  }
};

// What a case of judged.json is about; it opens its model anew.
struct Judged {
  explicit Judged(const Json& one) {
    const std::string name = one["name"], task = one["task"], text = one["texts"][0];
    const auto second = [&]() -> std::string { return one["texts"][1]; };
    if (task == "tag") {
      if (name != "bert") folder = std::make_unique<test::HeadFolder>(name, "tags");
      tagger.emplace(Tagger::load(name == "bert" ? kGolden + "tags" : *folder / ""));
      judged = std::make_unique<JudgedText>(*tagger, text);
    } else if (task == "classify" || task == "words") {
      const bool is_of_words = task == "words";
      folder = is_of_words ? std::unique_ptr<test::TemporaryFolder>(std::make_unique<Words>(name))
                           : std::make_unique<ThreeLabels>(name);
      classifier.emplace(TextClassifier::load(*folder / (is_of_words ? "encoder" : "")));
      TextOrPair given{text};
      if (one["texts"].size() > 1) given.second = second();
      judged = std::make_unique<JudgedText>(*classifier, given, one["outputs"][0]["name"].get<std::string>());
    } else if (task == "rank") {
      reranker.emplace(Reranker::load(kGolden + "rank"));
      judged = std::make_unique<JudgedText>(*reranker, text, second());
    } else if (task == "fill") {
      fill.emplace(FillMask::load(kGolden + "fill"));
      judged = std::make_unique<JudgedText>(*fill, text);
    } else {
      answerer.emplace(QuestionAnswerer::load(kGolden + "answers"));
      judged = std::make_unique<JudgedText>(*answerer, text, second());
    }
  }

  std::unique_ptr<test::TemporaryFolder> folder{};
  std::optional<Tagger> tagger{};
  std::optional<TextClassifier> classifier{};
  std::optional<Reranker> reranker{};
  std::optional<FillMask> fill{};
  std::optional<QuestionAnswerer> answerer{};
  std::unique_ptr<JudgedText> judged{};
};

const Numbers& values_by(const std::vector<MeasuredBy>& by, Measure measure) {
  return std::ranges::find(by, measure, &MeasuredBy::measure)->values;
}

// The models run in f32: 1e-4 of numbers up to 10.
constexpr double kOfTorch = 1e-4;

void expect_same_numbers(const Numbers& found, const Json& expected, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double wanted = expected[i];
    EXPECT_NEAR(found[i], wanted, kOfTorch * std::max(1.0, std::abs(wanted))) << what << " of " << i;
  }
}

TEST(JudgedTexts, KnockOutAndGradientAreThoseOfTorch) {
  for (const Json& one : Json::parse(test::slurp(test::golden_file("judged.json")))) {
    SCOPED_TRACE(one["name"]);
    const Judged given(one);
    const Attentions& all = given.judged->attentions();
    EXPECT_EQ(Json(all.sequences[0].ids), one["ids"]);
    ASSERT_EQ(all.sequences[measured_sequence(all)].tokens.size(), one["outputs"].size());
    for (std::size_t i = 0; i < one["outputs"].size(); ++i) {
      const Json& expected = one["outputs"][i];
      const TokenMeasures found = measure_token(*given.judged, static_cast<std::int64_t>(i));
      const bool is_score = one["task"] == "rank" || one["name"] == "regression";
      ASSERT_EQ(found.score.has_value(), is_score);
      EXPECT_NEAR(is_score ? *found.score : *found.log_probability, expected["value"].get<double>(), kOfTorch);
      expect_same_numbers(values_by(found.keys[0].by, Measure::knock_out), expected["knock_out"], "knock-out");
      expect_same_numbers(values_by(found.keys[0].by, Measure::gradient), expected["gradient"], "gradient");
    }
  }
}

// torch hides a token from every query by the mask, too: the value falls by the knock-out.
TEST(JudgedTexts, AreThoseOfTorchWithoutAKey) {
  for (const Json& one : Json::parse(test::slurp(test::golden_file("judged.json")))) {
    SCOPED_TRACE(one["name"]);
    const Judged given(one);
    for (std::size_t key = 0; key < one["ids"].size(); ++key) {
      const JudgedText text = given.judged->without({.keys = {{static_cast<std::int64_t>(key), 0}}});
      const std::vector<double> values = text.outcome({}).log_probabilities;
      ASSERT_EQ(values.size(), one["outputs"].size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        const Json& whole = one["outputs"][i];
        EXPECT_NEAR(values[i], whole["value"].get<double>() - whole["knock_out"][key].get<double>(), kOfTorch) << key;
      }
    }
  }
}

TEST(JudgedTexts, HaveNoGradientWhereSomethingIsLeftOut) {
  const Reranker reranker = Reranker::load(kGolden + "rank");
  const JudgedText whole(reranker, "cats", "The cat sat."),
      text = whole.without({.keys = {{4, 0}}, .heads = {{.layer = 1, .head = 0}}});
  EXPECT_EQ(text.outcome({}).log_probabilities,
            whole.outcome({.keys = {{4, 0}}, .heads = {{.layer = 1, .head = 0}}}).log_probabilities);
  const TokenMeasures found = measure_token(text, 0);
  EXPECT_EQ(std::ranges::find(found.keys[0].by, Measure::gradient, &MeasuredBy::measure), found.keys[0].by.end());
  EXPECT_EQ(values_by(found.keys[0].by, Measure::weight)[4], 0);
  EXPECT_EQ(values_by(found.keys[0].by, Measure::knock_out)[4], 0);
  const std::string shown = words_to_text(found);
  test::expect_contains(shown, "score without head 1.0 and key 4, ");
  EXPECT_EQ(shown.find("Gradient"), std::string::npos);
  const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
  const auto head = std::ranges::find(survey.heads, HeadIndex{.layer = 1, .head = 0}, &HeadSurvey::Entry::index);
  for (std::int64_t i = 0; i < head->weights.element_count(); ++i) EXPECT_EQ(head->weights.data<double>()[i], 0);
  const auto refused = [](const auto& make) { return test::message_of<std::invalid_argument>(make); };
  test::expect_contains(refused([&] { whole.without({.heads = {{.layer = 9, .head = 0}}}); }), "there is no layer 9");
  test::expect_contains(refused([&] { whole.without({.keys = {{99, 0}}}); }), "there is no key 99");
  struct : Observer {
    void receive(std::string_view, const TensorView&) override {}
  } observer;
  test::expect_contains(refused([&] { text.run_backward(0, observer); }), "leave nothing out");
}

// A word of two tokens is hidden whole, and has the sum of both gradients.
TEST(JudgedTexts, WordsAreTheirTokensTogether) {
  const Reranker reranker = Reranker::load(kGolden + "rank");
  const JudgedText text(reranker, "cats", "The cat sat.");
  const TokenMeasures found = measure_token(text, 0);
  const AttentionSequence& tokens = text.attentions().sequences[0];
  EXPECT_EQ(tokens.words.words, (std::vector<std::string>{"cats", "the", "cat", "sat", "."}));
  ASSERT_EQ(tokens.words.word_of[1], 0);
  ASSERT_EQ(tokens.words.word_of[2], 0);
  const Numbers& gradient = values_by(found.keys[0].by, Measure::gradient);
  EXPECT_EQ(values_by(found.by_words, Measure::gradient)[0], gradient[1] + gradient[2]);
  const double whole = text.outcome({}).log_probabilities[0],
               without = text.outcome({.keys = {{1, 0}, {2, 0}}}).log_probabilities[0];
  EXPECT_EQ(values_by(found.by_words, Measure::knock_out)[0], whole - without);
  EXPECT_EQ(whole, reranker.score("cats", std::vector<std::string>{"The cat sat."}, {.score = RankScore::logit})[0]);
}

TEST(JudgedTexts, AreShown) {
  const FillMask model = FillMask::load(kGolden + "fill");
  const JudgedText text(model, "The [MASK] sat.", "dog");
  TokenMeasures found = measure_token(text, 0);
  found.fingerprint = "one";
  const std::string shown = words_to_text(found);
  test::expect_contains(shown, "The [MASK] sat.  ->  dog");
  test::expect_contains(shown, "Log-probability of dog: ");
  test::expect_contains(shown, "word                    gradient   knock-out");
  test::expect_contains(shown, " --------------------\n");
  EXPECT_EQ(shown.find("Heads"), std::string::npos);
  test::expect_contains(to_text(found), "Heads, layer.head");
  const Json json = Json::parse(to_json(found));
  EXPECT_EQ(json["kind"], "token");
  EXPECT_EQ(json["fingerprint"], "one");
  EXPECT_EQ(json["title"], "What \"dog\" came from");
  EXPECT_EQ(json["tokens"], (Json{"dog"}));
  EXPECT_EQ(json["words"]["all"], (Json{"the", "[MASK]", "sat", "."}));
  EXPECT_EQ(json["words"]["measures"][1]["values"].size(), 4u);
  EXPECT_FALSE(json.contains("score"));
  Report report;
  report.add(survey_heads(text, {.maps = HeadMapsOptions{}}));
  report.add(found);
  test::expect_contains(report.html("x", "y"), "What dog came from");
}

TEST(JudgedTexts, RefuseWhatIsNotThere) {
  const ThreeLabels folder("single_label_classification");
  const TextClassifier classifier = TextClassifier::load(folder / "");
  const auto refused = [](const auto& make) { return test::message_of<std::invalid_argument>(make); };
  EXPECT_EQ(refused([&] { JudgedText(classifier, {"a cat"}, "fish"); }),
            "explain: the model has no label \"fish\", only cat, dog, caf\u00e9");
  const FillMask fill = FillMask::load(kGolden + "fill");
  EXPECT_EQ(refused([&] { JudgedText(fill, "a cat"); }), "explain: the text has no [MASK]");
  EXPECT_EQ(refused([&] { JudgedText(fill, "a [MASK]", "no such word"); }),
            "explain: \"no such word\" is not a single word of the vocabulary");
  const QuestionAnswerer answerer = QuestionAnswerer::load(kGolden + "answers");
  EXPECT_EQ(refused([&] { JudgedText(answerer, "who?", ""); }), "explain: the context has no token");
  EXPECT_EQ(refused([&] {
              const JudgedText text(classifier, {"a cat"});
              measure_token(text, 1);
            }),
            "explain: there is no token 1; the tokens are 0 to 0");
}

// Classes of pairs are those of the pair as one sequence, and what is too long is counted.
TEST(JudgedTexts, SayWhatWasCut) {
  const ThreeLabels folder("single_label_classification");
  const TextClassifier classifier = TextClassifier::load(folder / "");
  std::string text = "the";
  for (int i = 0; i < 20; ++i) text += " the";
  EXPECT_EQ(JudgedText(classifier, {text}).attentions().outputs->cut, 21 + 2 - 16);
  EXPECT_EQ(JudgedText(classifier, {text, "a cat"}).attentions().outputs->cut, 23 + 3 - 16);
}

}  // namespace
}  // namespace qkv
