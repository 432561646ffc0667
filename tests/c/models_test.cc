// Models from C: what transformers and sentence-transformers say (tests/golden), from one thread and from many.
#include "c/models_for_test.h"
#include "io/files_for_test.h"
#include "qkv/pipelines/certify.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/fingerprint.h"
#include "qkv/pipelines/question_answerer.h"
#include "qkv/pipelines/reranker.h"
#include "qkv/pipelines/text_classifier.h"
#include "qkv/pipelines/translator.h"
#include "qkv/target.h"

namespace qkv::test {
namespace {

using nlohmann::json;

json golden_json(const std::string& name) { return json::parse(slurp(golden_folder(name))); }

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> addresses;
  for (const std::string& text : texts) addresses.push_back(text.c_str());
  return addresses;
}

// What a block holds, which is freed.
std::string taken(char* text) {
  const std::string own = text;
  qkv_free(text);
  return own;
}

TEST(CModels, RankAsSentenceTransformers) {
  const CModel model("rank", QKV_RANK);
  for (const json& each : golden_json("rank/expected.json")) {
    const std::vector<std::string> texts = each["texts"];
    const std::string query = each["query"];
    const auto count = std::ssize(texts);
    std::vector<float> scores(texts.size());
    std::vector<std::int64_t> order(texts.size());
    ASSERT_EQ(qkv_rank(model.get(), query.c_str(), pointers(texts).data(), count, scores.data(), order.data()), QKV_OK);
    EXPECT_EQ(order, each["order"].get<std::vector<std::int64_t>>());
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_NEAR(scores[i], each["sigmoid"][i].get<double>(), 1e-5);
    ASSERT_EQ(qkv_rank(model.get(), query.c_str(), pointers(texts).data(), count, nullptr, nullptr), QKV_OK);
  }
  EXPECT_EQ(qkv_rank(model.get(), "a", nullptr, 0, nullptr, nullptr), QKV_OK);
}

// Of one label the probability is the sigmoid, as the score of a rank is.
TEST(CModels, ClassifyPairsAsSentenceTransformers) {
  const CModel model("rank", QKV_CLASSIFY);
  for (const json& each : golden_json("rank/expected.json")) {
    const std::string query = each["query"];
    for (std::size_t i = 0; i < each["texts"].size(); ++i) {
      const std::string text = each["texts"][i];
      qkv_label* labels = nullptr;
      std::int64_t count = 0;
      ASSERT_EQ(qkv_classify_pair(model.get(), query.c_str(), text.c_str(), 1, &labels, &count), QKV_OK);
      ASSERT_EQ(count, 1);
      EXPECT_NEAR(labels[0].probability, each["sigmoid"][i].get<double>(), 1e-5);
      qkv_free(labels);
    }
  }
}

TEST(CModels, FillAsTransformers) {
  const CModel model("fill", QKV_FILL);
  for (const json& row : golden_json("fill/expected.json")) {
    qkv_label* words = nullptr;
    std::int64_t masks = 0, each = 0;
    ASSERT_EQ(qkv_fill(model.get(), row["text"].get<std::string>().c_str(), 5, &words, &masks, &each), QKV_OK);
    ASSERT_EQ(masks, std::ssize(row["masks"]));
    ASSERT_EQ(each, 5);
    for (std::int64_t m = 0; m < masks; ++m) {
      for (std::int64_t i = 0; i < each; ++i) {
        const json& wanted = row["masks"][static_cast<std::size_t>(m)][static_cast<std::size_t>(i)];
        EXPECT_EQ(words[m * each + i].text, wanted["token_str"].get<std::string>());
        EXPECT_NEAR(words[m * each + i].probability, wanted["score"].get<double>(), 1e-5);
      }
    }
    qkv_free(words);
  }
}

TEST(CModels, TagAsTransformers) {
  const std::map<std::string, int> aggregations{
      {"none", QKV_TOKENS}, {"simple", QKV_SIMPLE}, {"first", QKV_FIRST}, {"average", QKV_AVERAGE}, {"max", QKV_MAX}};
  const CModel model("tags", QKV_TAG);
  int rows = 0;
  for (const json& row : golden_json("tags/expected.json")) {
    const std::string text = row["text"];
    const bool is_ascii = std::ranges::all_of(text, [](char c) { return c >= 0; });  // bytes here, characters there
    if (row["kind"] != "bert" || !is_ascii) continue;
    ++rows;
    qkv_tagged* found = nullptr;
    std::int64_t count = 0;
    ASSERT_EQ(qkv_tag(model.get(), text.c_str(), aggregations.at(row["strategy"]), &found, &count), QKV_OK);
    ASSERT_EQ(count, std::ssize(row["found"]));
    for (std::int64_t i = 0; i < count; ++i) {
      const json& wanted = row["found"][static_cast<std::size_t>(i)];
      EXPECT_EQ(found[i].label, wanted["label"].get<std::string>());
      EXPECT_NEAR(found[i].score, wanted["score"].get<double>(), 1e-5);
      EXPECT_EQ(found[i].begin, wanted["start"]);
      EXPECT_EQ(found[i].end, wanted["end"]);
    }
    qkv_free(found);
  }
  EXPECT_GE(rows, 5);
}

TEST(CModels, WriteAsTransformersPieceByPiece) {
  const CModel model("language/gpt2", QKV_GENERATE);
  for (const json& wanted : golden_json("language/gpt2_text.json")) {
    const std::string greedy = wanted["text_of_greedy"];
    std::string pieces;
    qkv_generate_options options{};
    options.max_new_tokens = 24;
    options.context = &pieces;
    char* text = nullptr;
    ASSERT_EQ(qkv_generate(model.get(), wanted["text"].get<std::string>().c_str(), &options, &text), QKV_OK);
    EXPECT_EQ(taken(text), greedy);
    options.on_text = [](void* context, const char* piece) -> int {
      *static_cast<std::string*>(context) += piece;
      return 0;
    };
    ASSERT_EQ(qkv_generate(model.get(), wanted["text"].get<std::string>().c_str(), &options, &text), QKV_OK);
    EXPECT_EQ(taken(text), greedy);
    EXPECT_EQ(pieces, greedy);
  }
}

TEST(CModels, WriteUntilOnTextHasEnough) {
  const CModel model("language/gpt2", QKV_GENERATE);
  struct Seen {
    int pieces = 0;
    std::string text;
  };
  const std::string prompt = golden_json("language/gpt2_text.json")[0]["text"];
  const std::string whole = golden_json("language/gpt2_text.json")[0]["text_of_greedy"];
  for (const int enough : {1, 2, 5}) {
    Seen seen{enough, ""};
    qkv_generate_options options{};
    options.max_new_tokens = 24;
    options.context = &seen;
    options.on_text = [](void* context, const char* piece) -> int {
      Seen& own = *static_cast<Seen*>(context);
      own.text += piece;
      return --own.pieces == 0;
    };
    char* text = nullptr;
    ASSERT_EQ(qkv_generate(model.get(), prompt.c_str(), &options, &text), QKV_OK) << qkv_message();
    EXPECT_EQ(seen.pieces, 0);
    EXPECT_EQ(taken(text), seen.text);
    EXPECT_LT(seen.text.size(), whole.size());
    EXPECT_TRUE(whole.starts_with(seen.text)) << seen.text;
  }
}

TEST(CModels, DrawWhatTheirSeedSays) {
  const CModel model("language/gpt2", QKV_GENERATE);
  const auto drawn = [&](std::uint64_t seed) {
    qkv_generate_options options{};
    options.choice = QKV_SAMPLE;
    options.max_new_tokens = 20;
    options.temperature = 2;
    options.top_p = 1;
    options.seed = seed;
    char* text = nullptr;
    EXPECT_EQ(qkv_generate(model.get(), "The", &options, &text), QKV_OK) << qkv_message();
    return taken(text);
  };
  EXPECT_EQ(drawn(1), drawn(1));
  EXPECT_NE(drawn(1), drawn(2));
}

TEST(CModels, GiveWhatThePipelinesGive) {
  const std::vector<std::string> texts{"The cat sat on the mat.", "", "caf\xc3\xa9 dogs", "A dog ran."};
  const CModel embed("encoders/roberta", QKV_EMBED), classes("rank", QKV_CLASSIFY),
      translate("translate/opus_text", QKV_TRANSLATE);
  const Embedder embedder = Embedder::load(golden_folder("encoders/roberta"));
  std::int64_t dim = 0, count = 0;
  ASSERT_EQ(qkv_dim(embed.get(), &dim), QKV_OK);
  EXPECT_EQ(dim, embedder.dim());
  std::vector<float> rows(texts.size() * static_cast<std::size_t>(dim));
  for (const char* prompt : {static_cast<const char*>(nullptr), "query: "}) {
    ASSERT_EQ(qkv_embed(embed.get(), pointers(texts).data(), std::ssize(texts), prompt, rows.data(), std::ssize(rows)),
              QKV_OK);
    EmbedOptions options;
    if (prompt != nullptr) options.prompt = prompt;
    const Tensor wanted = embedder.embed(texts, options);
    EXPECT_EQ(rows, std::vector<float>(wanted.data<float>(), wanted.data<float>() + wanted.element_count()));
  }
  EXPECT_EQ(qkv_embed(embed.get(), nullptr, 0, nullptr, nullptr, 0), QKV_OK);

  qkv_label* labels = nullptr;
  ASSERT_EQ(qkv_classify(classes.get(), texts[0].c_str(), 9, &labels, &count), QKV_OK);
  const auto wanted_classes = TextClassifier::load(golden_folder("rank")).classify(texts[0], 9);
  ASSERT_EQ(count, std::ssize(wanted_classes));
  EXPECT_EQ(labels[0].text, wanted_classes[0].label);
  EXPECT_EQ(labels[0].probability, wanted_classes[0].probability);
  qkv_free(labels);

  char** translations = nullptr;
  const auto wanted = Translator::load(golden_folder("translate/opus_text")).translate(texts, {.beams = 2});
  ASSERT_EQ(qkv_translate(translate.get(), pointers(texts).data(), std::ssize(texts), 2, 0, &translations), QKV_OK);
  for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(translations[i], wanted[i][0].text);
  qkv_free(translations);
  ASSERT_EQ(qkv_translate(translate.get(), nullptr, 0, 0, 0, &translations), QKV_OK);
  qkv_free(translations);
}

TEST(CModels, AnswerAsThePipeline) {
  const CModel model("answers", QKV_ANSWER);
  const QuestionAnswerer answerer = QuestionAnswerer::load(golden_folder("answers"));
  for (const json& row : golden_json("answers/expected.json")) {
    const std::string question = row["question"], context = row["context"];
    qkv_answered* found = nullptr;
    std::int64_t count = 0;
    ASSERT_EQ(qkv_answer(model.get(), question.c_str(), context.c_str(), 3, &found, &count), QKV_OK) << qkv_message();
    const std::vector<Answer> wanted = answerer.answer(question, context, {.top_k = 3});
    ASSERT_EQ(count, std::ssize(wanted));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_EQ(found[i].text, wanted[i].text);
      EXPECT_EQ(found[i].score, wanted[i].score);
      EXPECT_EQ(context.substr(static_cast<std::size_t>(found[i].begin),
                               static_cast<std::size_t>(found[i].end - found[i].begin)),
                wanted[i].text);
    }
    qkv_free(found);
  }
}

// As the fingerprints of the pipelines, of which each storage has its own.
TEST(CModels, KeepWeightsInEveryStorage) {
  for (const auto& [number, storage] : {std::pair(QKV_STORE_BF16, WeightStorage::bf16),
                                        {QKV_STORE_INT8, WeightStorage::int8},
                                        {QKV_STORE_INT8_GROUPS, WeightStorage::int8_groups},
                                        {QKV_STORE_REDUCED, WeightStorage::reduced},
                                        {QKV_STORE_REDUCED_PAIRS, WeightStorage::reduced_pairs}}) {
    if (storage == WeightStorage::reduced_pairs && selected_target() != "avx512-bf16") continue;
    qkv_model* model = nullptr;
    ASSERT_EQ(qkv_open(golden_folder("rank").c_str(), QKV_RANK, number, &model), QKV_OK) << qkv_message();
    char* text = nullptr;
    ASSERT_EQ(qkv_fingerprint(model, &text), QKV_OK) << qkv_message();
    EXPECT_EQ(taken(text), fingerprint(Reranker::load(golden_folder("rank"), storage)));
    qkv_close(model);
  }
}

// With the bits of what they are widened to, which is what f32 keeps.
TEST(CModels, WriteWithTheBlocksOfAGgufFile) {
  const std::string file = golden_folder("gguf/blocks.gguf");
  std::vector<std::string> texts;
  for (const int storage : {QKV_STORE_F32, QKV_STORE_Q8, QKV_STORE_Q4}) {
    qkv_model* model = nullptr;
    ASSERT_EQ(qkv_open(file.c_str(), QKV_GENERATE, storage, &model), QKV_OK) << qkv_message();
    char *text = nullptr, *fingerprint_text = nullptr;
    qkv_generate_options options{};
    options.choice = QKV_GREEDY;
    options.max_new_tokens = 8;
    ASSERT_EQ(qkv_generate(model, "The cat", &options, &text), QKV_OK) << qkv_message();
    texts.push_back(taken(text));
    ASSERT_EQ(qkv_fingerprint(model, &fingerprint_text), QKV_OK) << qkv_message();
    const char* const word = storage == QKV_STORE_F32 ? "-f32-" : storage == QKV_STORE_Q8 ? "-q8-" : "-q4-";
    EXPECT_NE(taken(fingerprint_text).find(word), std::string::npos);
    qkv_close(model);
  }
  EXPECT_EQ(texts, std::vector(3, texts[0]));
}

TEST(CModels, HaveFingerprints) {
  std::vector<std::string> all;
  for (const auto& [name, task] : {std::pair("encoders/roberta", QKV_EMBED),
                                   {"rank", QKV_RANK},
                                   {"fill", QKV_FILL},
                                   {"translate/opus_text", QKV_TRANSLATE},
                                   {"language/gpt2", QKV_GENERATE},
                                   {"tags", QKV_TAG},
                                   {"answers", QKV_ANSWER}}) {
    const CModel model(name, task);
    char* text = nullptr;
    ASSERT_EQ(qkv_fingerprint(model.get(), &text), QKV_OK) << qkv_message();
    all.push_back(taken(text));
    if (task != QKV_FILL) {  // such a folder may be an embedder's, which comes first there
      EXPECT_EQ(all.back(), fingerprint_of_folder(golden_folder(name)));
    }
  }
  EXPECT_EQ(all[0], fingerprint(Embedder::load(golden_folder("encoders/roberta"))));
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::unique(all).begin(), all.end());
}

// All at once on the same models: the bits of calls one by one.
TEST(CModels, GiveAnyNumberOfThreadsTheSameBits) {
  const CModel embed("encoders/roberta", QKV_EMBED), rank("rank", QKV_RANK),
      translate("translate/opus_text", QKV_TRANSLATE), generate("language/gpt2", QKV_GENERATE);
  constexpr int kCalls = 6;
  const std::vector<std::string> texts{"The cat sat on the mat.", "A dog ran.", "where?"};
  const auto run = [&](int call) {
    const auto all = pointers(texts);
    const auto some = std::span(all).subspan(call % 2);
    const auto count = std::ssize(some);
    std::vector<float> numbers(300);
    EXPECT_EQ(qkv_embed(embed.get(), some.data(), count, nullptr, numbers.data(), 200), QKV_OK) << qkv_message();
    EXPECT_EQ(qkv_rank(rank.get(), texts[2].c_str(), some.data(), count, &numbers[200], nullptr), QKV_OK);
    char** translations = nullptr;
    EXPECT_EQ(qkv_translate(translate.get(), some.data(), count, 0, 8, &translations), QKV_OK) << qkv_message();
    std::string written = translations[0];
    qkv_free(translations);
    char* text = nullptr;
    qkv_generate_options options{};
    options.max_new_tokens = 6;
    EXPECT_EQ(qkv_generate(generate.get(), some[0], &options, &text), QKV_OK) << qkv_message();
    EXPECT_EQ(qkv_dim(nullptr, nullptr), QKV_INVALID);
    return std::pair(numbers, written + taken(text) + qkv_message());
  };
  const std::pair<std::vector<float>, std::string> wanted[]{run(0), run(1)};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int call = 0; call < kCalls; ++call) EXPECT_EQ(run(thread + call), wanted[(thread + call) % 2]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace qkv::test
