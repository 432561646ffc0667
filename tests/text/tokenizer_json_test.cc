// Each rule of tokenizer.json, broken once; and what a vocabulary of XLM-RoBERTa's size takes while it is read.
#include "io/json_edits_for_test.h"
#include "memory_for_test.h"
#include "qkv/text/tokenizer.h"
#include "sanitizers.h"

namespace qkv {
namespace {

using nlohmann::json;

json valid() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null, "added_tokens": [
      {"id": 0, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true},
      {"id": 1, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
       "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
      "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "C", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 3}}],
      "special_tokens": {"C": {"id": "C", "ids": [1], "tokens": ["[CLS]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}, "model": {"type": "WordPiece",
      "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
      "vocab": {"[UNK]": 0, "[CLS]": 1, "a": 2, "##b": 3}}})");
}

std::string refused_tokenizer(const std::string& text, std::int64_t vocab = std::int64_t{1} << 31) {
  return test::message_of<FormatError>([&] { Tokenizer::parse(text, "f", vocab); });
}

void expect_refused(const json& good, const std::string& edits) {
  test::expect_edits_refused(good, edits, "f: ", [](const std::string& text) { return refused_tokenizer(text); });
}

TEST(TokenizerJson, TheUnchangedFileIsAccepted) {
  const Encoding encoding = Tokenizer::parse(valid().dump(), "f", 4).encode("ab c");  // 4: the number of its tokens
  EXPECT_EQ(encoding.ids, (std::vector<std::int32_t>{1, 2, 3, 0}));
  EXPECT_EQ(encoding.type_ids, (std::vector<std::int32_t>{0, 3, 3, 3}));
  json file = valid();
  file["added_tokens"].push_back(file["added_tokens"][0]);
  file["added_tokens"][2].update({{"id", 4}, {"content", "c"}, {"special", false}});
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").special_tokens(), (std::vector<std::string>{"[UNK]", "[CLS]"}));
  EXPECT_EQ(refused_tokenizer(valid().dump(), 3), "f: model.vocab.\"##b\" is 3, must be 0 to 2");
}

TEST(TokenizerJson, AddedTokensAreNoLongerThanTheirBoundTogether) {
  json file = valid();
  for (int i = 0; i < 101; ++i) {
    file["added_tokens"].push_back(file["added_tokens"][0]);
    file["added_tokens"].back()["id"] = 10 + i;
    file["added_tokens"].back()["content"] = std::string(990, 'x') + std::to_string(i);
  }
  EXPECT_EQ(refused_tokenizer(file.dump()), "f: added_tokens hold more than 100000 characters");
}

TEST(TokenizerJson, StagesMayBeMissing) {
  json file = valid();
  for (const char* stage : {"normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens", "version"}) {
    file.erase(stage);
  }
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "f");
  EXPECT_EQ(tokenizer.encode("ab").ids, (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(tokenizer.encode("a b").ids, (std::vector<std::int32_t>{0}));  // one word
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{2, 3}), "a ##b");
}

// The ids of tokenizers 0.23: the mark of a word's end becomes bytes with its last character, and with that alone.
TEST(TokenizerJson, BytesStandForUnknownCharacters) {
  const auto ids = [](const char* mark, const char* text) {
    json file = json::parse(R"({"model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": true, "merges": [],
        "vocab": {"<unk>": 0, "x</w>": 1, "<0xC3>": 2, "<0xA9>": 3, "<0x3C>": 4, "<0x2F>": 5, "<0x77>": 6, "<0x3E>": 7,
                  "x": 8}}})");
    if (*mark != '\0') file["model"][mark] = *mark == 'e' ? "</w>" : "##";
    return Tokenizer::parse(file.dump(), "f").encode(text).ids;
  };
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(ids("end_of_word_suffix", "\xC3\xA9x"), (Ids{2, 3, 1}));
  EXPECT_EQ(ids("end_of_word_suffix", "x\xC3\xA9"), (Ids{8, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(ids("continuing_subword_prefix", "\xC3\xA9x"), (Ids{2, 3, 0}));
  EXPECT_EQ(ids("continuing_subword_prefix", "x\xC3\xA9"), (Ids{8, 0}));
  EXPECT_EQ(ids("", "x\xC3\xA9"), (Ids{8, 2, 3}));
}

TEST(TokenizerJson, EveryBrokenRuleIsNamed) {
  const std::string far(1025, 'a');
  expect_refused(valid(), "/model/vocab/" + far + " = 9 => model.vocab." + far + " is longer than 1024 characters");
  expect_refused(valid(), R"(
/model /model/type /model/unk_token /model/continuing_subword_prefix /model/max_input_chars_per_word => each is missing
/model/vocab /normalizer/type /normalizer/clean_text /normalizer/lowercase /decoder/prefix => each is missing
/post_processor/single /post_processor/special_tokens/C => each is missing
/model = [] => model must be an object, is array
/model/type = "WordLevel" => model.type is "WordLevel"; supported: WordPiece, BPE, Unigram
/model/type = 1 => model.type must be a string, is number
/model/unk_token = "?" => model.unk_token breaks a rule: unknown token "?" is not in the vocabulary
/model/max_input_chars_per_word = -1 => model.max_input_chars_per_word is -1, must be 0 to 2147483647
/model/max_input_chars_per_word = 1.5 => model.max_input_chars_per_word must be an integer, is 1.5
/model/vocab = ["a"] => model.vocab must be an object, is array
/model/vocab/a = 2147483648 => model.vocab.a is 2147483648, must be 0 to 2147483647
/model/vocab/a = 18446744073709551615 => model.vocab.a is 18446744073709551615, must be 0 to 2147483647
/model/vocab/a = -1 => model.vocab.a is -1, must be 0 to 2147483647
/model/vocab/a = "2" => model.vocab.a must be an integer, is string
/model/vocab/a = null => model.vocab.a must be an integer, is null
/model/vocab/##b = 2 => model.vocab breaks a rule: tokens "##b" and "a" share the id 2
/normalizer/type = "Nmt" => normalizer.type is "Nmt"; supported: BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase,
    StripAccents, Strip, Prepend, Precompiled, Replace, Sequence
/normalizer = "BertNormalizer" => normalizer must be an object, is string
/normalizer/handle_chinese_chars = 1 => normalizer.handle_chinese_chars must be true or false, is number
/normalizer/strip_accents = "yes" => normalizer.strip_accents must be true or false, is string
/pre_tokenizer/type = "UnicodeScripts" => pre_tokenizer.type is "UnicodeScripts"; supported: BertPreTokenizer, ByteLevel,
    Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence
/decoder/type = "CTC" => decoder.type is "CTC"; supported: WordPiece, ByteLevel, Metaspace, BPEDecoder, ByteFallback,
    Replace, Fuse, Strip, Sequence
/decoder/cleanup = "" => decoder.cleanup must be true or false, is string
/version = "2.0" => version is "2.0"; supported: "1.0"
/added_tokens = {} => added_tokens must be an array, is object
/added_tokens/0 = 1 => added_tokens[0] must be an object, is number
/added_tokens/1/content => added_tokens[1].content is missing
/added_tokens/1/lstrip => added_tokens[1].lstrip is missing
/added_tokens/1/id = -5 => added_tokens[1].id is -5, must be 0 to 2147483647
/added_tokens/1/id = 2 => added_tokens[1].id is 2, which is "a" in model.vocab
/added_tokens/1/id = 9 => added_tokens[1].id is 9, but the token is 1 in model.vocab
/added_tokens/1 = {"id": 0, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
    => added_tokens breaks a rule: tokens 0 and 0 both match "[UNK]"
/added_tokens/1 = {"id": 7, "content": "", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
    => added_tokens breaks a rule: token 7 is empty
/post_processor/type = "X" => post_processor.type is "X"; supported: TemplateProcessing, BertProcessing,
    RobertaProcessing, ByteLevel, Sequence
/post_processor/type = "ByteLevel" => post_processor.trim_offsets is missing
/post_processor = {"type": "Sequence", "processors": []}
    => post_processor.processors must be ByteLevel and at most one more
/post_processor/single/1 => post_processor.single must contain the text, Sequence "A"
/post_processor/single/- = {"Sequence": {"id": "A", "type_id": 3}}
    => post_processor.single[2] must not contain the text a second time
/post_processor/single/1/Sequence/id = "B" => post_processor.single[1].Sequence.id must be "A", the only text
/post_processor/pair = [{"Sequence": {"id": "C", "type_id": 0}}]
    => post_processor.pair[0].Sequence.id must be "A" or "B"
/post_processor/pair = [{"Sequence": {"id": "B", "type_id": 0}}]
    => post_processor.pair[0] must be "A" first, then "B"
/post_processor/single/0 = {} => post_processor.single[0].SpecialToken is missing
/post_processor/special_tokens/C/ids = [1, 2] => post_processor.special_tokens.C.ids must be as many as tokens
/post_processor/special_tokens/C/ids = [2]
    => post_processor.special_tokens.C.ids[0] is 2, which is not the id of "[CLS]"
/post_processor = {"type": "BertProcessing"} => post_processor.cls is missing
/post_processor = {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["a"]}
    => post_processor.sep must be [token, id]
/post_processor = {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["a", 5]}
    => post_processor.sep[1] is 5, which is not the id of "a"
)");
}

TEST(TokenizerJson, EveryBrokenRuleOfAByteVocabularyIsNamed) {
  const json file = json::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").encode("abba").ids, (std::vector<std::int32_t>{2, 1, 0}));
  expect_refused(file, R"(
/model/vocab = [] => model.vocab must be an object, is array
/model/merges => model.merges is missing
/model/merges = {} => model.merges must be an array, is object
/model/merges = [1] => model.merges[0] must be an array, is number
/model/merges = ["ab"] => model.merges[0] must be two tokens with a space between
/model/merges = ["a b c"] => model.merges[0] must be two tokens with a space between
/model/merges = [["a", "b", "c"]] => model.merges[0] must be two tokens
/model/merges = [["a", 1]] => model.merges[0][1] must be a string, is number
/model/merges = ["a b", "a x"] => model breaks a rule: merge 1: "ax" is not in the vocabulary
/model/merges = ["b a"] => model breaks a rule: merge 0: "ba" is not in the vocabulary
/model/continuing_subword_prefix = "##" => model breaks a rule: merge 0: "b" lacks the prefix "##"
/model/unk_token = "?" => model breaks a rule: unknown token "?" is not in the vocabulary
/model/dropout = 0.1 => model.dropout is not supported; set it to null
/model/fuse_unk = "yes" => model.fuse_unk must be true or false, is string
/model/byte_fallback = 0 => model.byte_fallback must be true or false, is number
/model/ignore_merges = 0 => model.ignore_merges must be true or false, is number
/model/end_of_word_suffix = 0 => model.end_of_word_suffix must be a string, is number
/pre_tokenizer = {"type": "ByteLevel"} => pre_tokenizer.add_prefix_space is missing
/pre_tokenizer = {"type": "Metaspace"} => pre_tokenizer.replacement is missing
/pre_tokenizer = {"type": "Metaspace", "replacement": "__"} => pre_tokenizer.replacement must be one character
/pre_tokenizer = {"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"}
    => pre_tokenizer.prepend_scheme must be "always", "first" or "never"
/pre_tokenizer = {"type": "Sequence"} => pre_tokenizer.pretokenizers is missing
/pre_tokenizer = {"type": "Sequence", "pretokenizers": [{}]} => pre_tokenizer.pretokenizers[0].type is missing
/pre_tokenizer = {"type": "Split", "pattern": {"Regex": "\\s+"}, "behavior": "Isolated", "invert": false}
    => pre_tokenizer.pattern.Regex is not supported; the supported regular expressions are those of GPT-2, GPT-4, Llama 3, Qwen 2 and Qwen 3
/pre_tokenizer = {"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated", "invert": false}
    => pre_tokenizer.pattern.String must not be empty
/pre_tokenizer = {"type": "Split", "pattern": {}, "behavior": "Isolated", "invert": false}
    => pre_tokenizer.pattern.String is missing
/pre_tokenizer = {"type": "Split", "pattern": {"String": " "}, "behavior": "isolated", "invert": false}
    => pre_tokenizer.behavior must be "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext" or "Contiguous"
/pre_tokenizer = {"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated"} => pre_tokenizer.invert is missing
/pre_tokenizer = {"type": "Digits"} => pre_tokenizer.individual_digits is missing
/pre_tokenizer = {"type": "Punctuation", "behavior": 1} => pre_tokenizer.behavior must be a string, is number
/normalizer = {"type": "Sequence", "normalizers": [1]} => normalizer.normalizers[0] must be an object, is number
/normalizer = {"type": "Prepend"} => normalizer.prepend is missing
/normalizer = {"type": "Precompiled", "precompiled_charsmap": "Zh=="} => normalizer.precompiled_charsmap must be base64
/normalizer = {"type": "Precompiled", "precompiled_charsmap": "Zm9v"}
    => normalizer.precompiled_charsmap breaks a rule: the charsmap has 3 bytes, at least 4 are needed
/normalizer = {"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}
    => normalizer.pattern.Regex is not supported; the only supported regular expression is " {2,}"
/normalizer = {"type": "Replace", "pattern": {"Regex": " +"}, "content": " "}
    => normalizer.pattern.Regex is not supported; the only supported regular expression is " {2,}"
/normalizer = {"type": "Replace", "pattern": {"String": ""}, "content": "a"}
    => normalizer.pattern.String must not be empty
/normalizer = {"type": "Strip", "strip_right": true} => normalizer.strip_left is missing
/decoder = {"type": "Strip", "content": "", "start": 1, "stop": 0} => decoder.content must be one character
/decoder = {"type": "Strip", "content": " ", "start": 2147483648, "stop": 0}
    => decoder.start is 2147483648, must be 0 to 1024
/decoder = {"type": "BPEDecoder"} => decoder.suffix is missing
/decoder = {"type": "Replace", "pattern": {"String": ""}, "content": "a"} => decoder.pattern.String must not be empty
/decoder = {"type": "Sequence", "decoders": {}} => decoder.decoders must be an array, is object
)");
}

TEST(TokenizerJson, EveryBrokenRuleOfAUnigramVocabularyIsNamed) {
  const json file = json::parse(R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["a", -1.5]]}})");
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").encode("axya").ids, (std::vector<std::int32_t>{1, 0, 1}));
  expect_refused(file, R"(
/model/vocab = {} => model.vocab must be an array, is object
/model/vocab = [["a"]] => model.vocab[0] must be [token, score]
/model/vocab = [[1, -1.0]] => model.vocab[0][0] must be a string, is number
/model/vocab = [["a", "-1"]] => model.vocab[0][1] must be a number, is string
/model/vocab = [["a", -1], ["a", -2]] => model.vocab breaks a rule: token "a" appears twice
/model/vocab = [] => model.unk_id breaks a rule: there is no token 0
/model/unk_id = 2 => model.unk_id breaks a rule: there is no token 2
/model/unk_id = -1 => model.unk_id is -1, must be 0 to 2147483647
/model/unk_id = null => model.unk_id must be an integer, is null
/model/byte_fallback = 1 => model.byte_fallback must be true or false, is number
)");
  json longer = file;
  longer["model"]["vocab"][1][0] = std::string(1025, 'a');
  EXPECT_EQ(refused_tokenizer(longer.dump()), "f: model.vocab[1][0] is longer than 1024 characters");
}

TEST(TokenizerJson, TextThatIsNotJsonIsRefused) {
  std::vector<std::string> texts = {
      "", "{", "[]", "null", "{\"model\": }", "{\"a\": 1} x", "\xFF{}", "{\"model\": \"\xC0\"}"};
  const std::string whole = valid().dump();
  for (std::size_t size = 0; size < whole.size(); ++size) texts.push_back(whole.substr(0, size));
  for (const std::string& text : texts) {
    const std::string message = refused_tokenizer(text);
    EXPECT_TRUE(message.starts_with("f: ")) << text << " gives " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  std::string twice = whole;
  twice.replace(twice.find("\"a\":2"), 5, "\"a\":2,\"a\":4");
  EXPECT_EQ(refused_tokenizer(twice), "f: key \"a\" appears twice");
}

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

// 250,002 pieces of five to ten bytes, half of them partly Cyrillic, indented as `tokenizers` writes them.
std::string large_tokenizer_json() {
  std::string file = R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0])";
  for (int i = 1; i < 250'002; ++i) {
    file += fmt::format(",\n        [\n          \"{}{}{:05x}\",\n          -{}.{:05}\n        ]",
                        i % 3 == 0 ? "_" : "", i % 2 == 0 ? "\u0436\u0434" : "", i, 8 + i % 7, i % 99991);
  }
  return file + "]}}";
}

// As one that is refused: its own size and 64 MiB.
TEST(TokenizerMemory, OfALargeVocabularyIsBounded) {
  const test::TemporaryFolder folder;
  const std::string path = folder.put("tokenizer.json", large_tokenizer_json());
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  ASSERT_GT(bytes, 15'000'000);
  const test::Memory taken = test::cost([&] { return Tokenizer::load(path); });
  EXPECT_LT(taken.peak, bytes + 64 * test::kMebibyte);
}

#endif

}  // namespace
}  // namespace qkv
