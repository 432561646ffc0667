// The parts of tokenizers, by hand: where tokens are found, as the longest match and among the added ones; the stages
// of BERT's; merges as they are learned, and a vocabulary of our own, whose file the reference reads (make_schemes.py).
#include "text/stages/vocabulary.h"

#include "qkv/random.h"
#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"
#include "stop_for_test.h"
#include "text/stages/added_tokens.h"
#include "text/stages/decoders.h"
#include "text/stages/normalizers.h"
#include "text/stages/trie.h"
#include "text/tokenizer_files.h"
#include "text/vocabularies/bpe.h"
#include "text/vocabularies/wordpiece.h"

namespace qkv::text {
namespace {

TEST(Vocabulary, FindsByTokenAndById) {
  const Vocabulary vocabulary({{"b", 7}, {"a", 2147483647}, {"", 0}});
  EXPECT_EQ(vocabulary.find("b")->id, 7);
  EXPECT_EQ(vocabulary.find(2147483647)->token, "a");
  EXPECT_EQ(vocabulary.find("c"), nullptr);
  EXPECT_EQ(vocabulary.find(1), nullptr);
  EXPECT_EQ(vocabulary.max_id(), 2147483647);
  EXPECT_EQ(Vocabulary().max_id(), -1);
  EXPECT_THROW(Vocabulary({{"a", 1}, {"a", 2}}), std::invalid_argument);
  EXPECT_THROW(Vocabulary({{"a", 1}, {"b", 1}}), std::invalid_argument);
}

TEST(Trie, FindsTheLongestAsAMapDoes) {
  Trie trie;
  trie.insert(U"a", 1);
  trie.insert(U"abc", 2);
  trie.insert(U"##b", 3);
  const Characters text = to_characters("abcd");
  EXPECT_EQ(trie.longest(text).value, 2u);
  EXPECT_EQ(trie.longest(text).length, 3u);
  EXPECT_EQ(trie.longest(CharacterSpan(text).first(2)).length, 1u);
  EXPECT_EQ(trie.longest(CharacterSpan(text).subspan(3)).length, 0u);
  EXPECT_EQ(trie.longest(CharacterSpan(text).subspan(1), trie.find(U"##")).value, 3u);
  EXPECT_EQ(trie.find(U"x"), Trie::kNone);
  EXPECT_EQ(trie.value(trie.find(U"ab")), Trie::kNoValue);
  Random random(1);
  std::map<std::u32string, std::uint32_t> map;
  for (std::uint32_t i = 0; i < 20000; ++i) {
    std::u32string word;
    for (std::uint64_t left = 1 + random.below(5); left > 0; --left) {
      word.push_back(static_cast<char32_t>(random.below(2) == 0 ? 'a' + random.below(4) : 0x10FF00 + random.below(4)));
    }
    map[word] = i;
    trie.insert(word, i);
  }
  for (const auto& [word, value] : map) ASSERT_EQ(trie.value(trie.find(word)), value);
}

TEST(Normalizers, AskWhetherToStop) {
  const Characters text = to_characters(std::string(5000, 'A'));  // asked every 4,096 characters
  const Normalizer steps[] = {to_lower, replace(U"b", U"c"), replace_spaces(U"_"), bert_normalizer(),
                              precompiled(Charsmap(""))};
  for (std::size_t i = 0; i < std::size(steps); ++i) EXPECT_GT(test::questions_of([&] { steps[i](text); }), 0) << i;
}

TEST(AddedTokens, AreFoundInTexts) {
  const std::vector<AddedToken> three = {
      {.content = "ab", .id = 1}, {.content = "abcd", .id = 2}, {.content = "bcx", .id = 3}};
  const AddedToken left{.content = "M", .id = 1, .lstrip = true}, right{.content = "M", .id = 1, .rstrip = true},
      both{.content = "M", .id = 1, .lstrip = true, .rstrip = true},
      cat{.content = "cat", .id = 1, .single_word = true};
  const std::tuple<std::vector<AddedToken>, const char*, std::string> cases[] = {
      {three, "xabcdab", "x<2:abcd><1:ab>"},
      {three, "abcx", "<1:ab>cx"},  // ab begins before bcx
      {three, "", ""},
      {{left}, "a \tM b", "a<1: \tM> b"},
      {{right}, "a M \u3000b", "a <1:M \u3000>b"},
      {{both}, " M M ", "<1: M ><1:M >"},
      {{cat}, "cat cats -cat- \u00e9cat cat_ cat", "<1:cat> cats -<1:cat>- \u00e9cat cat_ <1:cat>"}};
  for (const auto& [tokens, text, expected] : cases) {
    const AddedTokens added(tokens, nullptr);
    const Characters characters = to_characters(text);
    std::string marked;
    for (const AddedTokens::Section& section : added.split(characters, false)) {
      const std::string part = to_utf8(section.text);
      marked += section.token == nullptr ? part : "<" + std::to_string(section.token->id) + ":" + part + ">";
    }
    EXPECT_EQ(marked, expected);
  }
}

TEST(AddedTokens, AreFoundInTheirNormalFormAndRefusedEmptyOrRepeated) {
  const Normalizer normalizer = bert_normalizer();
  const AddedTokens added({{.content = "\u00c9tude", .id = 5, .normalized = true}}, normalizer);
  const Characters text = to_characters("an etude");
  EXPECT_EQ(added.split(text, false).size(), 1u);
  ASSERT_EQ(added.split(text, true).size(), 2u);
  EXPECT_EQ(added.split(text, true)[1].token->id, 5);
  EXPECT_EQ(added.form(*added.find(5)), "etude");
  for (const std::vector<AddedToken>& tokens : {std::vector<AddedToken>{{.content = "", .id = 1}},
                                                {{.content = "a", .id = 1}, {.content = "a", .id = 2}},
                                                {{.content = "a", .id = 1}, {.content = "b", .id = 1}},
                                                {{.content = "\x01", .id = 1, .normalized = true}}}) {
    EXPECT_THROW(AddedTokens(tokens, normalizer), std::invalid_argument);
  }
}

// The definition itself: count all neighbours anew before each join.
std::vector<SymbolPair> learned_slowly(const std::vector<CountedWord>& counted, char32_t next, std::size_t most) {
  std::vector<std::pair<std::u32string, std::int64_t>> words;
  for (const auto& [symbols, count] : counted) words.push_back({{symbols.begin(), symbols.end()}, count});
  std::vector<SymbolPair> learned;
  for (; learned.size() < most; ++next) {
    std::map<std::u32string, std::int64_t> counts;
    for (const auto& [symbols, count] : words) {
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) counts[symbols.substr(i, 2)] += count;
    }
    const auto best = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
      return a.second != b.second ? a.second < b.second : a.first > b.first;
    });
    if (best == counts.end() || best->second < 2) break;
    for (auto& [symbols, count] : words) {
      for (std::size_t at = 0; (at = symbols.find(best->first, at)) != std::string::npos; ++at) {
        symbols.replace(at, 2, 1, next);
      }
    }
    learned.push_back({best->first[0], best->first[1]});
  }
  return learned;
}

TEST(BytePairs, AgreesWithTheDefinition) {
  Random random(7);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random.below(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<CountedWord> words(below(20));
    const std::uint32_t letters = 1 + below(5);
    for (CountedWord& word : words) {
      word.count = 1 + below(4);
      word.symbols.resize(below(12));
      for (std::uint32_t& symbol : word.symbols) symbol = below(letters);
    }
    const auto expected = learned_slowly(words, letters, 30);
    EXPECT_EQ(learn_byte_pairs(words, letters, 30), expected) << "round " << round;
    std::reverse(words.begin(), words.end());
    EXPECT_EQ(learn_byte_pairs(words, letters, 30), expected) << "round " << round;
  }
}

std::string trained(const std::vector<std::string>& texts, std::int64_t vocab) {
  TokenizerTrainer trainer;
  for (const std::string& text : texts) trainer.add(text);
  return trainer.train(vocab);
}

TEST(TrainTokenizer, WritesTheFileThatTheReferenceHasReadInAnyOrderOfTexts) {
  std::vector<std::string> texts = golden_texts("texts.json");
  EXPECT_EQ(trained(texts, 600), golden("schemes/trained.json"));
  std::reverse(texts.begin(), texts.end());
  EXPECT_EQ(trained(texts, 600), golden("schemes/trained.json"));
}

TEST(TrainTokenizer, NothingIsUnknownAndNothingIsLost) {
  const Tokenizer tokenizer = Tokenizer::parse(trained({"de nada, de nada"}, 265), "t");
  EXPECT_EQ(tokenizer.vocab(), 265);
  std::vector<std::string> texts = golden_texts("texts.json");
  texts.insert(texts.end(), {" ", "  a", "a ", " a  b ", "\u00bfQu\u00e9 tal, ni\u00f1o?", "\U0001f600", "\t\n"});
  for (const std::string& text : texts) {
    const Encoding encoding = tokenizer.encode(text);
    EXPECT_EQ(encoding.ids.back(), 0);
    EXPECT_EQ(std::count(encoding.ids.begin(), encoding.ids.end(), 1), 0);
    EXPECT_EQ(tokenizer.decode(encoding.ids), text);
  }
}

TEST(TrainTokenizer, HasSpecialTokensAndEndsWhereNothingRepeats) {
  // What reads like a special token is one, and teaches nothing.
  const Tokenizer tokenizer = Tokenizer::parse(trained({"</s></s></s></s>ab ab"}, 261), "t");
  EXPECT_EQ(tokenizer.id_of("</s>"), 0);
  EXPECT_EQ(tokenizer.id_of("<unk>"), 1);
  EXPECT_EQ(tokenizer.id_of("<pad>"), 260);
  EXPECT_EQ(tokenizer.token_of(258), "\u0120a");  // U+0120 is the space: as frequent as ab, but the lower byte
  EXPECT_EQ(tokenizer.token_of(259), "\u0120ab");
  EXPECT_EQ(tokenizer.encode("ab").ids, (std::vector<std::int32_t>{259, 0}));
  EXPECT_EQ(tokenizer.encode("").ids, std::vector<std::int32_t>{0});
  for (const auto& [text, most, vocab] :
       {std::tuple("abc", 300, 259), {"", 300, 259}, {"ab ab", 300, 261}, {"ab ab", 260, 260}}) {
    EXPECT_EQ(Tokenizer::parse(trained({text}, most), "t").vocab(), vocab) << text;
  }
  for (const std::int64_t vocab : {258, 200'001, -1}) EXPECT_THROW(trained({}, vocab), std::invalid_argument) << vocab;
}

using Words = std::vector<std::string>;

TEST(BertNormalizer, Steps) {
  const std::tuple<std::string_view, std::string, BertNormalizerOptions> cases[] = {
      {"H\u00e9llo\tW\u00d6RLD\x01!", "hello world!", {}},
      {"a\u4e2db", "a \u4e2d b", {}},
      {"\ufeff\u200b", "", {}},  // byte order mark and zero-width space are formats
      {"bad \xFF byte", "bad  byte", {}},
      {"", "", {}},
      {"\u00c9\t", "\u00e9 ", {.strip_accents = false}},
      {"\u00c9", "E", {.lowercase = false}},
      {"A\x01\t", "A\x01\t", {.clean_text = false, .lowercase = false}},
      {"\u4e2d", "\u4e2d", {.handle_chinese_chars = false}},
      {"\u0130", "i\u0307", {.strip_accents = false}}};
  for (const auto& [text, expected, options] : cases) {
    EXPECT_EQ(to_utf8(bert_normalizer(options)(to_characters(text))), expected) << text;
  }
}

TEST(BertNormalizer, CharactersRememberTheirBytes) {
  const Characters text = bert_normalizer()(to_characters("\001e\u0301\u4e2d"));
  ASSERT_EQ(to_utf8(text), "e \u4e2d ");
  EXPECT_TRUE(text[0].begin == 1 && text[0].end == 2);  // the accent, bytes 2 and 3, belongs to no character
  for (int i = 1; i < 4; ++i) EXPECT_TRUE(text[i].begin == 4 && text[i].end == 7) << i;
}

using Entries = std::vector<Vocabulary::Entry>;
const Entries kEntries = {{"[UNK]", 0}, {"un", 1},     {"##aff", 2},    {"##able", 3},
                          {"unaf", 4},  {"\u00e9", 7}, {"##\u00e9t", 8}};

TEST(WordPiece, TakesTheLongestPieceAndNeverTurnsBack) {
  const std::tuple<std::string, std::string, WordPieceOptions, Entries> cases[] = {
      {"unable", "un:0-2 ##able:2-6 ", {"[UNK]", "##", 10}, kEntries},
      {"unaffable", "[UNK]:0-9 ", {"[UNK]", "##", 10}, kEntries},  // not un ##aff ##able: unaf is longer
      {"\u00e9\u00e9t", "\u00e9:0-1 ##\u00e9t:1-3 ", {"[UNK]", "##", 3}, kEntries},
      {"unaf", "[UNK]:0-4 ", {"[UNK]", "##", 3}, kEntries},  // four characters, three allowed
      {"aab", "a:0-1 ab:1-3 ", {"?", "", 10}, {{"?", 0}, {"a", 1}, {"ab", 2}}}};
  for (const auto& [word, expected, options, entries] : cases) {
    WordPiece model(Vocabulary(entries), options);
    model.build_index();
    std::vector<Piece> pieces;
    model.tokenize(to_characters(word), pieces);
    std::string text;
    for (const Piece& piece : pieces) {
      text += piece.entry->token + ":" + std::to_string(piece.begin) + "-" + std::to_string(piece.end) + " ";
    }
    EXPECT_EQ(text, expected);
  }
  EXPECT_THROW(WordPiece(Vocabulary(kEntries), {"<unk>", "##", 10}), std::invalid_argument);
}

TEST(WordPieceDecoder, JoinsPiecesAndCleansUp) {
  const auto decoded = [](bool cleanup, Words tokens) {
    word_piece_decoder("##", cleanup)(tokens);
    return std::accumulate(tokens.begin(), tokens.end(), std::string());
  };
  const Words tokens = {"it", "was", "too", "tir", "##ed", ",", "don", "'", "t", "##!", "?"};
  EXPECT_EQ(decoded(true, tokens), "it was too tired, don ' t!?");
  EXPECT_EQ(decoded(false, tokens), "it was too tired , don ' t! ?");
  EXPECT_EQ(decoded(true, {"##a", "##b"}), "##ab");  // the first is never joined
  EXPECT_EQ(decoded(true, {}), "");
}

}  // namespace
}  // namespace qkv::text
