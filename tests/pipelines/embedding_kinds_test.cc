// Sparse embeddings, vectors of tokens and vectors that are cut short beside sentence-transformers (golden/embeddings,
// made by make.py there).
#include "attention/attention_testing.h"
#include "io/files_for_test.h"
#include "pipelines/refusals.h"
#include "qkv/files.h"
#include "qkv/pipelines/embedder.h"
#include "qkv/pipelines/fingerprint.h"
#include "train/watcher.h"

namespace qkv {
namespace {

using nlohmann::json;

const std::string kGolden = QKV_TEST_DATA "/golden/embeddings/";

json golden_kinds() { return json::parse(test::slurp(kGolden + "expected.json")); }

// A folder of the golden file.
struct KindFolder : test::TemporaryFolder {
  explicit KindFolder(const std::string& name) {
    for (const char* file : {"config.json", "tokenizer.json"}) {
      std::filesystem::copy_file(kGolden + "../fill/" + file, *this / file);
    }
    std::filesystem::copy_file(kGolden + "model.safetensors", *this / "model.safetensors");
    const json golden = golden_kinds();
    for (const json& one : golden.at("cases")) {
      if (one.at("name") != name) continue;
      for (const auto& [file, content] : one.at("files").items()) put_below(file, content.dump());
      if (!one.at("files").contains("dense/config.json")) return;
      auto projection = read_safetensors(kGolden + "projection.safetensors");
      if (!one.at("files").at("dense/config.json").at("bias").get<bool>()) projection.tensors.erase("linear.bias");
      write_safetensors(*this / "dense/model.safetensors", projection);
      return;
    }
    ADD_FAILURE() << "no case " << name;
  }
  void put_below(const std::string& file, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(*this / file).parent_path());
    put(file, content);
  }
  Embedder load() const { return Embedder::load(*this / ""); }
};

EmbedOptions options_of(const json& call, const Embedder& embedder) {
  EmbedOptions options;
  if (!call.at("prompt").is_null()) {
    const std::string name = call.at("prompt");
    options.prompt = name.empty() ? "" : embedder.prompts().at(name);
  }
  for (const auto& [name, role] : kTextRoles) {
    if (name == call.at("role").get<std::string>()) options.role = role;
  }
  // Its encode_query and encode_document have a prompt of that name unless another is given.
  if (!options.prompt && options.role != TextRole::text) {
    options.prompt = embedder.prompts().at(call.at("role").get<std::string>());
  }
  options.dimensions = call.value("dimensions", json()).is_null() ? 0 : call.at("dimensions").get<std::size_t>();
  if (call.contains("normalize")) options.normalize = call.at("normalize").get<bool>();
  return options;
}

// Both are float32: sums of dozens of products, and logarithms.
constexpr double kNear = 1e-5;

void expect_numbers(const TensorView& found, const json& expected) {
  ASSERT_EQ(found.size(0), std::ssize(expected));
  for (std::int64_t i = 0; i < found.size(0); ++i) {
    const json& row = expected[static_cast<std::size_t>(i)];
    ASSERT_EQ(found.size(1), std::ssize(row));
    for (std::int64_t e = 0; e < found.size(1); ++e) {
      EXPECT_NEAR((found.at<float>({i, e})), row[static_cast<std::size_t>(e)].get<double>(), kNear) << i << ", " << e;
    }
  }
}

// With its zeros.
std::vector<float> whole(const SparseEmbedding& sparse, std::int64_t dim) {
  std::vector<float> row(static_cast<std::size_t>(dim));
  for (std::size_t i = 0; i < sparse.words.size(); ++i) {
    EXPECT_TRUE(i == 0 || sparse.words[i] > sparse.words[i - 1]);
    EXPECT_NE(sparse.weights[i], 0);
    row[static_cast<std::size_t>(sparse.words[i])] = sparse.weights[i];
  }
  return row;
}

std::vector<double> all_values(const std::vector<Tensor>& tensors) {
  std::vector<double> all;
  for (const Tensor& each : tensors) {
    const auto values = testing::values(each);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(EmbeddingKinds, AgreeWithSentenceTransformers) {
  const json golden = golden_kinds();
  const std::vector<std::string> texts = golden.at("texts");
  for (const json& one : golden.at("cases")) {
    const KindFolder folder(one.at("name"));
    const Embedder embedder = folder.load();
    std::set<std::string> fingerprints;
    std::set<std::vector<double>> results;
    for (const json& call : one.at("calls")) {
      SCOPED_TRACE(one.at("name").dump() + call.at("role").dump() + call.at("prompt").dump());
      const EmbedOptions options = options_of(call, embedder);
      fingerprints.insert(fingerprint(embedder, {.embedding = options}));
      if (embedder.kind() == EmbeddingKind::tokens) {
        const std::vector<Tensor> found = embedder.embed_tokens(texts, options);
        for (std::size_t i = 0; i < texts.size(); ++i) expect_numbers(found[i], call.at("rows")[i]);
        results.insert(all_values(found));
        continue;
      }
      const Tensor found = embedder.embed(texts, options);
      expect_numbers(found, call.at("rows"));
      results.insert(testing::values(found));
      if (embedder.kind() == EmbeddingKind::vector) continue;
      const auto sparse = embedder.embed_sparse(texts, options);
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        const auto row = found.view().slice(0, at, at + 1);
        const std::vector<float> own = whole(sparse[i], embedder.dim());
        EXPECT_TRUE(std::equal(own.begin(), own.end(), row.data<float>()));
      }
    }
    // What gives other numbers has another fingerprint.
    EXPECT_GE(fingerprints.size(), results.size()) << one.at("name");
    EXPECT_LE(fingerprints.size(), one.at("calls").size());
    if (!one.contains("maxsim")) continue;
    EmbedOptions query{.prompt = embedder.prompts().at("query"), .role = TextRole::query},
        document{.prompt = embedder.prompts().at("document"), .role = TextRole::document};
    const Tensor scores = maxsim(embedder.embed_tokens(texts, query), embedder.embed_tokens(texts, document), 2);
    for (std::int64_t i = 0; i < 4; ++i) {
      for (std::int64_t j = 0; j < 4; ++j) {
        const json& score = one.at("maxsim")[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
        EXPECT_NEAR((scores.view().at<float>({i, j})), score.get<double>(), 1e-4) << one.at("name");  // sums of 16
      }
    }
  }
}

// Folders that differ in one thing give other numbers, so that the agreement above says something of it.
TEST(EmbeddingKinds, EachPartChangesTheNumbers) {
  const auto texts = golden_kinds().at("texts").get<std::vector<std::string>>();
  std::set<std::vector<double>> seen;
  std::size_t folders = 0;
  for (const char* name : {"tokens", "tokens, projected", "tokens, with a bias", "tokens, lengths", "tokens, attended",
                           "tokens, not attended", "tokens, at least"}) {
    const auto rows = KindFolder(name).load().embed_tokens(texts, {.role = TextRole::query});
    seen.insert(all_values(rows));
    ++folders;
  }
  EXPECT_EQ(seen.size(), folders);
}

// An embedding does not depend on the others, nor on the threads.
TEST(EmbeddingKinds, EachIsAsAloneOnAnyNumberOfThreads) {
  auto texts = golden_kinds().at("texts").get<std::vector<std::string>>();
  for (std::size_t i = 0; i < 100; ++i) texts.push_back(texts[i % 4]);
  const Embedder sparse = KindFolder("sparse").load(), tokens = KindFolder("tokens, not attended").load();
  const auto words = sparse.embed_sparse(texts, {.threads = 3});
  const auto rows = tokens.embed_tokens(texts, {.role = TextRole::query, .threads = 3});
  for (std::size_t i = 0; i < 4; ++i) {
    const auto alone = sparse.embed_sparse(std::span(texts).subspan(i, 1), {.threads = 1});
    const auto row = tokens.embed_tokens(std::span(texts).subspan(i, 1), {.role = TextRole::query, .threads = 1});
    for (std::size_t j = i; j < texts.size(); j += 4) {
      EXPECT_EQ(words[j].words, alone[0].words);
      EXPECT_EQ(words[j].weights, alone[0].weights);
      EXPECT_TRUE(testing::same_bits(rows[j], row[0]));
    }
  }
}

// A vector that is cut short has length 1 again where the folder says so.
TEST(EmbeddingKinds, AShorterVectorHasTheFoldersLength) {
  const auto texts = golden_kinds().at("texts").get<std::vector<std::string>>();
  const auto length = [&](const char* folder) {
    const auto row = testing::values(KindFolder(folder).load().embed(std::span(texts).first(1), {.dimensions = 3}));
    EXPECT_EQ(row.size(), 3u);
    return std::sqrt(row[0] * row[0] + row[1] * row[1] + row[2] * row[2]);
  };
  EXPECT_NEAR(length("vector"), 1, 1e-6);
  EXPECT_GT(std::abs(length("vector, not of length 1") - 1), 0.01);
}

// By hand: products 1 and 3, then 2 and 0; the largest of each token of the query are 3 and 2.
TEST(MaxSim, SumsTheLargestProductOfEachTokenOfTheQuery) {
  const std::vector<Tensor> queries{Tensor::of({2, 2}, std::vector<float>{1, 0, 0, 1}), Tensor::zeros({0, 2})},
      documents{Tensor::of({2, 2}, std::vector<float>{1, 2, 3, 0}), Tensor::zeros({0, 2})};
  const Tensor scores = maxsim(queries, documents);
  const double none = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(testing::values(scores), (std::vector<double>{5, none, 0, 0}));
  const std::vector<Tensor> other{Tensor::zeros({1, 3})};
  EXPECT_THROW(maxsim(queries, other), std::invalid_argument);
}

TEST(EmbeddingKinds, RefuseTheOthersCalls) {
  const std::vector<std::string> texts{"who"};
  const Embedder sparse = KindFolder("sparse").load(), tokens = KindFolder("tokens").load(),
                 vector = KindFolder("vector").load();
  EXPECT_THROW(tokens.embed(texts), std::invalid_argument);
  EXPECT_THROW(vector.embed_sparse(texts), std::invalid_argument);
  EXPECT_THROW(tokens.embed_sparse(texts), std::invalid_argument);
  EXPECT_THROW(sparse.embed_tokens(texts), std::invalid_argument);
  EXPECT_THROW(tokens.embed_tokens(texts, {.dimensions = 2}), std::invalid_argument);
  EXPECT_THROW(sparse.embed(texts, {.normalize = true}), std::invalid_argument);
  EXPECT_EQ(vector.embed_tokens(texts)[0].size(1), 12);
}

// A folder of ColBERT's own class, which has its projection beside the encoder.
struct ColbertFolder : test::TemporaryFolder {
  explicit ColbertFolder(const json& metadata) {
    json config = json::parse(test::slurp(kGolden + "../fill/config.json"));
    config["architectures"] = {"HF_ColBERT"};
    put("config.json", config.dump());
    std::filesystem::copy_file(kGolden + "../fill/tokenizer.json", *this / "tokenizer.json");
    SafeTensors weights = read_safetensors(kGolden + "model.safetensors");
    std::erase_if(weights.tensors, [](const auto& each) { return each.first.starts_with("cls."); });
    weights.tensors["linear.weight"] = read_safetensors(kGolden + "projection.safetensors").tensors.at("linear.weight");
    write_safetensors(*this / "model.safetensors", weights);
    put("artifact.metadata", metadata.dump());
  }
  Embedder load() const { return Embedder::load(*this / ""); }
};

// golden/embeddings/colbert.py.
TEST(EmbeddingKinds, ColbertsOwnFoldersAreReadAsItDoes) {
  const json golden = json::parse(test::slurp(kGolden + "colbert.json"));
  const std::vector<std::string> texts = golden.at("texts");
  std::set<std::string> fingerprints;
  for (const json& one : golden.at("cases")) {
    const Embedder embedder = ColbertFolder(one.at("metadata")).load();
    for (const auto& [name, role] : kTextRoles) {
      SCOPED_TRACE(name);
      const auto found = embedder.embed_tokens(texts, {.role = role});
      const json& expected = one.at(role == TextRole::query ? "query" : "document");
      for (std::size_t i = 0; i < texts.size(); ++i) expect_numbers(found[i], expected[i]);
      fingerprints.insert(fingerprint(embedder, {.embedding = {.role = role}}));
    }
  }
  EXPECT_EQ(fingerprints.size(), 4u);
}

TEST(EmbeddingKinds, RefuseWhatColbertsFoldersDoNotSay) {
  const json metadata = json::parse(test::slurp(kGolden + "colbert.json")).at("cases")[0].at("metadata");
  const ColbertFolder folder(metadata);
  test::expect_refusals(folder, "colbert", [&] { folder.load(); });
  json config = json::parse(test::slurp(folder / "config.json"));
  config["architectures"] = {"XLMRobertaColBERT"};
  folder.put("config.json", config.dump());
  test::expect_contains(test::message_of<FormatError>([&] { folder.load(); }),
                        "config.json: architectures[0] is \"XLMRobertaColBERT\", must be \"HF_ColBERT\"");
  config["architectures"] = {"HF_ColBERT"};
  folder.put("config.json", config.dump());
  SafeTensors weights = read_safetensors(folder / "model.safetensors");
  weights.tensors["linear.bias"] = Tensor::zeros({5});
  write_safetensors(folder / "model.safetensors", weights);
  test::expect_contains(test::message_of<FormatError>([&] { folder.load(); }), "linear.bias");
}

TEST(EmbeddingKinds, RefuseFilesBesideTheModel) {
  for (const auto& [name, kind] : {std::pair("sparse", "sparse"), std::pair("tokens, attended", "tokens")}) {
    const KindFolder folder(name);
    test::expect_refusals(folder, kind, [&] { folder.load(); });
  }
}

}  // namespace
}  // namespace qkv
