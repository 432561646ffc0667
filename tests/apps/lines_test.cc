// Lines of standard input: what belongs to their text, and when they are answered.
#include "apps/running_program.h"

namespace qkv::test {
namespace {

const std::string kOfSmall = " --model @tests/golden/translate/bart_text ", kMark = "\xef\xbb\xbf";
const std::string kEncode = "tokenizer encode --tokenizer @tests/golden/translate/bart_text/tokenizer.json ";
const std::string kAnswerIds = "translate --model @tests/golden/translate/relu --ids ";

std::string encode(const std::string& text, const std::string& option = "") {
  return text_of(kEncode + option, {.input = text});
}

TEST(Lines, AreTextsHoweverTheyWereWritten) {
  const std::string plain = encode("Thank you\nYou are welcome\n\nThank you\n");
  EXPECT_EQ(lines_of(plain).size(), 4u);
  EXPECT_EQ(encode(kMark + "Thank you\r\nYou are\u00a0welcome\r\n\r\nThank\u3000you"), plain);
  for (const auto& [other, usual] : {std::pair(std::string("You are\u00a0welcome\n"), "You are welcome\n"),
                                     {"Thank you\r\n", "Thank you\n"},
                                     {kMark + "Thank you\n", "Thank you\n"}}) {
    EXPECT_NE(encode(other, "--exact-text"), encode(usual));
  }
}

TEST(Lines, BytesThatAreNotUtf8AreRefusedAfterTheAnswersBefore) {
  const std::string before = "Thank you\nYou are welcome\n", text = before + "caf\xe9\nThank you\n",
                    said = "qkv tokenizer encode: line 3: byte 4 (0xe9) is not UTF-8, but text must be\n";
  EXPECT_EQ(run_program(kEncode, {.input = text}), (Outcome{3, encode(before), said}));
  const std::string replaced = encode(before + "caf\xef\xbf\xbd\nThank you\n");
  for (const char* option : {"--replace-invalid", "--exact-text"}) EXPECT_EQ(encode(text, option), replaced);
}

// The same reader, so that one line is enough for the others.
TEST(Lines, AreReadTheSameByTranslate) {
  const Surroundings around{.input = kMark + "You are\u00a0welcome\r\nThank you\n\xff\n"};
  const std::string said = "qkv translate: line 3: byte 1 (0xff) is not UTF-8, but text must be\n";
  EXPECT_EQ(run_program("translate" + kOfSmall, around), (Outcome{3, "De nada\nGracias\n", said}));
  succeed("translate" + kOfSmall + "--replace-invalid", around);
}

// Whatever door a text comes through.
TEST(Lines, AreReadTheSameFromTheCommandLine) {
  const std::string text = kMark + "You are\u00a0welcome\r";
  EXPECT_EQ(text_of("translate" + kOfSmall + "'" + text + "'"), "De nada\n");
  EXPECT_EQ(text_of("explain" + kOfSmall + "--json --text '" + text + "'"),
            text_of("explain" + kOfSmall + "--json --text 'You are welcome'"));
  EXPECT_EQ(text_of("translate" + kOfSmall + "--explain --json '" + text + "'"),
            text_of("translate" + kOfSmall + "--explain --json 'You are welcome'"));
  const std::string wrong = "byte 4 (0xe9) is not UTF-8, but text must be";
  expect_message(run_program("translate" + kOfSmall + "'caf\xe9'"), 2, "qkv translate", "TEXT: " + wrong);
  expect_message(run_program("translate" + kOfSmall + "--explain 'caf\xe9'"), 2, "qkv translate", "TEXT: " + wrong);
  expect_message(run_program("explain" + kOfSmall + "--text 'caf\xe9'"), 2, "qkv explain", "--text: " + wrong);
  EXPECT_EQ(run_program("translate" + kOfSmall + "--replace-invalid 'caf\xe9'"),
            run_program("translate" + kOfSmall + "--replace-invalid", {.input = "caf\xe9\n"}));
  EXPECT_EQ(text_of("translate" + kOfSmall + "'   '"), "\n");
  EXPECT_EQ(text_of("translate" + kOfSmall, {.input = "   \n \t\n\u3000\n"}), "\n\n\n");
}

TEST(Lines, TokenizersLearnFromTheSameTexts) {
  const Folder folder;
  const auto learned = [&](const std::string& text, const std::string& option = "") {
    folder.put("in.tsv", text);
    const Outcome outcome = folder.run("tokenizer train --input in.tsv --vocab 270 --out out.json " + option);
    return outcome.code == 0 ? slurp(folder / "out.json") : outcome.err;
  };
  const std::string plain = learned("a b\ta b\nb c\tb c\n"), other = kMark + "a\u00a0b\ta\u00a0b\r\nb c\tb c\r\n";
  EXPECT_TRUE(learned(other) == plain);
  EXPECT_FALSE(learned(other, "--exact-text") == plain);
  EXPECT_EQ(learned("a b\n\ta\xff\n"),
            "qkv tokenizer train: in.tsv: line 2: byte 3 (0xff) is not UTF-8, but text must be\n");
}

// A half line must not keep those before it from being answered.
TEST(Lines, AreAnsweredWhileTheNextOneIsWritten) {
  RunningProgram program(kAnswerIds + "--beams 1");
  program.write("20 19 0\n20 19 0\n20 1");
  const std::string answer = program.read_line();
  EXPECT_EQ(program.read_line(), answer);
  program.write("9 0\n");
  EXPECT_EQ(program.read_line(), answer);
}

// 2,000 lines of 1,024 bytes, whose answers do not fit into the pipe: when the first of them can be read, the program
// waits with the others of its batch, and the shared position in the input shows what it has read.
TEST(Lines, TheFirstAnswersDoNotWaitForAThousandLines) {
  const Folder folder;
  std::string input;
  for (int i = 0; i < 2000; ++i) input += fmt::format("{:<1023}\n", "20 19 20 7 3 11 0");
  const int in = open(folder.put("in", input).c_str(), O_RDONLY | O_CLOEXEC);
  RunningProgram program(kAnswerIds + "--beams 7 --nbest 7", ".", in);
  EXPECT_TRUE(program.read_line().starts_with("1\t"));
  EXPECT_LE(lseek(in, 0, SEEK_CUR), 2 * 32 * 1024);
  close(in);
}

}  // namespace
}  // namespace qkv::test
