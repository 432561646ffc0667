// qkv embed: lines in, lines out, in order; the rest is the embedder's (pipelines/embedder_test.cc).
#include <nlohmann/json.hpp>

#include "apps/tiny_model.h"

namespace qkv::test {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Embed, OneLineForEachInOrder) {
  const TinyModel model;
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
  const TinyModel model;
  const Outcome outcome = run_program({"embed", "--model", model / ""}, {.input = "/dev/null"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
}

TEST(Embed, RefusesInOneLine) {
  expect_message(run_program({"embed"}), 2, "qkv embed", "--model is required");
  expect_message(run_program({"embed", "--model", "/nowhere"}), 4, "qkv embed", "/nowhere/config.json");
}

}  // namespace
}  // namespace qkv::test
