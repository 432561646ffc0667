// qkv embed: lines in, lines out, in order; the rest is the embedder's (pipelines/embedder_test.cc).
#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

std::vector<float> numbers_of(const std::string& line) {
  std::istringstream numbers(line);
  return {std::istream_iterator<float>(numbers), {}};
}

TEST(Embed, OneLineForEachInOrder) {
  const TinyBert model;
  // More lines than pass through the model together; the last one has no end, one has that of another system.
  std::string text = "a b\r\n";
  for (int i = 0; i < 3000; ++i) text += i % 2 == 0 ? "b a a\n" : "a b\n";
  const Words lines = lines_of(model.text("embed --model model", {.input = text + "\na"}));
  ASSERT_EQ(lines.size(), 3003u);
  for (std::size_t i = 1; i < 3001; ++i) EXPECT_EQ(lines[i] == lines[0], i % 2 == 0);
  EXPECT_EQ(lines[3001], "0 0 0 0 0 0 0 0 0 0 0 0");
  EXPECT_EQ(model.text("embed --model model"), "");
}

// A text that was cut off has the numbers of what is left of it, in JSON as in plain lines. With weights in fewer bits
// they are nearly the same.
TEST(Embed, SaysWhatItCutsOffWithAnyWeights) {
  const TinyBert model;
  model.put("model/sentence_bert_config.json", R"({"max_seq_length": 3})");
  std::vector<float> full;
  for (const auto& [option, least] : {std::pair("--weights f32", 1.0),
                                      {"--weights bf16", 0.9999},
                                      {"--precision reduced", 0.9999},
                                      {"--weights int8_groups", 0.995},
                                      {"--weights int8", 0.96}}) {
    SCOPED_TRACE(option);
    const std::string command = std::string("embed --model model ") + option;
    const Surroundings around{.input = "a b a b b\na b a\nb\na a a b\n"};
    const Outcome plain = model.run(command, around), json = model.run(command + " --json", around);
    EXPECT_EQ(json.err, "qkv embed: 3 tokens of 2 texts are cut off; the model reads at most 3 of a text\n");
    EXPECT_EQ(plain.err, json.err);
    const Words lines = lines_of(json.out), numbers = lines_of(plain.out);
    ASSERT_TRUE(lines.size() == 4 && numbers.size() == 4) << json << plain;
    for (std::size_t i = 0; i < 4; ++i) {
      const Json line = Json::parse(lines[i]);
      EXPECT_EQ(line.at("embedding").get<std::vector<float>>(), numbers_of(numbers[i]));
      EXPECT_EQ(line.value("cut", 0), i == 0 ? 2 : i == 3 ? 1 : 0);
      EXPECT_EQ(line.contains("cut"), i == 0 || i == 3);
    }
    EXPECT_EQ(numbers[0], numbers[1]);
    EXPECT_NE(numbers[1], numbers[2]);
    const std::vector<float> row = numbers_of(numbers[1]);
    ASSERT_EQ(row.size(), 12u);
    EXPECT_NE(row, full);
    if (full.empty()) full = row;
    const auto product = [](const std::vector<float>& a, const std::vector<float>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    EXPECT_GE(product(full, row) / std::sqrt(product(full, full) * product(row, row)), least - 1e-9);
  }
  EXPECT_EQ(model.run("embed --model model", {.input = "a b a b\n"}).err,
            "qkv embed: 1 token of 1 text is cut off; the model reads at most 3 of a text\n");
}

// A prompt by its name in the folder, or itself; what is left of a vector has length 1 where the folder says so, and a
// fingerprint of its own.
TEST(Embed, TakesAPromptAndFewerDimensions) {
  const TinyBert model;
  model.put("model/config_sentence_transformers.json",
            R"({"prompts": {"query": "b a "}, "default_prompt_name": null})");
  const auto line = [&](const std::string& options, const std::string& text) {
    return Json::parse(model.text("embed --model model --json " + options, {.input = text + "\n"}));
  };
  const Json plain = line("", "a b"), prompted = line("--prompt query", "a b"), given = line("--prompt 'b a '", "a b"),
             cut = line("--dimensions 5", "a b");
  EXPECT_EQ(prompted, given);
  EXPECT_EQ(prompted.at("embedding"), line("", "b a a b").at("embedding"));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(cut.at("embedding")[i], plain.at("embedding")[i]);
  EXPECT_EQ(cut.at("embedding").size(), 5u);
  EXPECT_EQ(line("--dimensions 12", "a b"), plain);
  const Outcome more = model.run("embed --model model --dimensions 13", {.input = "a b\n"});
  EXPECT_EQ(more.code, 2);
  EXPECT_EQ(more.err,
            "qkv embed: --dimensions: is 13; an embedding of this model has 12 numbers (see qkv embed --help)\n");
  EXPECT_EQ(std::set<std::string>({plain.at("fingerprint"), prompted.at("fingerprint"), cut.at("fingerprint")}).size(),
            3u);
}

// Sparse embeddings and vectors of tokens, as lines and as JSON, have the same numbers.
TEST(Embed, WritesEachKindOfEmbedding) {
  const TinyBert model("embeddings");
  std::filesystem::copy_file(QKV_TEST_DATA "/golden/fill/config.json", model / "model/config.json");
  std::filesystem::create_directory(model / "model/pool");
  model.put("model/pool/config.json", "{}");
  const auto with = [&](const std::string& behind) {
    model.put("model/modules.json",
              R"([{"path": "", "type": "x.Transformer"}, {"path": "pool", "type": "x.)" + behind + R"("}])");
    const Surroundings around{.input = "a b a\nb\n"};
    return std::pair(lines_of(model.text("embed --model model", around)),
                     lines_of(model.text("embed --model model --json", around)));
  };
  const auto [sparse, sparse_json] = with("SpladePooling");
  for (std::size_t i = 0; i < 2; ++i) {
    const Json embedding = Json::parse(sparse_json.at(i)).at("embedding");
    std::string expected;
    for (std::size_t w = 0; w < embedding.at("indices").size(); ++w) {
      expected += (w == 0 ? "" : " ") + embedding.at("indices")[w].dump() + ":";
      const std::size_t end = sparse.at(i).find(' ', expected.size());
      EXPECT_EQ(std::stof(sparse.at(i).substr(expected.size(), end - expected.size())),
                embedding.at("values")[w].get<float>());
      expected = sparse.at(i).substr(0, end);
    }
    EXPECT_EQ(sparse.at(i), expected);
  }
  const auto [tokens, tokens_json] = with("MultiVectorMask");
  for (std::size_t i = 0; i < 2; ++i) {
    const Json embedding = Json::parse(tokens_json.at(i)).at("embedding");
    std::istringstream rows(tokens.at(i));
    std::size_t count = 0;
    for (std::string row; std::getline(rows, row, '\t'); ++count) {
      EXPECT_EQ(embedding.at(count).get<std::vector<float>>(), numbers_of(row));
    }
    EXPECT_EQ(count, i == 0 ? 3u : 1u);
    EXPECT_EQ(embedding.size(), count);
  }
  EXPECT_EQ(model.run("embed --model model --dimensions 3", {.input = "a\n"}).err,
            "qkv embed: --dimensions does not apply to a model with one vector per token (see qkv embed --help)\n");
}

// JSON has no word for NaN.
TEST(Embed, NumbersOfABrokenModelAreValidJson) {
  const TinyBert model;
  std::string bytes = slurp(model / "model/model.safetensors");
  std::size_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | static_cast<unsigned char>(bytes[i]);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(8 + header), bytes.end(), '\xff');  // every weight is NaN
  model.put("model/model.safetensors", bytes);
  const Json embedding = Json::parse(model.text("embed --model model --json", {.input = "a b\n"})).at("embedding");
  EXPECT_EQ(embedding, Json(Words(12, "nan")));
}

}  // namespace
}  // namespace qkv::test
