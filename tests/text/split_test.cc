// Where pre-tokenizers cut, as the reference does (golden/tokenizer/make_splits.py).
#include "text/stages/split.h"

#include "text/tokenizer_files.h"
#include "text/tokenizer_parts.h"

namespace qkv {
namespace {

using nlohmann::json;

// The places of words, in characters.
std::vector<std::size_t> places(const Tokenizer::Parts& parts, const std::string& text) {
  std::vector<std::size_t> found;
  const auto characters = [&](std::size_t bytes) { return text::to_characters(text.substr(0, bytes)).size(); };
  text::for_each_word(parts, text, [&](const text::AddedToken*, text::CharacterSpan word) {
    found.push_back(characters(word.front().begin));
    found.push_back(characters(word.back().end));
    return true;
  });
  return found;
}

TEST(Split, CutsWhereTheReferenceDoes) {
  const json expected = json::parse(golden("splits.json"));
  const std::vector<std::string> texts = expected.at("texts");
  ASSERT_GE(expected.at("splits").size(), 20u);
  for (const json& split : expected["splits"]) {
    json file = json::parse(R"({"model": {"type": "BPE", "vocab": {}, "merges": []}})");
    file["pre_tokenizer"] = split.at("pre_tokenizer");
    SCOPED_TRACE(file["pre_tokenizer"].dump());
    const auto parts = text::read_tokenizer_json(
        std::make_unique<const io::JsonDocument>(file.dump(), "t", io::JsonNumbers::serde), Tokenizer::kAnyVocab);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      EXPECT_EQ(places(parts, texts[i]), split.at("words").at(i).get<std::vector<std::size_t>>())
          << json(texts[i]).dump();
    }
  }
}

}  // namespace
}  // namespace qkv
