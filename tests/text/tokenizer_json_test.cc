// Each rule of tokenizer.json, broken once.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "qkv/error.h"
#include "qkv/text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

using nlohmann::json;

json valid() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 0, "content": "[UNK]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 1, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "C", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 3}}],
      "pair": [],
      "special_tokens": {"C": {"id": "C", "ids": [1], "tokens": ["[CLS]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
      "vocab": {"[UNK]": 0, "[CLS]": 1, "a": 2, "##b": 3}}})");
}

std::string refusal(const std::string& text) {
  try {
    Tokenizer::parse(text, "f");
  } catch (const FormatError& error) {
    return error.what();
  }
  return "accepted";
}

struct Broken {
  std::string message;
  std::function<void(json&)> change;
};

void expect_refused(const json& file, const std::vector<Broken>& cases) {
  for (const Broken& broken : cases) {
    json changed = file;
    broken.change(changed);
    EXPECT_EQ(refusal(changed.dump()), broken.message);
  }
}

TEST(TokenizerJson, TheUnchangedFileIsAccepted) {
  EXPECT_EQ(refusal(valid().dump()), "accepted");
  const Encoding encoding = Tokenizer::parse(valid().dump(), "f").encode("ab c");
  EXPECT_EQ(encoding.ids, (std::vector<std::int32_t>{1, 2, 3, 0}));
  EXPECT_EQ(encoding.type_ids, (std::vector<std::int32_t>{0, 3, 3, 3}));
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

TEST(TokenizerJson, EveryBrokenRuleIsNamed) {
  const std::string far(1025, 'a');
  const std::vector<Broken> cases = {
      {"f: model is missing", [](json& f) { f.erase("model"); }},
      {"f: model must be an object, is array", [](json& f) { f["model"] = json::array(); }},
      {"f: model.type is missing", [](json& f) { f["model"].erase("type"); }},
      {"f: model.type is \"WordLevel\"; supported: WordPiece, BPE, Unigram",
       [](json& f) { f["model"]["type"] = "WordLevel"; }},
      {"f: model.type must be a string, is number", [](json& f) { f["model"]["type"] = 1; }},
      {"f: model.unk_token is missing", [](json& f) { f["model"].erase("unk_token"); }},
      {"f: model.unk_token breaks a rule: unknown token \"?\" is not in the vocabulary",
       [](json& f) { f["model"]["unk_token"] = "?"; }},
      {"f: model.continuing_subword_prefix is missing", [](json& f) { f["model"].erase("continuing_subword_prefix"); }},
      {"f: model.max_input_chars_per_word is missing", [](json& f) { f["model"].erase("max_input_chars_per_word"); }},
      {"f: model.max_input_chars_per_word is -1, must be 0 to 2147483647",
       [](json& f) { f["model"]["max_input_chars_per_word"] = -1; }},
      {"f: model.max_input_chars_per_word must be an integer, is number",
       [](json& f) { f["model"]["max_input_chars_per_word"] = 1.5; }},
      {"f: model.vocab is missing", [](json& f) { f["model"].erase("vocab"); }},
      {"f: model.vocab must be an object, is array", [](json& f) { f["model"]["vocab"] = json::array({"a"}); }},
      {"f: model.vocab.a is 2147483648, must be 0 to 2147483647",
       [](json& f) { f["model"]["vocab"]["a"] = 2147483648; }},
      {"f: model.vocab.a is 18446744073709551615, must be 0 to 2147483647",
       [](json& f) { f["model"]["vocab"]["a"] = std::numeric_limits<std::uint64_t>::max(); }},
      {"f: model.vocab.a is -1, must be 0 to 2147483647", [](json& f) { f["model"]["vocab"]["a"] = -1; }},
      {"f: model.vocab.a must be an integer, is string", [](json& f) { f["model"]["vocab"]["a"] = "2"; }},
      {"f: model.vocab.a must be an integer, is null", [](json& f) { f["model"]["vocab"]["a"] = nullptr; }},
      {"f: model.vocab breaks a rule: tokens \"##b\" and \"a\" share the id 2",
       [](json& f) { f["model"]["vocab"]["##b"] = 2; }},
      {"f: model.vocab." + far + " is longer than 1024 characters", [&](json& f) { f["model"]["vocab"][far] = 9; }},
      {"f: normalizer.type is missing", [](json& f) { f["normalizer"].erase("type"); }},
      {"f: normalizer.type is \"Nmt\"; supported: BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, "
       "Strip, "
       "Prepend, Precompiled, Replace, Sequence",
       [](json& f) { f["normalizer"]["type"] = "Nmt"; }},
      {"f: normalizer must be an object, is string", [](json& f) { f["normalizer"] = "BertNormalizer"; }},
      {"f: normalizer.clean_text is missing", [](json& f) { f["normalizer"].erase("clean_text"); }},
      {"f: normalizer.handle_chinese_chars must be true or false, is number",
       [](json& f) { f["normalizer"]["handle_chinese_chars"] = 1; }},
      {"f: normalizer.strip_accents must be true or false, is string",
       [](json& f) { f["normalizer"]["strip_accents"] = "yes"; }},
      {"f: normalizer.lowercase is missing", [](json& f) { f["normalizer"].erase("lowercase"); }},
      {"f: pre_tokenizer.type is \"Split\"; supported: BertPreTokenizer, ByteLevel, Metaspace, Whitespace, "
       "WhitespaceSplit, Sequence",
       [](json& f) { f["pre_tokenizer"]["type"] = "Split"; }},
      {"f: decoder.type is \"CTC\"; supported: WordPiece, ByteLevel, Metaspace, BPEDecoder, ByteFallback, Replace, "
       "Fuse, "
       "Strip, Sequence",
       [](json& f) { f["decoder"]["type"] = "CTC"; }},
      {"f: decoder.prefix is missing", [](json& f) { f["decoder"].erase("prefix"); }},
      {"f: decoder.cleanup must be true or false, is string", [](json& f) { f["decoder"]["cleanup"] = ""; }},
      {"f: version is \"2.0\"; supported: \"1.0\"", [](json& f) { f["version"] = "2.0"; }},
      {"f: added_tokens must be an array, is object", [](json& f) { f["added_tokens"] = json::object(); }},
      {"f: added_tokens[0] must be an object, is number", [](json& f) { f["added_tokens"][0] = 1; }},
      {"f: added_tokens[1].content is missing", [](json& f) { f["added_tokens"][1].erase("content"); }},
      {"f: added_tokens[1].lstrip is missing", [](json& f) { f["added_tokens"][1].erase("lstrip"); }},
      {"f: added_tokens[1].id is -5, must be 0 to 2147483647", [](json& f) { f["added_tokens"][1]["id"] = -5; }},
      {"f: added_tokens[1].id is 2, which is \"a\" in model.vocab", [](json& f) { f["added_tokens"][1]["id"] = 2; }},
      {"f: added_tokens[1].id is 9, but the token is 1 in model.vocab",
       [](json& f) { f["added_tokens"][1]["id"] = 9; }},
      {"f: added_tokens breaks a rule: tokens 0 and 0 both match \"[UNK]\"",
       [](json& f) { f["added_tokens"][1] = f["added_tokens"][0]; }},
      {"f: added_tokens breaks a rule: token 7 is empty",
       [](json& f) { f["added_tokens"][1]["content"] = "", f["added_tokens"][1]["id"] = 7; }},
      {"f: post_processor.type is \"X\"; supported: TemplateProcessing, BertProcessing, RobertaProcessing, "
       "ByteLevel, "
       "Sequence",
       [](json& f) { f["post_processor"]["type"] = "X"; }},
      {"f: post_processor.trim_offsets is missing", [](json& f) { f["post_processor"]["type"] = "ByteLevel"; }},
      {"f: post_processor.processors must be ByteLevel and at most one more",
       [](json& f) { f["post_processor"] = {{"type", "Sequence"}, {"processors", json::array()}}; }},
      {"f: post_processor.single is missing", [](json& f) { f["post_processor"].erase("single"); }},
      {"f: post_processor.single must contain the text, Sequence \"A\"",
       [](json& f) { f["post_processor"]["single"].erase(1); }},
      {"f: post_processor.single[2] must not contain the text a second time",
       [](json& f) { f["post_processor"]["single"].push_back(f["post_processor"]["single"][1]); }},
      {"f: post_processor.single[1].Sequence.id must be \"A\", the only text",
       [](json& f) { f["post_processor"]["single"][1]["Sequence"]["id"] = "B"; }},
      {"f: post_processor.single[0].SpecialToken is missing",
       [](json& f) { f["post_processor"]["single"][0] = json::object(); }},
      {"f: post_processor.special_tokens.C is missing",
       [](json& f) { f["post_processor"]["special_tokens"].erase("C"); }},
      {"f: post_processor.special_tokens.C.ids must be as many as tokens",
       [](json& f) { f["post_processor"]["special_tokens"]["C"]["ids"] = {1, 2}; }},
      {"f: post_processor.special_tokens.C.ids[0] is 2, which is not the id of \"[CLS]\"",
       [](json& f) { f["post_processor"]["special_tokens"]["C"]["ids"] = {2}; }},
      {"f: post_processor.cls is missing", [](json& f) { f["post_processor"] = {{"type", "BertProcessing"}}; }},
      {"f: post_processor.sep must be [token, id]",
       [](json& f) {
         f["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", json::array({"a"})}};
       }},
      {"f: post_processor.sep[1] is 5, which is not the id of \"a\"",
       [](json& f) { f["post_processor"] = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"a", 5}}}; }},
  };
  expect_refused(valid(), cases);
}

TEST(TokenizerJson, EveryBrokenRuleOfAByteVocabularyIsNamed) {
  const auto model = [](const char* key, const json& value) { return [=](json& f) { f["model"][key] = value; }; };
  const auto stage = [](const char* key, const char* value) { return [=](json& f) { f[key] = json::parse(value); }; };
  const std::vector<Broken> cases = {
      {"f: model.vocab must be an object, is array", model("vocab", json::array())},
      {"f: model.merges is missing", [](json& f) { f["model"].erase("merges"); }},
      {"f: model.merges must be an array, is object", model("merges", json::object())},
      {"f: model.merges[0] must be an array, is number", model("merges", {1})},
      {"f: model.merges[0] must be two tokens with a space between", model("merges", {"ab"})},
      {"f: model.merges[0] must be two tokens with a space between", model("merges", {"a b c"})},
      {"f: model.merges[0] must be two tokens", model("merges", {{"a", "b", "c"}})},
      {"f: model.merges[0][1] must be a string, is number", model("merges", json::array({json::array({"a", 1})}))},
      {"f: model breaks a rule: merge 1: \"ax\" is not in the vocabulary", model("merges", {"a b", "a x"})},
      {"f: model breaks a rule: merge 0: \"ba\" is not in the vocabulary", model("merges", {"b a"})},
      {"f: model breaks a rule: merge 0: \"b\" lacks the prefix \"##\"", model("continuing_subword_prefix", "##")},
      {"f: model breaks a rule: unknown token \"?\" is not in the vocabulary", model("unk_token", "?")},
      {"f: model.dropout is not supported; set it to null", model("dropout", 0.1)},
      {"f: model.fuse_unk must be true or false, is string", model("fuse_unk", "yes")},
      {"f: model.byte_fallback must be true or false, is number", model("byte_fallback", 0)},
      {"f: model.ignore_merges must be true or false, is number", model("ignore_merges", 0)},
      {"f: model.end_of_word_suffix must be a string, is number", model("end_of_word_suffix", 0)},
      {"f: pre_tokenizer.add_prefix_space is missing", stage("pre_tokenizer", R"({"type": "ByteLevel"})")},
      {"f: pre_tokenizer.replacement is missing", stage("pre_tokenizer", R"({"type": "Metaspace"})")},
      {"f: pre_tokenizer.replacement must be one character",
       stage("pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})")},
      {"f: pre_tokenizer.prepend_scheme must be \"always\", \"first\" or \"never\"",
       stage("pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})")},
      {"f: pre_tokenizer.pretokenizers is missing", stage("pre_tokenizer", R"({"type": "Sequence"})")},
      {"f: pre_tokenizer.pretokenizers[0].type is missing",
       stage("pre_tokenizer", R"({"type": "Sequence", "pretokenizers": [{}]})")},
      {"f: normalizer.normalizers[0] must be an object, is number",
       stage("normalizer", R"({"type": "Sequence", "normalizers": [1]})")},
      {"f: normalizer.prepend is missing", stage("normalizer", R"({"type": "Prepend"})")},
      {"f: normalizer.pattern.Regex is not supported; of regular expressions only \" {2,}\" is",
       stage("normalizer", R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""})")},
      {"f: normalizer.pattern.String must not be empty",
       stage("normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": "a"})")},
      {"f: normalizer.strip_left is missing", stage("normalizer", R"({"type": "Strip", "strip_right": true})")},
      {"f: decoder.content must be one character",
       stage("decoder", R"({"type": "Strip", "content": "", "start": 1, "stop": 0})")},
      {"f: decoder.start is 2147483648, must be 0 to 1024",
       stage("decoder", R"({"type": "Strip", "content": " ", "start": 2147483648, "stop": 0})")},
      {"f: decoder.suffix is missing", stage("decoder", R"({"type": "BPEDecoder"})")},
      {"f: decoder.pattern.String must not be empty",
       stage("decoder", R"({"type": "Replace", "pattern": {"String": ""}, "content": "a"})")},
      {"f: decoder.decoders must be an array, is object", stage("decoder", R"({"type": "Sequence", "decoders": {}})")},
  };
  const json file = json::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}})");
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").encode("abba").ids, (std::vector<std::int32_t>{2, 1, 0}));
  expect_refused(file, cases);
}

TEST(TokenizerJson, EveryBrokenRuleOfAUnigramVocabularyIsNamed) {
  const auto model = [](const char* key, const json& value) { return [=](json& f) { f["model"][key] = value; }; };
  const std::vector<Broken> cases = {
      {"f: model.vocab must be an array, is object", model("vocab", json::object())},
      {"f: model.vocab[0] must be [token, score]", model("vocab", {{"a"}})},
      {"f: model.vocab[0][0] must be a string, is number", model("vocab", {{1, -1.0}})},
      {"f: model.vocab[0][1] must be a number, is string", model("vocab", json::array({json::array({"a", "-1"})}))},
      {"f: model.vocab breaks a rule: token \"a\" appears twice",
       model("vocab", json::array({json::array({"a", -1.0}), json::array({"a", -2.0})}))},
      {"f: model.unk_id breaks a rule: there is no token 0", model("vocab", json::array())},
      {"f: model.unk_id breaks a rule: there is no token 2", model("unk_id", 2)},
      {"f: model.unk_id is -1, must be 0 to 2147483647", model("unk_id", -1)},
      {"f: model.unk_id must be an integer, is null", model("unk_id", nullptr)},
      {"f: model.byte_fallback must be true or false, is number", model("byte_fallback", 1)},
  };
  const json file = json::parse(R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["?", 0], ["a", -1.5]]}})");
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").encode("axya").ids, (std::vector<std::int32_t>{1, 0, 1}));
  expect_refused(file, cases);
}

TEST(TokenizerJson, IdsMustFitTheModel) {
  const auto refused = [](std::int64_t vocab) {
    try {
      Tokenizer::parse(valid().dump(), "f", vocab);
    } catch (const FormatError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused(4), "accepted");
  EXPECT_EQ(refused(3), "f: model.vocab.\"##b\" is 3, must be 0 to 2");
}

TEST(TokenizerJson, TextThatIsNotJsonIsRefused) {
  for (const std::string text :
       {"", "{", "[]", "null", "{\"model\": }", "{\"a\": 1} x", "\xFF{}", "{\"model\": \"\xC0\"}"}) {
    EXPECT_TRUE(refusal(text).starts_with("f: ")) << text << " gives " << refusal(text);
    EXPECT_EQ(refusal(text).find('\n'), std::string::npos) << refusal(text);
  }
  const std::string whole = valid().dump();
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_NE(refusal(whole.substr(0, size)), "accepted") << size;
}

TEST(TokenizerJson, RepeatedTokenIsRefused) {
  std::string text = valid().dump();
  text.replace(text.find("\"a\":2"), 5, "\"a\":2,\"a\":4");
  EXPECT_EQ(refusal(text), "f: key \"a\" appears twice");
}

}  // namespace
}  // namespace qkv
