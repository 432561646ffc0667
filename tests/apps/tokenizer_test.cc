// qkv tokenizer: files in, tokenizer.json out, ids and back; the rest is the trainer's (text/train_tokenizer_test.cc).
#include "qkv/text/tokenizer.h"

#include "apps/program.h"

namespace qkv::test {
namespace {

TEST(TokenizerTrain, LearnsFromLinesAndColumns) {
  const Folder folder;
  folder.put("a.txt", "you are\r\nyou\twelcome\n");
  folder.put("b.tsv", "you\tde nada\nyou\tde nada");
  EXPECT_EQ(folder.text("tokenizer train --input a.txt b.tsv --vocab 265 --out t.json"), "t.json: 265 tokens\n");
  const Tokenizer tokenizer = Tokenizer::load(folder / "t.json");
  EXPECT_TRUE(tokenizer.id_of("\xC4\xA0you"));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("de nada").ids), "de nada");
  folder.text("tokenizer train --input b.tsv a.txt --vocab 265 --out again.json");  // the same for any order
  EXPECT_EQ(slurp(folder / "again.json"), slurp(folder / "t.json"));
  folder.put("a.txt", "ab ab");
  EXPECT_EQ(folder.text("tokenizer train --input a.txt --vocab 8000 --out t.json"),
            "t.json: 261 tokens: no other adjacent pair occurs twice\n");
}

TEST(TokenizerConversion, TextToIdsAndBack) {
  const Folder folder;
  folder.put("a.txt", "ab ab");
  folder.text("tokenizer train --input a.txt --vocab 261 --out t.json");
  const auto convert = [&](const std::string& to, const std::string& text) {
    return folder.run("tokenizer " + to + " --tokenizer t.json", {.input = text});
  };
  const std::string ids = "259 0\n0\n34 100 259 0\n";  // 34: the space before b, 100: b itself
  EXPECT_EQ(convert("encode", "ab\r\n\nb ab").out, ids);
  EXPECT_EQ(convert("decode", ids).out, "ab\n\nb ab\n");
  // A line break (U+010A in the byte alphabet) would be a line more.
  const auto id_of = [&](const char* token) {
    return std::to_string(*Tokenizer::load(folder / "t.json").id_of(token));
  };
  EXPECT_EQ(convert("decode", id_of("a") + " " + id_of("\xC4\x8A") + " " + id_of("b") + "\n" + id_of("b")).out,
            "a b\nb\n");
}

}  // namespace
}  // namespace qkv::test
