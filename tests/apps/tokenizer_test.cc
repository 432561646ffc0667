// qkv tokenizer train: files in, tokenizer.json out; the rest is the trainer's (text/train_tokenizer_test.cc).
#include "qkv/text/tokenizer.h"

#include "apps/program.h"

namespace qkv::test {
namespace {

TEST(TokenizerTrain, LearnsFromLinesAndColumns) {
  const TempFolder folder;
  std::ofstream(folder / "a.txt") << "you are\r\nyou\twelcome\n";
  std::ofstream(folder / "b.tsv") << "you\tde nada\nyou\tde nada";
  const std::string out = folder / "tokenizer.json";
  const Outcome outcome = run_program(
      {"tokenizer", "train", "--input", folder / "a.txt", folder / "b.tsv", "--vocab", "265", "--out", out});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, out + ": 265 tokens\n");
  const Tokenizer tokenizer = Tokenizer::load(out);
  EXPECT_TRUE(tokenizer.id_of("\xC4\xA0you"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("de nada").ids), "de nada");

  // The same for any order.
  const std::string again = folder / "again.json";
  run_program({"tokenizer", "train", "--input", folder / "b.tsv", folder / "a.txt", "--vocab", "265", "--out", again});
  EXPECT_EQ(contents(again), contents(out));
}

TEST(TokenizerTrain, SaysWhenTheTextIsTooSmall) {
  const TempFolder folder;
  std::ofstream(folder / "a.txt") << "ab ab";
  const Outcome outcome = run_program(
      {"tokenizer", "train", "--input", folder / "a.txt", "--vocab", "8000", "--out", folder / "tokenizer.json"});
  EXPECT_EQ(outcome.out,
            folder / "tokenizer.json" + std::string(": 261 tokens: no other pair of neighbours occurs twice\n"));
}

TEST(TokenizerConversion, TextToIdsAndBack) {
  const TempFolder folder;
  std::ofstream(folder / "a.txt") << "ab ab";
  const std::string file = folder / "tokenizer.json";
  run_program({"tokenizer", "train", "--input", folder / "a.txt", "--vocab", "261", "--out", file});
  std::ofstream(folder / "in") << "ab\r\n\nb ab";
  const Outcome ids = run_program({"tokenizer", "encode", "--tokenizer", file}, {.input = folder / "in"});
  EXPECT_EQ(ids.out, "259 0\n0\n34 100 259 0\n") << ids.err;  // 34: the space before b, 100: b itself
  std::ofstream(folder / "ids") << ids.out;
  const Outcome text = run_program({"tokenizer", "decode", "--tokenizer", file}, {.input = folder / "ids"});
  EXPECT_EQ(text.out, "ab\n\nb ab\n") << text.err;

  // A line break (U+010A in the byte alphabet) would be a line more.
  const auto id_of = [&](const std::string& token) { return std::to_string(*Tokenizer::load(file).id_of(token)); };
  std::ofstream(folder / "ids") << id_of("a") << " " << id_of("\xC4\x8A") << " " << id_of("b") << "\n" << id_of("b");
  EXPECT_EQ(run_program({"tokenizer", "decode", "--tokenizer", file}, {.input = folder / "ids"}).out, "a b\nb\n");

  const auto refused = [&](const std::string& line, const std::string& part) {
    std::ofstream(folder / "ids") << line;
    expect_message(run_program({"tokenizer", "decode", "--tokenizer", file}, {.input = folder / "ids"}), 3,
                   "qkv tokenizer decode", part);
  };
  refused("1 x", "\"x\" is not an id; a line holds ids separated by spaces");
  refused("99999999999", "\"99999999999\" is not an id");
  refused("261", "id 261 is not in the vocabulary");
  refused("-1", "id -1 is not in the vocabulary");
}

TEST(TokenizerTrain, RefusesInOneLine) {
  const TempFolder folder;
  const auto refused = [](const std::vector<std::string>& options, int code, const std::string& part) {
    std::vector<std::string> arguments = {"tokenizer", "train"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    expect_message(run_program(arguments), code, "qkv tokenizer train", part);
  };
  const std::string out = folder / "t.json";
  refused({"--vocab", "300", "--out", out}, 2, "--input is required");
  refused({"--input", "/nowhere", "--vocab", "300", "--out", out}, 4, "/nowhere: cannot read");
  refused({"--input", "/dev/null", "--vocab", "300", "--out", out}, 4, "/dev/null: cannot read: not a regular file");
  refused({"--input", "/nowhere", "--vocab", "258", "--out", out}, 2, "--vocab");
  refused({"--input", "/nowhere", "--vocab", "1e4", "--out", out}, 2, "--vocab");
  std::ofstream(folder / "a.txt") << "a";
  refused({"--input", folder / "a.txt", "--vocab", "300", "--out", "/nowhere/t.json"}, 4, "/nowhere/t.json");
}

}  // namespace
}  // namespace qkv::test
