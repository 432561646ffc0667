// What qkv.h refuses: a row for each argument. A status, one line, results that are NULL.
#include "c/call.h"

#include "c/models_for_test.h"
#include "io/files_for_test.h"
#include "qkv/threads.h"
#include "qkv/version.h"

namespace qkv::test {
namespace {

constexpr const char* kLatin = "caf\xe9";

struct CRefusal {
  const char* what;
  int status;
  const char* message;  // its end
  std::function<int()> call;
};

class CalledWrongly : public ::testing::Test {
 protected:
  void expect_refused(const std::vector<CRefusal>& rows) {
    for (const CRefusal& row : rows) {
      block_ = &block_;
      EXPECT_EQ(row.call(), row.status) << row.what;
      const std::string message = qkv_message();
      EXPECT_TRUE(message.ends_with(row.message)) << row.what << ": " << message;
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    }
  }
  // Where a result goes, which a refusal makes NULL.
  template <class T>
  T** out() {
    return reinterpret_cast<T**>(&block_);
  }
  void* block_ = nullptr;
  std::int64_t number_ = 0, other_ = 0;
  std::vector<float> rows_ = std::vector<float>(1000);
  const char* texts_[2] = {"a", "b"};
  const char* latin_[2] = {"a", kLatin};
  const char* null_[2] = {"a", nullptr};
};

TEST_F(CalledWrongly, OpenSaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& name, int task, int storage = QKV_STORE_F32) {
    return [this, name, task, storage] { return qkv_open(name.c_str(), task, storage, out<qkv_model>()); };
  };
  const std::string fill = golden_folder("fill"), rank = golden_folder("rank");
  expect_refused({
      {"no folder", QKV_INVALID, "qkv_open: folder is NULL", [&] { return qkv_open(nullptr, 0, 0, out<qkv_model>()); }},
      {"no result", QKV_INVALID, "qkv_open: model is NULL", [&] { return qkv_open("x", 0, 0, nullptr); }},
      {"a task below", QKV_INVALID, "qkv_open: task is -1; it must be from 0 to 7", open(rank, -1)},
      {"a task above", QKV_INVALID, "qkv_open: task is 8; it must be from 0 to 7", open(rank, 8)},
      {"a storage of GGUF files alone", QKV_FORMAT, "has no weights in Q8_0; q8 keeps those of a GGUF file",
       open(golden_folder("language/gpt2"), QKV_GENERATE, QKV_STORE_Q8)},
      {"a storage above", QKV_INVALID, "qkv_open: storage is 8; it must be from 0 to 7", open(rank, QKV_RANK, 8)},
      {"nothing there", QKV_IO, "No such file or directory", open(folder / "absent", QKV_EMBED)},
      {"not in the cache", QKV_IO, "refs/main)", open("no-such/model", QKV_EMBED)},
      {"an empty folder", QKV_IO, "No such file or directory", open(folder / "", QKV_TRANSLATE)},
      {"another head", QKV_FORMAT, "the model has another head", open(fill, QKV_RANK)},
      {"another kind", QKV_FORMAT, "", open(rank, QKV_GENERATE)},
  });
  EXPECT_EQ(block_, nullptr);
}

TEST_F(CalledWrongly, EveryCallChecksItsArguments) {
  const CModel embed("encoders/roberta", QKV_EMBED), rank("rank", QKV_RANK), classes("rank", QKV_CLASSIFY),
      fill("fill", QKV_FILL), translate("translate/opus_text", QKV_TRANSLATE), generate("language/gpt2", QKV_GENERATE),
      tags("tags", QKV_TAG), answers("answers", QKV_ANSWER);
  std::int64_t dim = 0;
  ASSERT_EQ(qkv_dim(embed.get(), &dim), QKV_OK);
  const auto embedding = [&](const qkv_model* model, const char* const* texts, std::int64_t count,
                             std::int64_t capacity, const char* prompt = nullptr) {
    return [=, this] { return qkv_embed(model, texts, count, prompt, rows_.data(), capacity); };
  };
  const auto ranking = [&](const char* query, const char* const* texts, std::int64_t count) {
    return [=, this, model = rank.get()] { return qkv_rank(model, query, texts, count, rows_.data(), nullptr); };
  };
  const auto writing = [&](const char* prompt, void (*change)(qkv_generate_options&)) {
    return [=, this, model = generate.get()] {
      qkv_generate_options options{};
      change(options);
      return qkv_generate(model, prompt, &options, out<char>());
    };
  };
  const std::string capacity = fmt::format("qkv_embed: capacity is {}; 2 texts need {} floats each", 2 * dim - 1, dim);
  expect_refused({
      {"no model", QKV_INVALID, "qkv_embed: model is NULL", embedding(nullptr, texts_, 2, 1000)},
      {"another task", QKV_INVALID, "qkv_embed: the model was opened for QKV_RANK; it must be QKV_EMBED",
       embedding(rank.get(), texts_, 2, 1000)},
      {"no texts", QKV_INVALID, "qkv_embed: texts is NULL, count is 2", embedding(embed.get(), nullptr, 2, 1000)},
      {"a text that is NULL", QKV_INVALID, "qkv_embed: texts[1] is NULL", embedding(embed.get(), null_, 2, 1000)},
      {"not UTF-8", QKV_INVALID, "qkv_embed: texts[1] is not UTF-8: \"caf\\xe9\"",
       embedding(embed.get(), latin_, 2, 1000)},
      {"a negative count", QKV_INVALID, "qkv_embed: count is -1", embedding(embed.get(), texts_, -1, 1000)},
      {"no room", QKV_INVALID, capacity.c_str(), embedding(embed.get(), texts_, 2, 2 * dim - 1)},
      {"a negative room", QKV_INVALID, "2 texts need 12 floats each",
       embedding(embed.get(), texts_, 2, std::numeric_limits<std::int64_t>::min())},
      {"a prompt not UTF-8", QKV_INVALID, "qkv_embed: prompt is not UTF-8: \"caf\\xe9\"",
       embedding(embed.get(), texts_, 2, 1000, kLatin)},
      {"no rows", QKV_INVALID, "qkv_embed: rows is NULL",
       [&] { return qkv_embed(embed.get(), texts_, 2, nullptr, nullptr, 1000); }},
      {"no model", QKV_INVALID, "qkv_dim: model is NULL", [&] { return qkv_dim(nullptr, &number_); }},
      {"no dim", QKV_INVALID, "qkv_dim: dim is NULL", [&] { return qkv_dim(embed.get(), nullptr); }},
      {"no query", QKV_INVALID, "qkv_rank: query is NULL", ranking(nullptr, texts_, 2)},
      {"a query not UTF-8", QKV_INVALID, "qkv_rank: query is not UTF-8: \"caf\\xe9\"", ranking(kLatin, texts_, 2)},
      {"a text not UTF-8", QKV_INVALID, "qkv_rank: texts[1] is not UTF-8: \"caf\\xe9\"", ranking("a", latin_, 2)},
      {"a negative count", QKV_INVALID, "qkv_rank: count is -2", ranking("a", texts_, -2)},
      {"top 0", QKV_INVALID, "top is 0, at least 1 is needed",
       [&] { return qkv_classify(classes.get(), "a", 0, out<qkv_label>(), &number_); }},
      {"no text", QKV_INVALID, "qkv_classify: text is NULL",
       [&] { return qkv_classify(classes.get(), nullptr, 1, out<qkv_label>(), &number_); }},
      {"no labels", QKV_INVALID, "qkv_classify: labels is NULL",
       [&] { return qkv_classify(classes.get(), "a", 1, nullptr, &number_); }},
      {"no count", QKV_INVALID, "qkv_classify: count is NULL",
       [&] { return qkv_classify(classes.get(), "a", 1, out<qkv_label>(), nullptr); }},
      {"no second text", QKV_INVALID, "qkv_classify_pair: second is NULL",
       [&] { return qkv_classify_pair(classes.get(), "a", nullptr, 1, out<qkv_label>(), &number_); }},
      {"a second text not UTF-8", QKV_INVALID, "qkv_classify_pair: second is not UTF-8: \"caf\\xe9\"",
       [&] { return qkv_classify_pair(classes.get(), "a", kLatin, 1, out<qkv_label>(), &number_); }},
      {"a pair for another task", QKV_INVALID, "the model was opened for QKV_TAG; it must be QKV_CLASSIFY",
       [&] { return qkv_classify_pair(tags.get(), "a", "b", 1, out<qkv_label>(), &number_); }},
      {"no text", QKV_INVALID, "qkv_tag: text is NULL",
       [&] { return qkv_tag(tags.get(), nullptr, QKV_SIMPLE, out<qkv_tagged>(), &number_); }},
      {"not UTF-8", QKV_INVALID, "qkv_tag: text is not UTF-8: \"caf\\xe9\"",
       [&] { return qkv_tag(tags.get(), kLatin, QKV_SIMPLE, out<qkv_tagged>(), &number_); }},
      {"an aggregation above", QKV_INVALID, "qkv_tag: aggregation is 5; it must be from 0 to 4",
       [&] { return qkv_tag(tags.get(), "a", 5, out<qkv_tagged>(), &number_); }},
      {"no result", QKV_INVALID, "qkv_tag: found is NULL",
       [&] { return qkv_tag(tags.get(), "a", QKV_SIMPLE, nullptr, &number_); }},
      {"no count", QKV_INVALID, "qkv_tag: count is NULL",
       [&] { return qkv_tag(tags.get(), "a", QKV_SIMPLE, out<qkv_tagged>(), nullptr); }},
      {"no question", QKV_INVALID, "qkv_answer: question is NULL",
       [&] { return qkv_answer(answers.get(), nullptr, "a", 1, out<qkv_answered>(), &number_); }},
      {"a context not UTF-8", QKV_INVALID, "qkv_answer: context is not UTF-8: \"caf\\xe9\"",
       [&] { return qkv_answer(answers.get(), "a", kLatin, 1, out<qkv_answered>(), &number_); }},
      {"top 0", QKV_INVALID, "", [&] { return qkv_answer(answers.get(), "a", "b", 0, out<qkv_answered>(), &number_); }},
      {"no result", QKV_INVALID, "qkv_answer: answers is NULL",
       [&] { return qkv_answer(answers.get(), "a", "b", 1, nullptr, &number_); }},
      {"no count", QKV_INVALID, "qkv_answer: count is NULL",
       [&] { return qkv_answer(answers.get(), "a", "b", 1, out<qkv_answered>(), nullptr); }},
      {"no mask", QKV_INVALID, "fill: the text has no [MASK]",
       [&] { return qkv_fill(fill.get(), "The cat.", 1, out<qkv_label>(), &number_, &other_); }},
      {"top -1", QKV_INVALID, "top is -1, at least 1 is needed",
       [&] { return qkv_fill(fill.get(), "[MASK]", -1, out<qkv_label>(), &number_, &other_); }},
      {"no words", QKV_INVALID, "qkv_fill: words is NULL",
       [&] { return qkv_fill(fill.get(), "[MASK]", 1, nullptr, &number_, &other_); }},
      {"no masks", QKV_INVALID, "qkv_fill: masks is NULL",
       [&] { return qkv_fill(fill.get(), "[MASK]", 1, out<qkv_label>(), nullptr, &other_); }},
      {"no each", QKV_INVALID, "qkv_fill: each is NULL",
       [&] { return qkv_fill(fill.get(), "[MASK]", 1, out<qkv_label>(), &number_, nullptr); }},
      {"a negative count", QKV_INVALID, "qkv_translate: count is -1",
       [&] { return qkv_translate(translate.get(), texts_, -1, 0, 0, out<char*>()); }},
      {"negative beams", QKV_INVALID, "beams is -1, must be from 1 to 1024",
       [&] { return qkv_translate(translate.get(), texts_, 1, -1, 0, out<char*>()); }},
      {"a negative length", QKV_INVALID, "",
       [&] { return qkv_translate(translate.get(), texts_, 1, 0, -1, out<char*>()); }},
      {"no translations", QKV_INVALID, "qkv_translate: translations is NULL",
       [&] { return qkv_translate(translate.get(), texts_, 1, 0, 0, nullptr); }},
      {"no prompt", QKV_INVALID, "qkv_generate: prompt is NULL", writing(nullptr, [](qkv_generate_options&) {})},
      {"no text", QKV_INVALID, "qkv_generate: text is NULL",
       [&] { return qkv_generate(generate.get(), "a", nullptr, nullptr); }},
      {"a form above", QKV_INVALID, "qkv_generate: form is 3; it must be from 0 to 2",
       writing("a", [](qkv_generate_options& o) { o.form = 3; })},
      {"a choice below", QKV_INVALID, "qkv_generate: choice is -1; it must be from 0 to 2",
       writing("a", [](qkv_generate_options& o) { o.choice = -1; })},
      {"temperature 0", QKV_INVALID, "",
       writing("a",
               [](qkv_generate_options& o) {
                 o.choice = QKV_SAMPLE;
                 o.top_p = 1;
               })},
      {"top_p 0", QKV_INVALID, "",
       writing("a",
               [](qkv_generate_options& o) {
                 o.choice = QKV_SAMPLE;
                 o.temperature = 1;
               })},
      {"a negative number of tokens", QKV_INVALID, "qkv_generate: max_new_tokens is -1",
       writing("a", [](qkv_generate_options& o) { o.max_new_tokens = -1; })},
      {"no fingerprint", QKV_INVALID, "qkv_fingerprint: fingerprint is NULL",
       [&] { return qkv_fingerprint(fill.get(), nullptr); }},
      {"no model", QKV_INVALID, "qkv_fingerprint: model is NULL",
       [&] { return qkv_fingerprint(nullptr, out<char>()); }},
      {"threads", QKV_INVALID, "", [&] { return qkv_set_threads(-1); }},
  });
  block_ = &block_;
  EXPECT_EQ(qkv_classify(classes.get(), kLatin, 1, out<qkv_label>(), &number_), QKV_INVALID);
  EXPECT_EQ(block_, nullptr);
}

// Nothing may leave a call but its status.
TEST(CCalls, KeepEveryExceptionIn) {
  const CModel generate("language/gpt2", QKV_GENERATE);
  char* text = nullptr;
  qkv_generate_options options{};
  options.on_text = [](void*, const char*) -> int { throw 1; };
  EXPECT_EQ(qkv_generate(generate.get(), "a", &options, &text), QKV_INTERNAL);
  EXPECT_EQ(text, nullptr);
  EXPECT_STREQ(qkv_message(), "an exception of on_text");
  options.on_text = [](void*, const char*) -> int { throw std::bad_alloc(); };
  EXPECT_EQ(qkv_generate(generate.get(), "a", &options, &text), QKV_NO_MEMORY);
  EXPECT_STREQ(qkv_message(), "out of memory");
}

TEST(CCalls, EachThreadHasItsMessage) {
  ASSERT_EQ(qkv_dim(nullptr, nullptr), QKV_INVALID);
  const std::string own = qkv_message();
  std::thread([] {
    EXPECT_STREQ(qkv_message(), "");
    EXPECT_EQ(qkv_set_threads(-1), QKV_INVALID);
    EXPECT_STRNE(qkv_message(), "");
  }).join();
  EXPECT_EQ(qkv_message(), own);
}

TEST(CCalls, SayTheVersionAndSetThreads) {
  EXPECT_EQ(qkv_version(), version());
  EXPECT_EQ(qkv_set_threads(3), QKV_OK);
  EXPECT_EQ(threads(), 3);
  EXPECT_EQ(qkv_set_threads(0), QKV_OK);
  qkv_free(nullptr);
  qkv_close(nullptr);
}

}  // namespace
}  // namespace qkv::test
