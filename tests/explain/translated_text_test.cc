// What the model that ships attends to while it translates: tokens, words and their alignment, weights of its own run,
// probabilities. And words aligned by attention on 40 pairs that were aligned by hand, where the error rates of the
// mean of all heads, of the best head and of what explain shows are printed (docs/lab/alignment.md has them).
#include "qkv/explain/translated_text.h"

#include <regex>

#include "explain/example.h"
#include "explain/measure/weight_measures.h"
#include "explain/measure/word_alignment.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/report.h"
#include "qkv/explain/token_measures.h"

namespace qkv {
namespace {

using test::at;
using test::Json;
using test::kRounding;
using test::shipped;
using test::Strings;

constexpr std::size_t kDecoder = 1;  // the number of its attention
const std::string kText = "Thank you very much, my friend.";

const Strings& tokens(const HeadSurvey& survey, const std::string& sequence) {
  return std::ranges::find(survey.attentions.sequences, sequence, &AttentionSequence::name)->tokens;
}

std::string joined(const Strings& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

const Translator& bart() {  // whose tokens are bytes, spaces of their own among them, and whose first token is forced
  static const Translator translator = Translator::load(QKV_TEST_DATA "/golden/translate/bart_text");
  return translator;
}

TEST(ExplainTranslation, TokensAndWordsAreThoseOfTheTranslation) {
  for (const auto& [translator, source] : {std::pair(&shipped(), kText.c_str()), {&bart(), "Good morning"}}) {
    const HeadSurvey survey = survey_heads(TranslatedText(*translator, source));
    const Alignment& alignment = *survey.attentions.alignment;
    EXPECT_EQ(alignment.output_text, translator->translate(source).text);
    EXPECT_EQ(joined(alignment.output.words), alignment.output_text);
    EXPECT_EQ(joined(alignment.source.words), source);
    EXPECT_EQ(tokens(survey, "read").size(), tokens(survey, "target").size());
    EXPECT_EQ(tokens(survey, "read").front(), "(start)");
    EXPECT_EQ(tokens(survey, "target").front() == "(start)", translator == &bart());
    EXPECT_EQ(tokens(survey, "target").back(), "(end)");
    ASSERT_EQ(survey.word_weights.size(0), std::ssize(alignment.output.words));
    for (std::int64_t i = 0; i < survey.word_weights.size(0); ++i) {
      EXPECT_NEAR(test::sum_of_row(survey.word_weights, i), 1, kRounding);
    }
  }
}

TEST(ExplainTranslation, SaysWhatWasCutOff) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "x ";
  const HeadSurvey survey = survey_heads(TranslatedText(bart(), text));
  EXPECT_EQ(tokens(survey, "source").size(), 24u);  // positions
  EXPECT_EQ(survey.attentions.alignment->cut, std::ssize(bart().tokenizer().encode(text).ids) - 24);
  EXPECT_FALSE(test::holds(to_text(survey_heads(TranslatedText(bart(), "Good morning"))), "cut off"));
  const TranslatedText run(bart(), text);
  const HeadTrace trace = trace_head(run, {});
  const TokenMeasures measures = measure_token(run, 0);
  const std::string said = fmt::format("last {} tokens of the text are cut off", survey.attentions.alignment->cut);
  const std::string counted = fmt::format("\"cut\":{}", survey.attentions.alignment->cut);
  for (const std::string& shown : {to_text(survey), to_text(trace), to_text(measures)}) {
    EXPECT_TRUE(test::holds(std::regex_replace(shown, std::regex("\\s+"), " "), said)) << shown;
  }
  for (const std::string& json : {to_json(survey), to_json(trace), to_json(measures)}) {
    EXPECT_TRUE(test::holds(json, counted)) << json;
  }
  Report report;
  report.add(trace);
  EXPECT_TRUE(test::holds(report.html("", ""), said));
}

// U+0120, a byte-level vocabulary's space, decodes to nothing that is seen.
TEST(ExplainTranslation, ABlankThatIsWrittenIsNamed) {
  const Tokenizer& tokenizer = bart().target_tokenizer();
  Translation translation = bart().translate("Good morning", {.split = false});
  const auto blank = tokenizer.id_of("\xc4\xa0");
  ASSERT_TRUE(blank);
  translation.ids.front() = *blank;
  const TranslatedText run(bart(), "Good morning", translation);
  EXPECT_EQ(run.attentions().alignment->written.front().token, "(space)");
  for (const WrittenToken& token : run.attentions().alignment->written) {
    for (const TokenProbability& one : token.candidates) EXPECT_FALSE(test::holds(one.token, "\xc4\xa0")) << one.token;
  }
}

TEST(ExplainTranslation, WordsShareOutTheirWeight) {
  const TranslatedText run(shipped(), kText);
  const HeadSurvey survey = survey_heads(run, {.keep_weights = true});
  const Alignment& both = *survey.attentions.alignment;
  const auto word = [](const TokenWords& words, std::size_t token) { return words.word_of[token]; };
  // The alignment by hand: what the tokens of a word lose without those of another, if they do.
  const std::vector<double> whole = run.outcome({}).log_probabilities;
  Tensor losses = Tensor::zeros(survey.word_alignment.shape(), Dtype::f64), weights = losses;
  for (std::int64_t j = 0; j < losses.size(1); ++j) {
    LeftOut hidden;
    for (std::size_t key = 0; key < both.source.word_of.size(); ++key) {
      if (word(both.source, key) == j) hidden.keys.push_back({static_cast<std::int64_t>(key), both.site});
    }
    const std::vector<double> without = run.outcome(hidden).log_probabilities;
    for (std::size_t t = 0; t + 1 < whole.size(); ++t) {
      losses.view().at<double>({word(both.output, t), j}) += whole[t] - without[t];
    }
  }
  // The weights by hand: every head for each token of a word, without the ends.
  for (const HeadSurvey::Entry& head : survey.heads) {
    if (head.index.site != both.site) continue;
    for (std::int64_t i = 0; i + 1 < head.weights.size(0); ++i) {
      for (std::int64_t j = 0; j + 1 < head.weights.size(1); ++j) {
        const Dims words{word(both.output, static_cast<std::size_t>(i)),
                         word(both.source, static_cast<std::size_t>(j))};
        weights.view().at<double>(words) += at(head.weights, i, j);
      }
    }
  }
  for (double* loss = losses.data<double>(); loss < losses.data<double>() + losses.element_count(); ++loss) {
    *loss = std::max(*loss, 0.0);
  }
  const auto shares = [](const Tensor& sums) {
    return test::filled(sums.size(0), sums.size(1),
                        [&](auto i, auto j) { return at(sums, i, j) / test::sum_of_row(sums, i); });
  };
  test::expect_near(survey.word_alignment, shares(losses), 1e-12);
  test::expect_near(survey.word_weights, shares(weights), 1e-12);
}

TEST(ExplainTranslation, TextAndJsonSayTheSame) {
  const TranslatedText text(shipped(), "You are welcome");
  const HeadSurvey survey = survey_heads(text);
  const std::string shown = to_text(survey);
  EXPECT_TRUE(shown.starts_with("You are welcome  ->  De nada\n")) << shown;
  EXPECT_TRUE(shown.starts_with(words_to_text(survey)));
  for (const char* title : {"Encoder self-attention", "Masked decoder self-attention", "Encoder-decoder attention"}) {
    EXPECT_TRUE(test::holds(shown, title)) << title;
  }
  EXPECT_TRUE(test::holds(to_text(trace_head(text, {0, 0, kDecoder})), "0 (start)  ->  (start) 1.000\n"));
  for (const HeadIndex& wrong : {HeadIndex{99, 0, kDecoder}, HeadIndex{0, -1}, HeadIndex{0, 0, 3}}) {
    EXPECT_THROW(trace_head(text, wrong), std::invalid_argument);
  }
  EXPECT_THROW(TranslatedText(shipped(), ""), std::invalid_argument);
  const Json json = Json::parse(to_json(survey));
  EXPECT_EQ(json["translation"]["word_weights"][1][2], at(survey.word_weights, 1, 2));
  EXPECT_EQ(json["attentions"][1]["mask"], "causal");
  EXPECT_EQ(json["sequences"][0]["word_of"], Json({0, 1, 2, 2, 2, 2, -1}));
}

// The log-probabilities of the tokens add up to that of the translation, which the search counted.
TEST(ExplainTranslation, WrittenTokensHaveTheirProbabilities) {
  for (const std::string text : {"You are welcome", "Thank you for your help."}) {
    const Translation translation = shipped().translate(text);
    const TranslatedText explained(shipped(), text);
    const std::vector<WrittenToken>& written = explained.attentions().alignment->written;
    ASSERT_EQ(written.size(), translation.ids.size());
    double sum = 0;
    for (std::size_t i = 0; i < written.size(); ++i) {
      EXPECT_EQ(written[i].id, translation.ids[i]);
      sum += std::log(written[i].probability);
      ASSERT_EQ(written[i].candidates.size(), 5u);
      double shares = 0, last = 1;
      for (const TokenProbability& candidate : written[i].candidates) {
        EXPECT_LE(candidate.probability, std::exchange(last, candidate.probability));
        shares += candidate.probability;
      }
      EXPECT_LE(shares, 1 + kRounding);
      EXPECT_LE(written[i].probability, written[i].candidates[0].probability);
    }
    EXPECT_NEAR(sum, translation.log_probability, 1e-4);
    EXPECT_EQ(written.back().token, "</s>");
  }
}

// One output word of two tokens, two source words of one token each, and an end that is no word.
TEST(WordAlignment, IsTheMeanOverTokensAndHeads) {
  const Alignment two{.source = {{"a", "b"}, {0, 1, -1}}, .output = {{"c"}, {0, 0, -1}}};
  const Alignment one{.source = {{"a"}, {0, -1}}, .output = {{"b"}, {0}}};
  const Alignment wrong{.source = {{"a"}, {1}}, .output = {{"b"}, {0}}};
  WordAlignment words(two), unseen(one);
  // Of two heads for each of three tokens; the third token is none of a word.
  words.add(Tensor::of<float>({3, 2, 3}, {0.5f, 0.25f, 0.25f, 0, 1, 0, 0.5f, 0.5f, 0, 0, 0, 1, 1, 0, 0, 1, 0, 0}));
  const double a = 0.5 + 0.5, b = 0.25 + 1 + 0.5;
  test::expect_near(words.weights(), test::matrix(1, 2, {a / (a + b), b / (a + b)}), 1e-15);
  unseen.add(Tensor::of<float>({1, 1, 2}, {0, 1}));
  EXPECT_EQ(at(unseen.weights(), 0, 0), 0);
  EXPECT_THROW(WordAlignment{wrong}, std::invalid_argument);
  EXPECT_THROW(unseen.add(Tensor::of<float>({1, 1, 1}, {1})), std::invalid_argument);
}

using Link = std::pair<std::int64_t, std::int64_t>;  // source word, output word

struct AlignedPair {
  std::string source, target;
  std::set<Link> sure, possible;  // the latter with the sure ones
};

std::vector<AlignedPair> read_aligned_pairs() {
  std::istringstream lines(test::slurp(QKV_SOURCE_DIR "/data/alignment/en-es.txt"));
  std::vector<AlignedPair> pairs;
  const std::string mark = " ||| ";
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const std::size_t first = line.find(mark), second = line.find(mark, first + 1);
    AlignedPair& pair = pairs.emplace_back();
    pair.source = line.substr(0, first);
    pair.target = line.substr(first + mark.size(), second - first - mark.size());
    std::istringstream links(line.substr(second + mark.size()));
    Link one;  // "0-1", or, if it is possible alone, "0?1"
    for (char sign = 0; links >> one.first >> sign >> one.second;) {
      pair.possible.insert(one);
      if (sign == '-') pair.sure.insert(one);
    }
  }
  return pairs;
}

// Counts links of both halves. Source of the measure: Och, Ney, "A systematic comparison of various statistical
// alignment models" (2003): 1 - (|A n S| + |A n P|) / (|A| + |S|).
class AlignmentError {
 public:
  // Each output word's link is its largest weight, the first of equal ones. `weights` is [output words, source words].
  void add(std::size_t half, const AlignedPair& pair, const Tensor& weights) {
    for (std::int64_t i = 0; i < weights.size(0); ++i) {
      const double* row = weights.data<double>() + i * weights.size(1);
      const Link link{std::max_element(row, row + weights.size(1)) - row, i};
      right_[half] += static_cast<double>(pair.sure.count(link) + pair.possible.count(link));
      all_[half] += 1;
    }
    all_[half] += static_cast<double>(pair.sure.size());
  }
  double operator[](std::size_t half) const { return 1 - right_[half] / all_[half]; }

 private:
  std::array<double, 2> right_{}, all_{};
};

// By each measure, [output words, source words], of all heads together; of a head alone, "head ...", by its weights.
std::map<std::string, Tensor> weights_by_measures(const TranslatedText& text, const HeadSurvey& survey) {
  const Alignment& alignment = *survey.attentions.alignment;
  const Dims shape = {std::ssize(alignment.output.words), std::ssize(alignment.source.words)};
  const std::int64_t outputs = std::ssize(alignment.output.word_of), sources = std::ssize(alignment.source.word_of);
  std::map<std::string, Tensor> all;
  const auto add = [&](const std::string& name, std::int64_t t, std::int64_t j, double value) {
    const std::int64_t row = alignment.output.word_of[static_cast<std::size_t>(t)];
    const std::int64_t column = alignment.source.word_of[static_cast<std::size_t>(j)];
    if (row < 0 || column < 0) return;
    all.try_emplace(name, Tensor::zeros(shape, Dtype::f64)).first->second.view().at<double>({row, column}) += value;
  };
  for (const HeadSurvey::Entry& head : survey.heads) {
    if (head.index.site != alignment.site) continue;
    const std::string name = fmt::format("head {}, layer {}", head.index.head, head.index.layer);
    for (std::int64_t t = 0; t < outputs; ++t) {
      double most = 0;
      for (std::int64_t j = 0; j < sources; ++j) {
        if (alignment.source.word_of[static_cast<std::size_t>(j)] >= 0) most = std::max(most, at(head.weights, t, j));
      }
      for (std::int64_t j = 0; j < sources; ++j) {
        const double weight = at(head.weights, t, j);
        add(name, t, j, weight);
        add("value norm", t, j, weight * head.value_lengths.data<double>()[j]);
        for (const int power : {0, 1, 2, 4, 8}) {  // 0: the mean of all heads
          add("all heads, largest weight ^ " + std::to_string(power), t, j, std::pow(most, power) * weight);
        }
      }
    }
  }
  for (std::int64_t t = 0; t < outputs; ++t) {
    for (const HeadGradient& head : gradient_weights(text, t)) {
      if (head.index.site != alignment.site) continue;
      for (std::int64_t j = 0; j < sources; ++j) {
        const double value = at(head.values, t, j);
        add("gradient times weight", t, j, value);
        add("its positive part", t, j, std::max(value, 0.0));
        add("its absolute value", t, j, std::abs(value));
      }
    }
  }
  const Outcome whole = text.outcome({});
  for (std::int64_t j = 0; j < sources; ++j) {
    const Outcome without = text.outcome({.keys = {{j, alignment.site}}});
    for (std::size_t t = 0; t < whole.log_probabilities.size(); ++t) {
      add("knock-out of each source token", static_cast<std::int64_t>(t), j,
          whole.log_probabilities[t] - without.log_probabilities[t]);
    }
  }
  return all;
}

TEST(WordAlignment, ErrorOnPairsAlignedByHand) {
  const std::vector<AlignedPair> pairs = read_aligned_pairs();
  ASSERT_EQ(pairs.size(), 40u);
  AlignmentError shown, diagonal;
  std::map<std::string, AlignmentError> measures;
  for (std::size_t n = 0; n < pairs.size(); ++n) {
    const AlignedPair& pair = pairs[n];
    SCOPED_TRACE(pair.source);
    const Translation translation{.text = pair.target, .ids = shipped().target_tokenizer().encode(pair.target).ids};
    const TranslatedText text(shipped(), pair.source, translation);
    const HeadSurvey survey = survey_heads(text, {.keep_weights = true});
    const Alignment& alignment = *survey.attentions.alignment;
    ASSERT_EQ(joined(alignment.source.words), pair.source);
    ASSERT_EQ(joined(alignment.output.words), pair.target);
    const std::int64_t outputs = std::ssize(alignment.output.words), sources = std::ssize(alignment.source.words);
    for (const auto& [i, j] : pair.possible) ASSERT_TRUE(i < sources && j < outputs) << i << " " << j;
    for (const auto& [name, weights] : weights_by_measures(text, survey)) measures[name].add(n % 2, pair, weights);
    shown.add(n % 2, pair, survey.word_alignment);
    diagonal.add(n % 2, pair,
                 test::filled(outputs, sources, [&](auto i, auto j) { return j == std::min(i, sources - 1); }));
  }
  std::printf("alignment error rate on 20 pairs to choose by, and on 20 others\n");
  const auto row = [](const std::string& name, const AlignmentError& error) {
    std::printf("%-32s %.3f  %.3f\n", name.c_str(), error[0], error[1]);
  };
  row("what explain shows", shown);
  for (const auto& [name, error] : measures) row(name, error);
  row("same position", diagonal);
  EXPECT_LT(shown[1], diagonal[1]);
  for (const auto& [name, other] : measures)
    EXPECT_LE(shown[0], other[0]) << name;  // the best of those that were tried
}

}  // namespace
}  // namespace qkv
