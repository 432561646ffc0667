// Lines of standard input: what belongs to their text, and when they are answered.
#include <fmt/format.h>

#include "apps/running_program.h"

namespace qkv::test {
namespace {

const std::string kTokenizer = QKV_SOURCE_DIR "/models/en-es/tokenizer.json";

Outcome encode(const std::string& text, std::vector<std::string> options = {}) {
  const TempFolder folder;
  std::ofstream(folder / "in") << text;
  std::vector<std::string> arguments = {"tokenizer", "encode", "--tokenizer", kTokenizer};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_program(arguments, {.input = folder / "in"});
}

const std::string kMark = "\xef\xbb\xbf";

TEST(Lines, AreTextsHoweverTheyWereWritten) {
  const std::string plain = encode("Thank you\nYou are welcome\n\nThank you\n").out;
  EXPECT_EQ(encode(kMark + "Thank you\r\nYou are\u00a0welcome\r\n\r\nThank\u3000you").out, plain);
  const Outcome exact = encode(kMark + "Thank you\r\nYou are\u00a0welcome\n", {"--exact-text"});
  EXPECT_EQ(exact.code, 0);
  EXPECT_NE(exact.out, encode("Thank you\nYou are welcome\n").out);
  EXPECT_NE(encode("You are\u00a0welcome\n", {"--exact-text"}).out, encode("You are welcome\n").out);
  EXPECT_NE(encode("Thank you\r\n", {"--exact-text"}).out, encode("Thank you\n").out);
  EXPECT_NE(encode(kMark + "Thank you\n", {"--exact-text"}).out, encode("Thank you\n").out);
}

TEST(Lines, BytesThatAreNotUtf8AreRefusedAfterTheAnswersBefore) {
  const std::string before = encode("Thank you\nYou are welcome\n").out;
  const std::string text = "Thank you\nYou are welcome\ncaf\xe9\nThank you\n";
  const Outcome refused = encode(text);
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.out, before);
  EXPECT_EQ(refused.err, "qkv tokenizer encode: line 3: byte 4 (0xe9) is not UTF-8, which texts must be\n");
  for (const char* option : {"--replace-invalid", "--exact-text"}) {
    const Outcome outcome = encode(text, {option});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, encode("Thank you\nYou are welcome\ncaf\xef\xbf\xbd\nThank you\n").out);
  }
  expect_message(encode("", {"--replace-invalid", "--exact-text"}), 2, "qkv tokenizer encode", "--replace-invalid");
}

// The same reader, so that one line is enough for the others.
TEST(Lines, AreReadTheSameByTranslate) {
  const TempFolder folder;
  std::ofstream(folder / "in") << kMark + "You are\u00a0welcome\r\nThank you\n\xff\n";
  const Outcome outcome = run_program({"translate"}, {.input = folder / "in"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "De nada\nGracias\n");
  EXPECT_EQ(outcome.err, "qkv translate: line 3: byte 1 (0xff) is not UTF-8, which texts must be\n");
  EXPECT_EQ(run_program({"translate", "--replace-invalid"}, {.input = folder / "in"}).code, 0);
}

TEST(Lines, TokenizersLearnFromTheSameTexts) {
  const TempFolder folder;
  const auto learned = [&](const std::string& text, std::vector<std::string> options = {}) {
    std::ofstream(folder / "in.tsv") << text;
    std::vector<std::string> arguments = {"tokenizer", "train", "--input", folder / "in.tsv",
                                          "--vocab",   "270",   "--out",   folder / "out.json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Outcome outcome = run_program(arguments);
    return outcome.code == 0 ? contents(folder / "out.json") : outcome.err;
  };
  const std::string plain = learned("a b\ta b\nb c\tb c\n"), other = kMark + "a\u00a0b\ta\u00a0b\r\nb c\tb c\r\n";
  EXPECT_TRUE(learned(other) == plain);
  EXPECT_FALSE(learned(other, {"--exact-text"}) == plain);
  EXPECT_EQ(learned("a b\n\ta\xff\n"), "qkv tokenizer train: " + (folder / "in.tsv") +
                                           ": line 2: byte 3 (0xff) is not UTF-8, which texts must be\n");
}

// A half line must not keep those before it from being answered.
TEST(Lines, AreAnsweredWhileTheNextOneIsWritten) {
  RunningProgram program({"translate", "--model", kIdsModel, "--ids", "--beams", "1"});
  program.write("20 19 0\n20 19 0\n20 1");
  const std::string answer = program.read_line();
  EXPECT_EQ(program.read_line(), answer);
  program.write("9 0\n");
  EXPECT_EQ(program.read_line(), answer);
}

// 2,000 lines of 1,024 bytes, whose answers do not fit into the pipe: when the first of them can be read, the program
// waits with the others of its batch, and the shared position in the input shows what it has read.
TEST(Lines, TheFirstAnswersDoNotWaitForAThousandLines) {
  const TempFolder folder;
  std::ofstream input(folder / "in");
  for (int i = 0; i < 2000; ++i) input << fmt::format("{:<1023}\n", "20 19 20 7 3 11 0");
  input.close();
  const int in = open((folder / "in").c_str(), O_RDONLY | O_CLOEXEC);
  RunningProgram program({"translate", "--model", kIdsModel, "--ids", "--beams", "7", "--nbest", "7"}, in);
  EXPECT_TRUE(program.read_line().starts_with("1\t"));
  EXPECT_LE(lseek(in, 0, SEEK_CUR), 2 * 32 * 1024);
  close(in);
}

}  // namespace
}  // namespace qkv::test
