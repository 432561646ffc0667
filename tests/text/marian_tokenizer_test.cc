// Tokenizers of Marian folders against transformers and sentencepiece (golden/tokenizer/make_marian.py), and files that
// break a rule.
#include "text/marian_tokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "text/tokenizer_files.h"

namespace qkv {
namespace {

const std::string kFolder = QKV_TEST_DATA "/golden/tokenizer/marian/";

Tokenizer load() { return Tokenizer::load_marian(kFolder + "source.spm", kFolder + "vocab.json"); }

void expect_reference(const std::string& path) {
  const auto expected = nlohmann::json::parse(slurp(path));
  const std::vector<std::string> texts = expected.at("texts"), decoded = expected.at("decoded");
  const std::vector<std::vector<std::int32_t>> ids = expected.at("ids");
  const Tokenizer tokenizer = load();
  ASSERT_FALSE(texts.empty());
  for (std::size_t i = 0; i < texts.size() && !testing::Test::HasFailure(); ++i) {
    const std::vector<std::int32_t> own = tokenizer.encode(texts[i]).ids;
    EXPECT_EQ(own, ids[i]) << texts[i];
    EXPECT_EQ(tokenizer.decode(own), decoded[i]) << texts[i];
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

// Messages of protocol buffers, by hand: a field of bytes, of an integer below 128, of a float.
std::string bytes(int field, const std::string& content) {
  return std::string{static_cast<char>(field << 3 | 2), static_cast<char>(content.size())} + content;
}
std::string integer(int field, int value) { return {static_cast<char>(field << 3), static_cast<char>(value)}; }
const std::string kMinusOne("\x15\0\0\x80\xBF", 5), kNan("\x15\0\0\xC0\x7F", 5);  // scores
std::string piece(const std::string& text, int type) { return bytes(1, bytes(1, text) + kMinusOne + integer(3, type)); }

TEST(MarianTokenizer, EveryBrokenRuleIsNamed) {
  const std::string good = R"({"</s>": 0, "<unk>": 1, "a": 2})", unknown = piece("<unk>", 2), a = piece("a", 1);
  const auto parse = [](const std::string& pieces, const std::string& vocabulary) {
    text::parse_marian_tokenizer({pieces, "spm"}, {vocabulary, "vocab"}, 1000);
  };
  parse(unknown + a, good);
  struct Refused {
    std::string message, pieces, vocabulary{};  // nothing: the good one
  };
  const Refused cases[] = {
      {R"(vocab: "<unk>" is missing)", unknown + a, R"({"</s>": 0, "a": 2})"},
      {R"(vocab: "</s>" is missing)", unknown + a, R"({"<unk>": 0, "a": 2})"},
      {R"(vocab: "</s>" is 1000, must be 0 to 999)", unknown + a, R"({"</s>": 1000})"},
      {"spm: has 0 pieces of type 2 (unknown), must be 1", a},
      {"spm: has 2 pieces of type 2 (unknown), must be 1", unknown + piece("u", 2)},
      {"spm: piece \"a\" appears twice", unknown + a + a},
      {"spm: pieces[1] is empty", unknown + piece("", 1)},
      {"spm: pieces[1] is \"\\xff\", which is not UTF-8", unknown + piece("\xFF", 1)},
      {"spm: pieces[1].type is 7, must be 1 to 6", unknown + piece("a", 7)},
      {"spm: pieces[1] has the score nan, must be finite", unknown + bytes(1, bytes(1, "a") + kNan)},
      {"spm: pieces[1].piece must be bytes, is of wire type 0", unknown + bytes(1, integer(1, 1))},
      {"spm: has 1 pieces of type 6 (byte), must be 0: trainer_spec.byte_fallback is false",
       unknown + piece("<0x00>", 6)},
      {"spm: trainer_spec.model_type is 2 (bpe), only 1 (unigram) is supported", unknown + a + bytes(2, integer(3, 2))},
      {"spm: normalizer_spec.add_dummy_prefix must be true; others are not supported",
       unknown + a + bytes(3, integer(3, 0))},
      {"spm: the charsmap has 3 bytes, at least 4 are needed", unknown + a + bytes(3, bytes(2, "abc"))},
      {"spm: a field has 1 bytes, but 0 are left in its message", "\x0A"},
      {"spm: a field has 5 bytes, but 1 are left in its message", "\x0A\x05x"},
      {"spm: field 1 is of wire type 3, must be 0, 1, 2 or 5", "\x0B"},
      {"spm: a field has the key 0, which no field has", std::string(1, '\0')},
      {"spm: a number has more than 64 bits", "\x08" + std::string(10, '\xFF')}};
  for (const auto& [message, pieces, vocabulary] : cases) {
    const auto refused = [&, &spm = pieces, &json = vocabulary] { parse(spm, json.empty() ? good : json); };
    EXPECT_EQ(test::message_of<FormatError>(refused), message);
  }
}

// No beginning of a good file, and no change of one byte, does more than be read or refused.
TEST(MarianTokenizer, DamagedFilesAreReadOrRefused) {
  const std::string pieces = slurp(kFolder + "source.spm"), vocabulary = slurp(kFolder + "vocab.json");
  const auto read = [&](const std::string& damaged) {
    try {
      text::parse_marian_tokenizer({damaged, "spm"}, {vocabulary, "vocab"}, 1000);
    } catch (const FormatError&) {
    }
  };
  for (std::size_t at = 0; at < pieces.size(); at += 7) {
    read(pieces.substr(0, at));
    std::string changed = pieces;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    read(changed);
  }
}

}  // namespace
}  // namespace qkv
