// Whole tokenizers: the same tokens, at the same offsets, and the same text back as the reference
// (golden/tokenizer/make.py and make_schemes.py); those of Marian folders (make_marian.py), and what is refused.
#include "qkv/text/tokenizer.h"

#include "text/stages/unicode.h"
#include "text/tokenizer_files.h"
#include "text/tokenizer_parts.h"

namespace qkv {
namespace {

// As make.py and make_schemes.py write them: "id:begin:end" for each token, positions counted in characters.
std::string described(const Encoding& encoding, const std::string& whole) {
  const auto characters = [&](std::size_t bytes) { return text::to_characters(whole.substr(0, bytes)).size(); };
  std::string result;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const auto [begin, end] = encoding.offsets[i];
    result += fmt::format("{}{}:{}:{}", i == 0 ? "" : " ", encoding.ids[i], characters(begin), characters(end));
  }
  return result;
}

// Of the first texts, as many as are expected.
void expect_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                   const std::vector<std::string>& expected) {
  ASSERT_TRUE(!expected.empty() && expected.size() <= texts.size());
  for (std::size_t i = 0; i < expected.size() && !testing::Test::HasFailure(); ++i) {
    EXPECT_EQ(described(tokenizer.encode(texts[i]), texts[i]), expected[i]) << texts[i];
  }
}

// Of each tokenizer the file, its tokens and its texts, under one name.
class TokenizerSchemes : public ::testing::TestWithParam<const char*> {
 protected:
  const std::string name_ = GetParam();
  const Tokenizer tokenizer_ = Tokenizer::parse(golden(name_ + ".json"), name_);
  const std::vector<std::string> texts_ = golden_texts("texts.json");
};

TEST_P(TokenizerSchemes, GivesTheTokensOfTheReference) {
  expect_tokens(tokenizer_, texts_, lines_of(golden(name_ + "_tokens.txt")));
}

TEST_P(TokenizerSchemes, DecodesAsTheReferenceWholeAndInPieces) {
  const std::vector<std::string> expected = golden_texts(name_ + "_decoded.json");
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<std::int32_t> ids = tokenizer_.encode(texts_.at(i)).ids;
    EXPECT_EQ(tokenizer_.decode(ids), expected[i]) << "text " << i;
    DecodeStream stream(tokenizer_);
    std::string pieces;
    for (const std::int32_t id : ids) pieces += stream.put(id);
    EXPECT_EQ(pieces + stream.finish(), expected[i]) << "text " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TokenizerSchemes,
                         ::testing::Values("small", "schemes/byte_level", "schemes/byte_words", "schemes/metaspace",
                                           "schemes/suffix", "schemes/prefix", "schemes/expression", "schemes/split",
                                           "schemes/unigram", "schemes/unigram_bytes", "schemes/trained"),
                         [](const auto& scheme) { return std::filesystem::path(scheme.param).filename().string(); });

// Where two cuts of a word tie, the last bits of the scores decide (make_numbers.py).
TEST(Tokenizer, ReadsScoresAsTheReferenceDoes) {
  const Tokenizer tokenizer = Tokenizer::parse(golden("numbers.json"), "numbers.json");
  const nlohmann::json expected = nlohmann::json::parse(golden("numbers_read.json"));
  for (std::size_t i = 0; i < expected.at("texts").size(); ++i) {
    const std::string text = expected["texts"][i];
    EXPECT_EQ(tokenizer.encode(text).ids, expected["ids"][i].get<std::vector<std::int32_t>>()) << text;
  }
}

Tokenizer small() { return Tokenizer::parse(golden("small.json"), "small.json"); }

TEST(Tokenizer, MiniLmGivesTheTokensOfTheReference) {
  const std::string path = minilm_folder() + "/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path << ": run models/get-minilm";
  expect_tokens(Tokenizer::load(path), golden_texts("texts.json"), lines_of(golden("minilm_tokens.txt")));
}

TEST(TokenizerSlow, CorpusGivesTheTokensOfTheReference) {
  const char* corpus = std::getenv("QKV_TOKENIZER_CORPUS");
  const char* expected = std::getenv("QKV_TOKENIZER_EXPECTED");
  if (corpus == nullptr || expected == nullptr) GTEST_SKIP() << "run tests/tokenizer_corpus, which names both files";
  const char* file = std::getenv("QKV_TOKENIZER_FILE");
  expect_tokens(Tokenizer::load(file != nullptr ? file : minilm_folder() + "/tokenizer.json"), lines_of(slurp(corpus)),
                lines_of(slurp(expected)));
}

TEST(TokenizerSlow, DecodersGiveTheIdsAndTextsOfTheReference) {
  const char* folder = std::getenv("QKV_DECODER_TOKENIZERS");
  if (folder == nullptr) GTEST_SKIP() << "run tests/decoder_tokenizers, which names their folder";
  for (const char* name : {"qwen3", "llama3", "gemma3"}) {
    SCOPED_TRACE(name);
    const Tokenizer tokenizer = Tokenizer::load(fmt::format("{}/{}/tokenizer.json", folder, name));
    const auto expected = nlohmann::json::parse(slurp(fmt::format("{}/{}/expected.json", folder, name)));
    const std::vector<std::string> texts = expected.at("texts");
    ASSERT_FALSE(texts.empty());
    for (std::size_t i = 0; i < texts.size() && !testing::Test::HasFailure(); ++i) {
      const std::vector<std::int32_t> ids = expected.at("ids").at(i);
      EXPECT_EQ(tokenizer.encode(texts[i]).ids, ids) << nlohmann::json(texts[i]).dump();
      EXPECT_EQ(tokenizer.decode(ids), expected.at("decoded").at(i).get<std::string>()) << texts[i];
    }
  }
}

TEST(Tokenizer, TokensAndPlaces) {
  const Encoding encoding = small().encode("Caf\xC3\xA9 [MASK]");
  EXPECT_EQ(encoding.tokens, (std::vector<std::string>{"[CLS]", "c", "##a", "##f", "##e", " [MASK]", "[SEP]"}));
  EXPECT_EQ(encoding.special, (std::vector<std::uint8_t>{1, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(encoding.type_ids, std::vector<std::int32_t>(7, 0));
  EXPECT_EQ(encoding.offsets[4], (TextSpan{3, 5}));  // two bytes
  EXPECT_EQ(encoding.offsets[5], (TextSpan{5, 12}));
  // Bad bytes do not stop a line.
  EXPECT_EQ(small().encode("the \xFF\xC3 animal\xE2\x82").ids, small().encode("the animal").ids);
  EXPECT_EQ(small().encode("the\xED\xA0\x80").offsets[1], (TextSpan{0, 3}));
}

TEST(Tokenizer, CutsTheEndOff) {
  const Tokenizer tokenizer = small();
  const std::vector<std::int32_t> whole = tokenizer.encode("the animal was too tired").ids;
  ASSERT_EQ(whole.size(), 7u);
  for (std::size_t length = 2; length < 9; ++length) {
    std::vector<std::int32_t> expected = whole;
    if (length < whole.size()) expected.erase(expected.end() - 1 - (whole.size() - length), expected.end() - 1);
    EXPECT_EQ(tokenizer.encode("the animal was too tired", {.max_length = length}).ids, expected);
  }
  EXPECT_EQ(tokenizer.encode("the animal", {.max_length = 1, .add_special_tokens = false}).ids.size(), 1u);
  EXPECT_THROW(tokenizer.encode("the", {.max_length = 1}), std::invalid_argument);
}

TEST(Tokenizer, LooksUpAndDecodes) {
  const Tokenizer tokenizer = small();
  const auto last = static_cast<std::int32_t>(tokenizer.vocab()) - 1;
  for (const auto& [token, id] : {std::pair("[PAD]", 0), {"Mixed Case", last}}) {  // the last was added
    EXPECT_EQ(tokenizer.id_of(token), id);
    EXPECT_EQ(tokenizer.token_of(id), token);
  }
  EXPECT_FALSE(tokenizer.id_of("not there"));
  EXPECT_THROW(Tokenizer::load("/nonexistent/tokenizer.json"), IoError);
  EXPECT_THROW(tokenizer.token_of(-1), std::invalid_argument);
  EXPECT_THROW(tokenizer.decode(std::vector<std::int32_t>{1 << 30}), std::invalid_argument);
  const std::vector<std::int32_t> ids = tokenizer.encode("the animal").ids;
  EXPECT_EQ(tokenizer.decode(ids), "the animal");
  EXPECT_EQ(tokenizer.decode(ids, {.skip_special_tokens = false}), "[CLS] the animal [SEP]");
}

// Ten million characters in one line: anything quadratic would not come back.
TEST(TokenizerSlow, LongLinesTakeLinearTime) {
  const Tokenizer tokenizer = small();
  constexpr std::size_t kLength = 10'000'000;
  EXPECT_EQ(tokenizer.encode(std::string(kLength, 'a')).ids.size(), 3u);
  EXPECT_EQ(tokenizer.encode(std::string(kLength, '.')).ids.size(), kLength + 2);
  EXPECT_EQ(tokenizer.encode(std::string(kLength, ' ')).ids.size(), 2u);
  std::string accents;
  for (std::size_t i = 0; i < kLength / 4; ++i) accents += i % 2 == 0 ? "\xCC\x81" : "\xCC\x96";
  EXPECT_EQ(tokenizer.encode(accents).ids.size(), 2u);
}

const std::string kFolder = QKV_TEST_DATA "/golden/tokenizer/marian/";

Tokenizer load() { return Tokenizer::load_marian(kFolder + "source.spm", kFolder + "vocab.json"); }

// QKV_MARIAN_EXPECTED may name a longer file of tests/golden/tokenizer/make_marian.py.
TEST(MarianTokenizer, GivesTheIdsAndTextsOfTheReference) {
  const char* more = std::getenv("QKV_MARIAN_EXPECTED");
  const auto expected = nlohmann::json::parse(slurp(more != nullptr ? more : kFolder + "ids.json"));
  const std::vector<std::string> texts = expected.at("texts"), decoded = expected.at("decoded");
  const std::vector<std::vector<std::int32_t>> ids = expected.at("ids");
  const Tokenizer tokenizer = load();
  ASSERT_FALSE(texts.empty());
  for (std::size_t i = 0; i < texts.size() && !testing::Test::HasFailure(); ++i) {
    EXPECT_EQ(tokenizer.encode(texts[i]).ids, ids[i]) << texts[i];
    EXPECT_EQ(tokenizer.decode(ids[i]), decoded[i]) << texts[i];
  }
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

void parse_marian(const std::string& pieces, const std::string& vocabulary) {
  text::parse_marian_tokenizer({pieces, "spm"}, {vocabulary, "vocab"}, 1000);
}

TEST(MarianTokenizer, EveryBrokenRuleIsNamed) {
  const std::string good = R"({"</s>": 0, "<unk>": 1, "a": 2})", unknown = piece("<unk>", 2), a = piece("a", 1);
  parse_marian(unknown + a, good);
  const std::string unread = std::string("\x7D") + "1234" + "\x79" + "12345678";  // fields 15 of 4 and 8 bytes
  parse_marian(unknown + unread + a, good);
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {R"(vocab: "<unk>" is missing)", unknown + a, R"({"</s>": 0, "a": 2})"},
      {R"(vocab: "</s>" is missing)", unknown + a, R"({"<unk>": 0, "a": 2})"},
      {R"(vocab: "</s>" is 1000, must be 0 to 999)", unknown + a, R"({"</s>": 1000})"},
      {"spm: has 0 pieces of type 2 (unknown), must be 1", a, good},
      {"spm: has 2 pieces of type 2 (unknown), must be 1", unknown + piece("u", 2), good},
      {"spm: piece \"a\" appears twice", unknown + a + a, good},
      {"spm: pieces[1] is empty", unknown + piece("", 1), good},
      {"spm: pieces[1] is \"\\xff\", which is not UTF-8", unknown + piece("\xFF", 1), good},
      {"spm: pieces[1].type is 7, must be 1 to 6", unknown + piece("a", 7), good},
      {"spm: pieces[1] has the score nan, must be finite", unknown + bytes(1, bytes(1, "a") + kNan), good},
      {"spm: pieces[1].piece must be bytes, is of wire type 0", unknown + bytes(1, integer(1, 1)), good},
      {"spm: has 1 pieces of type 6 (byte), must be 0: trainer_spec.byte_fallback is false",
       unknown + piece("<0x00>", 6), good},
      {"spm: trainer_spec.model_type is 2 (bpe), only 1 (unigram) is supported", unknown + a + bytes(2, integer(3, 2)),
       good},
      {"spm: normalizer_spec.add_dummy_prefix must be true; others are not supported",
       unknown + a + bytes(3, integer(3, 0)), good},
      {"spm: the charsmap has 3 bytes, at least 4 are needed", unknown + a + bytes(3, bytes(2, "abc")), good},
      {"spm: a field has 1 bytes, but 0 are left in its message", "\x0A", good},
      {"spm: a field has 5 bytes, but 1 are left in its message", "\x0A\x05x", good},
      {"spm: field 1 is of wire type 3, must be 0, 1, 2 or 5", "\x0B", good},
      {"spm: a field has the invalid key 0", std::string(1, '\0'), good},
      {"spm: a number has more than 64 bits", "\x08" + std::string(10, '\xFF'), good}};
  for (const auto& [message, pieces, vocabulary] : cases) {
    const auto refused = [&, &spm = pieces, &json = vocabulary] { parse_marian(spm, json); };
    EXPECT_EQ(test::message_of<FormatError>(refused), message);
  }
}

TEST(MarianTokenizer, TheUnknownPieceNeedNotBeTheFirst) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = Tokenizer::load_marian(folder.put("spm", piece("a", 1) + piece("<unk>", 2)),
                                                     folder.put("vocab", R"({"</s>": 0, "<unk>": 1, "a": 2})"));
  EXPECT_EQ(tokenizer.encode("a").ids, (std::vector<std::int32_t>{1, 2, 0}));  // a space is before it
}

// No beginning of a good file, and no change of one byte, does more than be read or refused.
TEST(MarianTokenizer, DamagedFilesAreReadOrRefused) {
  const std::string pieces = slurp(kFolder + "source.spm"), vocabulary = slurp(kFolder + "vocab.json");
  for (std::size_t at = 0; at < pieces.size(); at += 7) {
    std::string changed = pieces;
    changed[at] = static_cast<char>(changed[at] ^ 0x41);
    for (const std::string& damaged : {pieces.substr(0, at), changed}) {
      try {
        parse_marian(damaged, vocabulary);
      } catch (const FormatError&) {
      }
    }
  }
}

}  // namespace
}  // namespace qkv
