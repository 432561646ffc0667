// Embeddings against transformers (golden/bert, made by make.py there), and what the files beside a model say.
#include "qkv/pipelines/embedder.h"

#include <sys/stat.h>
#include <unistd.h>

#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "pipelines/refusals.h"
#include "qkv/files.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

const std::string kGoldenBert = QKV_TEST_DATA "/golden/bert/";

std::vector<std::string> golden_sentences() { return lines_of(slurp(kGoldenBert + "sentences.txt")); }

// Sums of hundreds of products, six layers deep: what float32 leaves, an order below what would matter to a user.
constexpr double kTolerance = 2e-5;

void expect_parity(const Embedder& embedder, const std::vector<std::string>& texts, const std::string& expected_path) {
  const auto expected = read_safetensors(expected_path).tensors;
  EXPECT_LE(testing::difference(embedder.embed(texts), expected.at("embeddings")), kTolerance);
  // Hidden states of as many texts as the file has.
  const TensorView hidden = expected.at("hidden");
  for (std::int64_t row = 0, text = 0; row < hidden.size(0); ++text) {
    const Encoding encoding = embedder.tokenizer().encode(texts[static_cast<std::size_t>(text)], {.max_length = 256});
    const auto length = static_cast<std::int64_t>(encoding.ids.size());
    ASSERT_LE(row + length, hidden.size(0));
    const Tensor own =
        embedder.model().forward({encoding.ids, encoding.type_ids, offsets_of(std::vector<std::int64_t>{length})});
    EXPECT_LE(testing::difference(own, hidden.slice(0, row, row + length)), kTolerance) << "text " << text;
    row += length;
  }
}

// MiniLM, if it has been fetched.
class MiniLm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(minilm_folder() + "/model.safetensors")) {
      GTEST_SKIP() << "no " << minilm_folder() << ": run models/get-minilm";
    }
  }
};

TEST_F(MiniLm, AgreesWithTransformers) {
  expect_parity(Embedder::load(minilm_folder()), golden_sentences(), kGoldenBert + "minilm.safetensors");
}

// Each sentence twice, in another company the second time.
void expect_each_as_alone(const Embedder& embedder) {
  std::vector<std::string> texts = golden_sentences();
  const std::size_t count = texts.size();
  for (std::size_t i = count; i-- > 0;) texts.push_back(texts[i]);
  const Tensor all = embedder.embed(texts, {.threads = 1});
  for (const int threads : {2, 3}) EXPECT_TRUE(testing::same_bits(embedder.embed(texts, {.threads = threads}), all));
  for (std::size_t i = 0; i < count; ++i) {
    const Tensor alone = embedder.embed(std::span(texts).subspan(i, 1), {.threads = 1 + static_cast<int>(i % 2)});
    for (const std::size_t row : {i, 2 * count - 1 - i}) {
      const auto at = static_cast<std::int64_t>(row);
      EXPECT_TRUE(testing::same_bits(all.view().slice(0, at, at + 1), alone)) << texts[i];
    }
  }
}

bool has_reduced_pairs() { return selected_target() == "avx512-bf16"; }

TEST_F(MiniLm, EachEmbeddingIsAsAloneOnAnyNumberOfThreads) {
  for (const WeightStorage storage : {WeightStorage::full, WeightStorage::bf16, WeightStorage::int8_groups,
                                      WeightStorage::reduced, WeightStorage::reduced_pairs}) {
    if (storage == WeightStorage::reduced_pairs && !has_reduced_pairs()) continue;
    expect_each_as_alone(Embedder::load(minilm_folder(), storage));
  }
}

// Cosines of rows to those of `expected`, least first.
std::vector<double> cosines(const Tensor& embeddings, const Tensor& expected) {
  const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  std::vector<double> found;
  for (std::int64_t i = 0; i < embeddings.size(0); ++i) {
    const auto a = testing::values(embeddings.view().slice(0, i, i + 1)),
               b = testing::values(expected.view().slice(0, i, i + 1));
    found.push_back(product(a, b) / std::sqrt(product(a, a) * product(b, b)));
  }
  std::ranges::sort(found);
  return found;
}

// The first 1,000 phrases of the phrase book. What is asked for is what a search may lose: 0.995 and 0.999 of the
// cosine to f32 with int8, 0.9999 with bf16.
TEST_F(MiniLm, SlowFewerBitsStayNearOnAThousandTexts) {
  std::vector<std::string> texts = lines_of(slurp(QKV_TEST_DATA "/../data/phrases.es.tsv"));
  texts.resize(1000);
  for (std::string& text : texts) text.resize(text.find('\t'));
  const Tensor full = Embedder::load(minilm_folder()).embed(texts);
  const auto int8 = cosines(Embedder::load(minilm_folder(), WeightStorage::int8_groups).embed(texts), full);
  EXPECT_GE(int8.front(), 0.995);
  EXPECT_GE(std::reduce(int8.begin(), int8.end()) / 1000, 0.999);
  EXPECT_LT(int8.front(), 0.99999);  // else these are the same weights
  const auto bf16 = cosines(Embedder::load(minilm_folder(), WeightStorage::bf16).embed(texts), full);
  EXPECT_GE(bf16.front(), 0.9999);
  EXPECT_LT(bf16.front(), 0.9999999);
}

// Of both, beside transformers' embeddings of the golden sentences.
TEST_F(MiniLm, FewerBitsStayNear) {
  const auto texts = golden_sentences();
  const Tensor expected = read_safetensors(kGoldenBert + "minilm.safetensors").tensors.at("embeddings");
  const auto of = [&](WeightStorage storage) {
    return cosines(Embedder::load(minilm_folder(), storage).embed(texts), expected);
  };
  EXPECT_GE(of(WeightStorage::int8_groups).front(), 0.995);
  EXPECT_GE(of(WeightStorage::bf16).front(), 0.9999);
  EXPECT_GE(of(WeightStorage::reduced).front(), 0.9999);
  if (!has_reduced_pairs()) return;
  EXPECT_GE(of(WeightStorage::reduced_pairs).front(), 0.9999);
}

// Of no target alone: a search may embed its texts on one CPU and its questions on another.
TEST_F(MiniLm, ReducedEmbeddingsAreTheSameOnEveryTargetWithFusedMultiplyAdd) {
  const auto texts = golden_sentences();
  std::optional<Tensor> first;
  for (const Target& target : targets()) {
    if (!target.usable || !target.fused) continue;
    select_target(target.name);
    const Tensor own = Embedder::load(minilm_folder(), WeightStorage::reduced).embed(texts);
    if (!first) first = own;
    EXPECT_TRUE(testing::same_bits(own, *first)) << target.name;
  }
  select_target("");
}

TEST_F(MiniLm, SlowAgreesWithTransformersOnManyTexts) {
  const char* texts = std::getenv("QKV_EMBEDDER_TEXTS");
  const char* expected = std::getenv("QKV_EMBEDDER_EXPECTED");
  if (texts == nullptr || expected == nullptr) {
    GTEST_SKIP() << "QKV_EMBEDDER_TEXTS and QKV_EMBEDDER_EXPECTED name the files of tests/golden/bert/make.py";
  }
  expect_parity(Embedder::load(minilm_folder()), nlohmann::json::parse(slurp(texts)), expected);
}

void expect_rows(const Tensor& rows, const nlohmann::json& expected, double tolerance) {
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    for (std::int64_t e = 0; e < rows.size(1); ++e) {
      EXPECT_NEAR(rows.view().at<float>({i, e}), expected[i][e].get<double>(), tolerance) << "text " << i;
    }
  }
}

// From the text to the embedding: byte-level pairs or word pieces, <s> and </s>, a mask that takes the space before it,
// padding as a word.
TEST(Embedder, KindsOfEncodersAgreeWithTransformers) {
  for (const std::string kind : {"roberta", "mpnet", "xlm_roberta"}) {
    SCOPED_TRACE(kind);
    const std::string folder = QKV_TEST_DATA "/golden/encoders/" + kind;
    const auto expected = nlohmann::json::parse(slurp(folder + "_embed.json"));
    const Embedder embedder = Embedder::load(folder);
    const std::vector<std::string> texts = expected.at("texts");
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(nlohmann::json(embedder.tokenizer().encode(texts[i]).ids), expected.at("ids")[i]);
    }
    expect_rows(embedder.embed(texts), expected.at("embeddings"), 2e-6);  // both are float32
  }
}

// The tiny model with a tokenizer of one-letter words and what is put beside it.
struct ModelFolder : test::TemporaryFolder {
  ModelFolder() {
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy_file(kGoldenBert + "tiny/" + name, *this / name);
    }
    std::filesystem::create_directory(*this / "pool");
    std::filesystem::create_directory(*this / "norm");
    put("tokenizer.json", R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": null, "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordPiece", "unk_token": "?", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": {"?": 0, "a": 1, "b": 2, "c": 3}}})");
  }
  Embedder load() const { return Embedder::load(*this / ""); }
  std::vector<double> embed(const std::string& text) const {
    return testing::values(load().embed(std::span(&text, 1)));
  }
};

const std::string kModules = R"([{"path": "", "type": "x.Transformer"}, {"path": "pool", "type": "x.Pooling"})",
                  kNormalize = R"({"path": "norm", "type": "x.Normalize"})";

// As sentence-transformers opens a folder of an encoder alone, the embedding is the mean of the hidden states; else as
// it says, in both of its schemas. By hand from the hidden states of the tokens.
TEST(Embedder, PoolingIsTheMeanOrTheFirstToken) {
  const ModelFolder folder;
  const TokenBatch tokens{{1, 2, 0}, {0, 0, 0}, offsets_of(std::vector<std::int64_t>{3})};
  const std::vector<double> hidden = testing::values(folder.load().model().forward(tokens));
  const std::vector<double> first(hidden.begin(), hidden.begin() + 12);
  std::vector<double> mean(12);
  for (std::size_t i = 0; i < 36; ++i) mean[i % 12] += hidden[i] / 3;
  const auto expect = [&](const std::vector<double>& expected, const std::string& pooling) {
    folder.put("pool/config.json", pooling);
    const std::vector<std::string> texts{"b b", "a b d", ""};  // not the first of its batch
    const std::vector<double> rows = testing::values(folder.load().embed(texts));
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_NEAR(rows[12 + i], expected[i], 1e-6) << pooling;
      EXPECT_EQ(rows[24 + i], 0) << pooling;  // without a token there is nothing to take the mean of
    }
  };
  const std::string dim = R"({"word_embedding_dimension": 12, "pooling_mode_)", in_6 = R"({"embedding_dimension": 12)";
  expect(mean, "");
  folder.put("modules.json", kModules + "]");
  expect(first, dim + R"(cls_token": true, "pooling_mode_mean_tokens": false, "include_prompt": false})");
  expect(mean, dim + R"(cls_token": false, "pooling_mode_mean_tokens": true})");
  expect(mean, dim + R"(max_tokens": false})");  // none: sentence-transformers'
  expect(first, in_6 + R"(, "pooling_mode": "cls", "include_prompt": true})");
  expect(first, in_6 + R"(, "pooling_mode": ["cls"], "pooling_mode_mean_tokens": true})");
  expect(mean, in_6 + R"(, "pooling_mode": "mean"})");
  expect(mean, in_6 + "}");
  const auto length = [&] {
    const std::vector<double> row = folder.embed("a b");
    return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
  };
  EXPECT_GT(std::abs(length() - 1), 0.1);
  folder.put("modules.json", kModules + ", " + kNormalize + "]");
  EXPECT_NEAR(length(), 1, 1e-6);
}

// Both ways of pooling in both schemas, with and without the tokens of prompts, and a longest text
// (golden/bert/sentence_transformers.py).
TEST(Embedder, AgreesWithSentenceTransformers) {
  const auto golden = nlohmann::json::parse(slurp(kGoldenBert + "sentence_transformers.json"));
  const ModelFolder folder;
  for (const auto& [name, content] : golden.at("files").items()) folder.put(name, content.dump());
  for (const auto& one : golden.at("cases")) {
    folder.put("pool/config.json", one.at("pooling").dump());
    EmbedOptions options;
    if (!one.at("prompt").is_null()) options.prompt = one.at("prompt").get<std::string>();
    SCOPED_TRACE(one.at("name").get<std::string>() + ", prompt " + one.at("prompt").dump());
    const auto texts = golden.at("texts").get<std::vector<std::string>>();
    expect_rows(folder.load().embed(texts, options), one.at("embeddings"), 1e-5);
  }
}

TEST(Embedder, ThePromptStandsBeforeEachText) {
  const ModelFolder folder;
  const auto prompted = folder.embed("a c b"), bare = folder.embed("b");
  const auto with = [&](const std::string& config) {
    folder.put("config_sentence_transformers.json", config);
    return folder.embed("b");
  };
  EXPECT_EQ(with(R"({"prompts": {"x": "b", "query": "a c "}, "default_prompt_name": "query"})"), prompted);
  EXPECT_EQ(with(R"({"prompts": {"query": "a c "}, "default_prompt_name": null})"), bare);
  EXPECT_EQ(with(R"({"prompts": {"query": "a c "}})"), bare);
}

TEST(Embedder, CountsTheTokensThatItCutsOff) {
  const ModelFolder folder;
  folder.put("sentence_bert_config.json", R"({"max_seq_length": 3, "do_lower_case": false})");
  const std::vector<std::string> texts{"a b c", "", "a b c a b", "c a b c"};
  std::vector<std::int64_t> cut(texts.size(), -1);
  const Tensor counted = folder.load().embed(texts, {.cut = cut});
  EXPECT_EQ(cut, (std::vector<std::int64_t>{0, 0, 2, 1}));
  EXPECT_TRUE(testing::same_bits(counted, folder.load().embed(texts)));
  EXPECT_EQ(folder.embed("a b c a b"), folder.embed("a b c"));
  EXPECT_NE(folder.embed("a b c"), folder.embed("a b"));
  const Tensor shorter = folder.load().embed(texts, {.max_length = 2, .cut = cut});
  EXPECT_EQ(cut, (std::vector<std::int64_t>{1, 0, 3, 2}));
  const std::vector<std::string> firsts{"a b", "", "a b", "c a"};
  EXPECT_TRUE(testing::same_bits(shorter, folder.load().embed(firsts)));
  const Tensor longer = folder.load().embed(texts, {.max_length = 5, .cut = cut});
  EXPECT_EQ(cut, (std::vector<std::int64_t>{0, 0, 0, 0}));
  const auto positions = static_cast<std::size_t>(folder.load().model().config().positions);
  EXPECT_NO_THROW(folder.load().embed(texts, {.max_length = positions}));
  EXPECT_THROW(folder.load().embed(texts, {.max_length = positions + 1}), std::invalid_argument);
  cut.pop_back();
  EXPECT_THROW(folder.load().embed(texts, {.cut = cut}), std::invalid_argument);
}

// sentence-transformers 6 keeps the longest text in tokenizer_config.json; its own file, where it says one, decides.
TEST(Embedder, TheLongestTextMayBeThatOfTheTokenizersConfig) {
  const ModelFolder folder;
  const auto length = [&] { return folder.load().max_length(); };
  const std::size_t positions = length();
  folder.put("sentence_bert_config.json", R"({"transformer_task": "feature-extraction"})");
  folder.put("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(length(), positions);
  folder.put("tokenizer_config.json", R"({"model_max_length": 4})");
  EXPECT_EQ(length(), 4u);
  folder.put("sentence_bert_config.json", R"({"max_seq_length": 5, "do_lower_case": false})");
  EXPECT_EQ(length(), 5u);
}

TEST(Embedder, RefusesFilesBesideTheModel) {
  const ModelFolder folder;
  folder.put("modules.json", kModules + ", " + kNormalize + "]");
  folder.put("pool/config.json", R"({"embedding_dimension": 12, "pooling_mode": "mean", "include_prompt": true})");
  folder.put("config_sentence_transformers.json", R"({"prompts": {"query": "a "}, "default_prompt_name": "query"})");
  folder.put("sentence_bert_config.json", R"({"max_seq_length": 3})");
  test::expect_refusals(folder, "embedder", [&] { folder.load(); });
}

// What is there, but is no file to read; optional ones are no less wrong.
TEST(Embedder, RefusesWhatIsNoFile) {
  const std::pair<const char*, std::function<void(const char*)>> cases[] = {
      {"not a regular file", [](const char* path) { std::filesystem::create_directory(path); }},
      {"not a regular file", [](const char* path) { ASSERT_EQ(mkfifo(path, 0600), 0); }},
      {"Too many levels of symbolic links", [](const char* path) { ASSERT_EQ(symlink(path, path), 0); }},
      {"No such file or directory", [](const char* path) { ASSERT_EQ(symlink("nowhere", path), 0); }}};
  for (const std::string name :
       {"config.json", "model.safetensors", "tokenizer.json", "modules.json", "sentence_bert_config.json",
        "tokenizer_config.json", "config_sentence_transformers.json"}) {
    for (const auto& [message, put] : cases) {
      const ModelFolder folder;
      std::filesystem::remove(folder / name);
      put((folder / name).c_str());
      const std::string refused = test::message_of<IoError>([&] { folder.load(); });
      EXPECT_TRUE(refused.ends_with(name + ": cannot read: " + message)) << refused;
    }
  }
}

}  // namespace
}  // namespace qkv
