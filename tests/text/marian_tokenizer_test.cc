// Tokenizers of Marian folders against transformers and sentencepiece (golden/tokenizer/make_marian.py), and files that
// break a rule.
#include "text/marian_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "io/files_for_test.h"
#include "qkv/error.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

const std::string kFolder = QKV_TEST_DATA "/golden/tokenizer/marian/";

Tokenizer load() { return Tokenizer::load_marian(kFolder + "source.spm", kFolder + "vocab.json"); }

void expect_reference(const std::string& path) {
  const auto expected = nlohmann::json::parse(test::slurp(path));
  const std::vector<std::string> texts = expected.at("texts"), decoded = expected.at("decoded");
  const std::vector<std::vector<std::int32_t>> ids = expected.at("ids");
  const Tokenizer tokenizer = load();
  ASSERT_FALSE(texts.empty());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < texts.size() && wrong < 10; ++i) {
    const std::vector<std::int32_t> own = tokenizer.encode(texts[i]).ids;
    if (own == ids[i] && tokenizer.decode(own) == decoded[i]) continue;
    ++wrong;
    ADD_FAILURE() << nlohmann::json(texts[i]).dump(-1, ' ', true) << "\n  is " << nlohmann::json(own).dump() << " "
                  << tokenizer.decode(own) << "\n  not " << nlohmann::json(ids[i]).dump() << " " << decoded[i];
  }
}

TEST(MarianTokenizer, GivesTheIdsAndTextsOfTheReference) { expect_reference(kFolder + "ids.json"); }

TEST(MarianTokenizer, SlowGivesTheIdsOfManyLines) {
  const char* expected = std::getenv("QKV_MARIAN_EXPECTED");
  if (expected == nullptr) GTEST_SKIP() << "QKV_MARIAN_EXPECTED names a file of tests/golden/tokenizer/make_marian.py";
  expect_reference(expected);
}

TEST(MarianTokenizer, CodesOfLanguagesAreTokens) {
  const Tokenizer tokenizer = load();
  const Encoding known = tokenizer.encode(">>fr<< the cat"), unknown = tokenizer.encode(">>yy<< the cat");
  EXPECT_EQ(known.ids[0], tokenizer.id_of(">>fr<<"));
  EXPECT_EQ(known.offsets[0], (TextSpan{0, 6}));
  EXPECT_EQ(unknown.ids[0], tokenizer.id_of("<unk>"));
  EXPECT_TRUE(std::equal(known.ids.begin() + 1, known.ids.end(), unknown.ids.begin() + 1, unknown.ids.end()));
}

std::string refusal(const std::string& pieces, const std::string& vocabulary) {
  try {
    text::parse_marian_tokenizer({pieces, "spm"}, {vocabulary, "vocab"}, 1000);
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

// Messages of protocol buffers, by hand: a field of bytes, of an integer below 128, of a float.
std::string bytes(int field, const std::string& content) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(content.size())} + content;
}
std::string integer(int field, int value) { return {static_cast<char>(field << 3), static_cast<char>(value)}; }
std::string score(const std::string& four) { return "\x15" + four; }
const std::string kMinusOne("\0\0\x80\xBF", 4);
std::string piece(const std::string& text, int type) {
  return bytes(1, bytes(1, text) + score(kMinusOne) + integer(3, type));
}

TEST(MarianTokenizer, EveryBrokenRuleIsNamed) {
  const std::string vocabulary = R"({"</s>": 0, "<unk>": 1, "a": 2})", unknown = piece("<unk>", 2), a = piece("a", 1);
  EXPECT_EQ(refusal(unknown + a, vocabulary), "accepted");
  EXPECT_EQ(refusal(unknown + a, R"({"</s>": 0, "a": 2})"), R"(vocab: "<unk>" is missing)");
  EXPECT_EQ(refusal(unknown + a, R"({"<unk>": 0, "a": 2})"), R"(vocab: "</s>" is missing)");
  EXPECT_EQ(refusal(unknown + a, R"({"</s>": 1000})"), R"(vocab: "</s>" is 1000, must be 0 to 999)");
  EXPECT_EQ(refusal(a, vocabulary), "spm: has 0 pieces of type 2 (unknown), must be 1");
  EXPECT_EQ(refusal(unknown + piece("u", 2), vocabulary), "spm: has 2 pieces of type 2 (unknown), must be 1");
  EXPECT_EQ(refusal(unknown + a + a, vocabulary), "spm: piece \"a\" appears twice");
  EXPECT_EQ(refusal(unknown + piece("", 1), vocabulary), "spm: pieces[1] is empty");
  EXPECT_EQ(refusal(unknown + piece("\xFF", 1), vocabulary), "spm: pieces[1] is \"\\xff\", which is not UTF-8");
  EXPECT_EQ(refusal(unknown + piece("a", 7), vocabulary), "spm: pieces[1].type is 7, must be 1 to 6");
  EXPECT_EQ(refusal(unknown + bytes(1, bytes(1, "a") + score(std::string("\0\0\xC0\x7F", 4))), vocabulary),
            "spm: pieces[1] has the score nan, must be finite");
  EXPECT_EQ(refusal(unknown + bytes(1, integer(1, 1)), vocabulary),
            "spm: pieces[1].piece must be bytes, is of wire type 0");
  EXPECT_EQ(refusal(unknown + piece("<0x00>", 6), vocabulary),
            "spm: has 1 pieces of type 6 (byte), must be 0: trainer_spec.byte_fallback is false");
  EXPECT_EQ(refusal(unknown + a + bytes(2, integer(3, 2)), vocabulary),
            "spm: trainer_spec.model_type is 2 (bpe), only 1 (unigram) is supported");
  EXPECT_EQ(refusal(unknown + a + bytes(3, integer(3, 0)), vocabulary),
            "spm: normalizer_spec.add_dummy_prefix must be true; others are not supported");
  EXPECT_EQ(refusal(unknown + a + bytes(3, bytes(2, "abc")), vocabulary),
            "spm: the charsmap has 3 bytes, at least 4 are needed");
  EXPECT_EQ(refusal("\x0A", vocabulary), "spm: a field has 1 bytes, but 0 are left in its message");
  EXPECT_EQ(refusal("\x0A\x05x", vocabulary), "spm: a field has 5 bytes, but 1 are left in its message");
  EXPECT_EQ(refusal("\x0B", vocabulary), "spm: field 1 is of wire type 3, must be 0, 1, 2 or 5");
  EXPECT_EQ(refusal(std::string(1, '\0'), vocabulary), "spm: a field has the key 0, which no field has");
  EXPECT_EQ(refusal("\x08" + std::string(10, '\xFF'), vocabulary), "spm: a number has more than 64 bits");
}

// No beginning of a good file, and no change of one byte, does more than be read or refused.
TEST(MarianTokenizer, DamagedFilesAreReadOrRefused) {
  const std::string pieces = test::slurp(kFolder + "source.spm"), vocabulary = test::slurp(kFolder + "vocab.json");
  for (std::size_t at = 0; at < pieces.size(); at += 7) {
    refusal(pieces.substr(0, at), vocabulary);
    std::string changed = pieces;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    refusal(changed, vocabulary);
  }
}

}  // namespace
}  // namespace qkv
