// qkv embed: lines in, lines out, in order; the rest is the embedder's (pipelines/embedder_test.cc).
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/tiny_bert.h"

namespace qkv::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Embed, OneLineForEachInOrder) {
  const TinyBert model;
  // More lines than pass through the model together; the last one has no end, one has that of another system.
  std::string text = "a b\r\n";
  for (int i = 0; i < 3000; ++i) text += i % 2 == 0 ? "b a a\n" : "a b\n";
  std::ofstream(model / "in") << text + "\na";
  const Outcome plain = run_program({"embed", "--model", model / ""}, {.input = model / "in"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  const auto lines = lines_of(plain.out);
  ASSERT_EQ(lines.size(), 3003u);
  for (std::size_t i = 1; i < 3001; ++i) EXPECT_EQ(lines[i] == lines[0], i % 2 == 0);
  EXPECT_EQ(lines[3001], "0 0 0 0 0 0 0 0 0 0 0 0");

  const Outcome json = run_program({"embed", "--model", model / "", "--json"}, {.input = model / "in"});
  ASSERT_EQ(json.code, 0) << json.err;
  std::istringstream numbers(lines[3002]);
  const auto last = nlohmann::json::parse(lines_of(json.out).at(3002));
  ASSERT_EQ(last.at("embedding").size(), 12u);
  for (const float value : last.at("embedding")) {
    float same = 0;
    numbers >> same;
    EXPECT_EQ(value, same);
  }
}

TEST(Embed, NoInputGivesNoOutput) {
  const TinyBert model;
  const Outcome outcome = run_program({"embed", "--model", model / ""}, {.input = "/dev/null"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
}

TEST(Embed, SaysWhatItCutsOff) {
  const TinyBert model;
  std::ofstream(model / "sentence_bert_config.json") << R"({"max_seq_length": 3})";
  std::ofstream(model / "in") << "a b a b b\na\na b a b\n";
  const Outcome plain = run_program({"embed", "--model", model / ""}, {.input = model / "in"});
  EXPECT_EQ(plain.code, 0);
  EXPECT_EQ(plain.err, "qkv embed: 3 tokens of 2 texts are cut off; the model reads at most 3 of a text\n");
  const Outcome json = run_program({"embed", "--model", model / "", "--json"}, {.input = model / "in"});
  EXPECT_EQ(json.err, plain.err);
  const auto lines = lines_of(json.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(nlohmann::json::parse(lines[0]).at("cut"), 2);
  EXPECT_FALSE(nlohmann::json::parse(lines[1]).contains("cut"));
  EXPECT_EQ(nlohmann::json::parse(lines[2]).at("cut"), 1);
  std::ofstream(model / "in") << "a b\n";
  EXPECT_EQ(run_program({"embed", "--model", model / ""}, {.input = model / "in"}).err, "");
}

// The numbers are those of pipelines/embedder_test.cc and models/encoder_kinds_test.cc.
TEST(Embed, OpensOtherKindsOfEncoders) {
  const std::string folder = QKV_TEST_DATA "/golden/encoders/";
  const TinyBert distilbert("encoders/distilbert");  // in several files
  std::ofstream(distilbert / "in") << "a b\n";
  for (const std::string& model : {folder + "roberta", folder + "mpnet", distilbert / ""}) {
    const Outcome outcome = run_program({"embed", "--model", model}, {.input = distilbert / "in"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), ' '), 11) << outcome.out;
  }
}

TEST(Embed, WeightsInFewerBitsGiveNearlyTheSame) {
  const TinyBert model;
  std::ofstream(model / "in") << "a b b a\n";
  const auto embedding = [&](const char* weights) {
    const Outcome outcome =
        run_program({"embed", "--model", model / "", "--weights", weights}, {.input = model / "in"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::istringstream numbers(outcome.out);
    return std::vector<double>(std::istream_iterator<double>(numbers), {});
  };
  const std::vector<double> full = embedding("f32");
  ASSERT_EQ(full.size(), 12u);
  for (const auto& [weights, least] : {std::pair{"bf16", 0.9999}, {"int8", 0.995}}) {
    const std::vector<double> fewer = embedding(weights);
    ASSERT_EQ(fewer.size(), 12u);
    EXPECT_NE(fewer, full) << weights;
    const double product = std::inner_product(full.begin(), full.end(), fewer.begin(), 0.0);
    const double own = std::inner_product(full.begin(), full.end(), full.begin(), 0.0);
    const double other = std::inner_product(fewer.begin(), fewer.end(), fewer.begin(), 0.0);
    EXPECT_GE(product / std::sqrt(own * other), least) << weights;
  }
}

// A text that was cut off has the numbers of what is left of it, in JSON as in plain lines.
TEST(Embed, WeightsInFewerBitsInJsonOfTextsThatAreCut) {
  const TinyBert model;
  std::ofstream(model / "sentence_bert_config.json") << R"({"max_seq_length": 3})";
  std::ofstream(model / "in") << "a b a b b\na b a\nb\n";
  std::vector<std::string> of_weights;
  for (const char* weights : {"f32", "bf16", "int8"}) {
    SCOPED_TRACE(weights);
    std::vector<std::string> command = {"embed", "--model", model / "", "--weights", weights};
    const Outcome plain = run_program(command, {.input = model / "in"});
    command.emplace_back("--json");
    const Outcome json = run_program(command, {.input = model / "in"});
    ASSERT_EQ(json.code, 0) << json.err;
    EXPECT_EQ(json.err, "qkv embed: 2 tokens of 1 text are cut off; the model reads at most 3 of a text\n");
    EXPECT_EQ(plain.err, json.err);
    const auto lines = lines_of(json.out), numbers = lines_of(plain.out);
    ASSERT_EQ(lines.size(), 3u);
    ASSERT_EQ(numbers.size(), 3u);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const auto line = nlohmann::json::parse(lines[i]);
      std::istringstream text(numbers[i]);
      const std::vector<float> row(std::istream_iterator<float>(text), {});
      EXPECT_EQ(row.size(), 12u);
      EXPECT_EQ(line.at("embedding").get<std::vector<float>>(), row);
      EXPECT_EQ(line.value("cut", 0), i == 0 ? 2 : 0);
    }
    EXPECT_EQ(numbers[0], numbers[1]);
    EXPECT_NE(numbers[1], numbers[2]);
    of_weights.push_back(numbers[0]);
  }
  EXPECT_NE(of_weights[0], of_weights[1]);
  EXPECT_NE(of_weights[0], of_weights[2]);
}

// JSON has no word for NaN.
TEST(Embed, NumbersOfABrokenModelAreValidJson) {
  const TinyBert model;
  std::string bytes = contents(model / "model.safetensors");
  std::size_t header = 0;
  for (std::size_t i = 8; i-- > 0;) header = header << 8 | static_cast<unsigned char>(bytes[i]);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(8 + header), bytes.end(), '\xff');  // every weight is NaN
  std::ofstream(model / "model.safetensors", std::ios::binary) << bytes;
  std::ofstream(model / "in") << "a b\n";
  const Outcome outcome = run_program({"embed", "--model", model / "", "--json"}, {.input = model / "in"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto embedding = nlohmann::json::parse(outcome.out).at("embedding");
  ASSERT_FALSE(embedding.empty());
  for (const auto& value : embedding) EXPECT_EQ(value, "nan");
}

TEST(Embed, RefusesInOneLine) {
  expect_message(run_program({"embed"}), 2, "qkv embed", "--model is required");
  const TinyBert model;
  expect_message(run_program({"embed", "--model", model / "", "--weights", "int4"}), 2, "qkv embed",
                 "must be one of f32|bf16|int8");
  expect_message(run_program({"embed", "--model", "/nowhere"}), 4, "qkv embed", "/nowhere/config.json");
}

}  // namespace
}  // namespace qkv::test
