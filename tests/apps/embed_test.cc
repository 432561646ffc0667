// qkv embed: lines in, lines out, in order; the rest is the embedder's (pipelines/embedder_test.cc).
#include <cmath>
#include <iterator>
#include <numeric>

#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

template <class Number>
std::vector<Number> numbers_of(const std::string& line) {
  std::istringstream numbers(line);
  return {std::istream_iterator<Number>(numbers), {}};
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

// The numbers are those of pipelines/embedder_test.cc and models/encoder_kinds_test.cc.
TEST(Embed, OpensOtherKindsOfEncoders) {
  const TinyBert distilbert("encoders/distilbert");  // in several files
  for (const std::string model : {"@tests/golden/encoders/roberta", "@tests/golden/encoders/mpnet", "model"}) {
    const std::string text = distilbert.text("embed --model " + model, {.input = "a b\n"});
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 11) << text;
  }
}

TEST(Embed, WeightsInFewerBitsGiveNearlyTheSame) {
  const TinyBert model;
  const auto embedding = [&](const std::string& weights) {
    return numbers_of<double>(model.text("embed --model model --weights " + weights, {.input = "a b b a\n"}));
  };
  const std::vector<double> full = embedding("f32");
  ASSERT_EQ(full.size(), 12u);
  for (const auto& [weights, least] : {std::pair{"bf16", 0.9999}, {"int8", 0.995}}) {
    const std::vector<double> fewer = embedding(weights);
    ASSERT_EQ(fewer.size(), 12u);
    EXPECT_NE(fewer, full) << weights;
    const auto product = [](const std::vector<double>& a, const std::vector<double>& b) {
      return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    };
    EXPECT_GE(product(full, fewer) / std::sqrt(product(full, full) * product(fewer, fewer)), least) << weights;
  }
}

// A text that was cut off has the numbers of what is left of it, in JSON as in plain lines.
TEST(Embed, SaysWhatItCutsOffWithAnyWeights) {
  const TinyBert model;
  model.put("model/sentence_bert_config.json", R"({"max_seq_length": 3})");
  for (const std::string weights : {"f32", "bf16", "int8"}) {
    SCOPED_TRACE(weights);
    const std::string command = "embed --model model --weights " + weights, text = "a b a b b\na b a\nb\na a a b\n";
    const Outcome plain = model.run(command, {.input = text}), json = model.run(command + " --json", {.input = text});
    ASSERT_EQ(json.code, 0) << json.err;
    EXPECT_EQ(json.err, "qkv embed: 3 tokens of 2 texts are cut off; the model reads at most 3 of a text\n");
    EXPECT_EQ(plain.err, json.err);
    const Words lines = lines_of(json.out), numbers = lines_of(plain.out);
    ASSERT_EQ(lines.size(), 4u);
    ASSERT_EQ(numbers.size(), 4u);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const Json line = Json::parse(lines[i]);
      const std::vector<float> row = numbers_of<float>(numbers[i]);
      EXPECT_EQ(row.size(), 12u);
      EXPECT_EQ(line.at("embedding").get<std::vector<float>>(), row);
      EXPECT_EQ(line.value("cut", 0), i == 0 ? 2 : i == 3 ? 1 : 0);
      EXPECT_EQ(line.contains("cut"), i == 0 || i == 3);
    }
    EXPECT_EQ(numbers[0], numbers[1]);
    EXPECT_NE(numbers[1], numbers[2]);
  }
  EXPECT_EQ(model.run("embed --model model", {.input = "a b a b\n"}).err,
            "qkv embed: 1 tokens of 1 text are cut off; the model reads at most 3 of a text\n");
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
