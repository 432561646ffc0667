// The stages of BERT's tokenizers, by hand: texts normalized, cut into words, these into pieces, and joined again.
#include "text/wordpiece.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "text/bert_normalizer.h"
#include "text/bert_pre_tokenizer.h"
#include "text/wordpiece_decoder.h"

namespace qkv::text {
namespace {

using Words = std::vector<std::string>;

TEST(BertNormalizer, Steps) {
  struct Case {
    std::string_view text;
    std::string expected;
    BertNormalizerOptions options{};
  };
  const Case cases[] = {{"H\u00e9llo\tW\u00d6RLD\x01!", "hello world!"},
                        {"a\u4e2db", "a \u4e2d b"},
                        {"\ufeff\u200b", ""},  // byte order mark and zero-width space are formats
                        {"bad \xFF byte", "bad  byte"},
                        {"", ""},
                        {"\u00c9\t", "\u00e9 ", {.strip_accents = false}},
                        {"\u00c9", "E", {.lowercase = false}},
                        {"A\x01\t", "A\x01\t", {.clean_text = false, .lowercase = false}},
                        {"\u4e2d", "\u4e2d", {.handle_chinese_chars = false}},
                        {"\u0130", "i\u0307", {.strip_accents = false}}};
  for (const auto& [text, expected, options] : cases) {
    EXPECT_EQ(to_utf8(BertNormalizer(options).normalize(to_characters(text))), expected) << text;
  }
}

TEST(BertNormalizer, CharactersRememberTheirBytes) {
  const Characters text = BertNormalizer({}).normalize(to_characters("\001e\u0301\u4e2d"));
  ASSERT_EQ(to_utf8(text), "e \u4e2d ");
  EXPECT_EQ(text[0].begin, 1u);  // the accent, bytes 2 and 3, belongs to no character
  EXPECT_EQ(text[0].end, 2u);
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(text[i].begin, 4u);
    EXPECT_EQ(text[i].end, 7u);
  }
}

TEST(BertPreTokenizer, SplitsAtSpaceAndAroundPunctuation) {
  const std::pair<std::string, Words> cases[] = {
      {"Hey friend!     How are you?!?", {"Hey", "friend", "!", "How", "are", "you", "?", "!", "?"}},
      {" a$b\u2014c\u3000d", {"a", "$", "b", "\u2014", "c", "d"}},
      {" \t ", {}},
      {"", {}}};
  for (const auto& [text, expected] : cases) {
    Characters characters = to_characters(text);
    Words words;
    for (const Word& word : BertPreTokenizer().split(characters)) {
      words.push_back(to_utf8(CharacterSpan(characters).subspan(word.begin, word.end - word.begin)));
    }
    EXPECT_EQ(words, expected);
  }
}

const std::vector<Vocabulary::Entry> kEntries = {{"[UNK]", 0}, {"un", 1},     {"##aff", 2},    {"##able", 3},
                                                 {"unaf", 4},  {"\u00e9", 7}, {"##\u00e9t", 8}};

TEST(WordPiece, TakesTheLongestPieceAndNeverTurnsBack) {
  struct Case {
    std::string word, pieces;
    WordPieceOptions options;
    std::vector<Vocabulary::Entry> entries = kEntries;
  };
  const Case cases[] = {
      {"unable", "un:0-2 ##able:2-6 ", {"[UNK]", "##", 10}},
      {"unaffable", "[UNK]:0-9 ", {"[UNK]", "##", 10}},  // un ##aff ##able would do, but unaf is longer than un
      {"\u00e9\u00e9t", "\u00e9:0-1 ##\u00e9t:1-3 ", {"[UNK]", "##", 3}},
      {"unaf", "[UNK]:0-4 ", {"[UNK]", "##", 3}},  // four characters, three allowed
      {"aab", "a:0-1 ab:1-3 ", {"?", "", 10}, {{"?", 0}, {"a", 1}, {"ab", 2}}}};
  for (const Case& one : cases) {
    WordPiece model(Vocabulary(one.entries), one.options);
    model.build_index();
    std::vector<Piece> pieces;
    model.tokenize(to_characters(one.word), pieces);
    std::string text;
    for (const Piece& piece : pieces) {
      text += piece.entry->token + ":" + std::to_string(piece.begin) + "-" + std::to_string(piece.end) + " ";
    }
    EXPECT_EQ(text, one.pieces);
  }
  EXPECT_THROW(WordPiece(Vocabulary(kEntries), {"<unk>", "##", 10}), std::invalid_argument);
}

TEST(WordPieceDecoder, JoinsPiecesAndCleansUp) {
  const auto decoded = [](bool cleanup, Words tokens) {
    WordPieceDecoder("##", cleanup).decode(tokens);
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  };
  const Words tokens = {"it", "was", "too", "tir", "##ed", ",", "don", "'", "t", "##!", "?"};
  EXPECT_EQ(decoded(true, tokens), "it was too tired, don ' t!?");
  EXPECT_EQ(decoded(false, tokens), "it was too tired , don ' t! ?");
  EXPECT_EQ(decoded(true, {"##a", "##b"}), "##ab");  // the first is never joined
  EXPECT_EQ(decoded(true, {}), "");
}

}  // namespace
}  // namespace qkv::text
