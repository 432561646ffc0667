// Answers against the pipeline of transformers 4 (golden/answers, made by make.py there).
#include "qkv/pipelines/question_answerer.h"

#include "pipelines/head_folder.h"
#include "pipelines/texts/character_spans.h"

namespace qkv::test {
namespace {

using nlohmann::json;

const std::string kGoldenAnswers = QKV_TEST_DATA "/golden/answers/";

TEST(QuestionAnswerer, AgreesWithThePipelineOfTransformers) {
  std::map<std::string, std::vector<json>> rows;
  for (const json& each : json::parse(slurp(kGoldenAnswers + "expected.json"))) rows[each["kind"]].push_back(each);
  EXPECT_EQ(rows.size(), 3u);
  for (const auto& [kind, expected] : rows) {
    const HeadFolder folder(kind, "answers");
    const QuestionAnswerer answerer = QuestionAnswerer::load(folder / "");
    for (const json& each : expected) {
      SCOPED_TRACE(kind + " " + each["question"].dump() + each["context"].dump() + each["arguments"].dump());
      const json& given = each["arguments"];
      const std::string context = each["context"];
      AnswerOptions options{.top_k = given["top_k"],
                            .max_answer_len = given.value("max_answer_len", 15),
                            .max_seq_len = given.value("max_seq_len", std::size_t{kind == "mpnet" ? 64u : 0u}),
                            .doc_stride = given["doc_stride"],
                            .handle_impossible_answer = given.value("handle_impossible_answer", false),
                            .align_to_words = given.value("align_to_words", true)};
      const CharacterSpans characters(context);
      const std::vector<Answer> answers = answerer.answer(each["question"], context, options);
      options.threads = 1;
      ASSERT_EQ(answers.size(), each["answers"].size());
      for (std::size_t i = 0; i < answers.size(); ++i) {
        const json& said = each["answers"][i];
        EXPECT_EQ(answers[i].text, said["answer"].get<std::string>());
        EXPECT_NEAR(answers[i].score, said["score"].get<double>(), 1e-5);
        EXPECT_EQ(characters.of(answers[i].span), (TextSpan{said["start"], said["end"]}));
        EXPECT_EQ(answerer.answer(each["question"], context, options)[i].score, answers[i].score);
      }
    }
  }
}

TEST(QuestionAnswerer, RefusesWhatCannotBe) {
  const QuestionAnswerer answerer = QuestionAnswerer::load(kGoldenAnswers);
  const auto message = [&](const std::string& question, const AnswerOptions& options) {
    return message_of<std::invalid_argument>([&] { answerer.answer(question, "The cat sat.", options); });
  };
  EXPECT_EQ(message("who", {.top_k = 0}), "answer: top_k is 0, at least 1 is needed");
  EXPECT_EQ(message("who", {.max_answer_len = 0}), "answer: max_answer_len is 0, at least 1 is needed");
  EXPECT_EQ(message("who", {.max_seq_len = 19}), "answer: max_seq_len is 19, but the model has 18 positions");
  EXPECT_EQ(message("a a a a a a a a a a a a a", {}),
            "encode_windows: the first text has 13 tokens, at most 12 leave room for the second within max_length 16");
  EXPECT_TRUE(answerer.answer("who", "").empty());
  EXPECT_EQ(answerer.answer("who", "", {.handle_impossible_answer = true})[0].text, "");
  EXPECT_NE(message_of<FormatError>([] {
              QuestionAnswerer::load(QKV_TEST_DATA "/golden/rank");
            }).find("ForQuestionAnswering"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::test
