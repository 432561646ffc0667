// Pairs of texts against tokenizers (golden/tokenizer/pairs.json and windows.json, made by make_pairs.py), and what is
// refused.
#include "qkv/text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv {
namespace {

TEST(TokenizerPairs, AreThoseOfTokenizers) {
  for (const nlohmann::json& row : nlohmann::json::parse(golden("pairs.json"))) {
    const std::string file = row[0], first = row[1], second = row[2];
    const Tokenizer tokenizer = Tokenizer::load(QKV_TEST_DATA "/golden/" + file);
    const Encoding pair = tokenizer.encode_pair(first, second, row[3]);
    ASSERT_EQ(nlohmann::json(pair.ids), row[4]) << row.dump();
    ASSERT_EQ(nlohmann::json(pair.type_ids), row[5]) << row.dump();
  }
}

TEST(TokenizerPairs, WindowsAreThoseOfTokenizers) {
  for (const nlohmann::json& row : nlohmann::json::parse(golden("windows.json"))) {
    const std::string file = row[0], first = row[1], second = row[2];
    const Tokenizer tokenizer = Tokenizer::load(QKV_TEST_DATA "/golden/" + file);
    const std::vector<PairWindow> windows = tokenizer.encode_windows(first, second, row[3], row[4]);
    ASSERT_EQ(windows.size(), row[5].size()) << row.dump();
    for (std::size_t i = 0; i < windows.size(); ++i) {
      const auto& [encoding, begin, end] = windows[i];
      ASSERT_EQ(nlohmann::json(encoding.ids), row[5][i]) << row.dump();
      ASSERT_EQ(nlohmann::json(encoding.words), row[6][i]) << row.dump();
      const Encoding alone = tokenizer.encode(second, {.add_special_tokens = false});
      if (windows.size() == 1) {
        ASSERT_EQ(alone.offsets, std::vector(encoding.offsets.begin() + begin, encoding.offsets.begin() + end));
      }
    }
  }
}

TEST(TokenizerPairs, AreRefusedWithoutRoomOrRule) {
  const auto message = [](const Tokenizer& tokenizer) {
    return test::message_of<std::invalid_argument>([&] { tokenizer.encode_pair("a", "b", 2); });
  };
  const std::string small = golden("small.json");
  EXPECT_EQ(message(Tokenizer::parse(small, "small")), "encode_pair: max_length 2 leaves no room for 3 special tokens");
  const Tokenizer tokenizer = Tokenizer::parse(small, "small");
  EXPECT_EQ(test::message_of<std::invalid_argument>([&] { tokenizer.encode_windows("the the", "a", 5); }),
            "encode_windows: the first text has 2 tokens, at most 1 leave room for the second within max_length 5");
  nlohmann::json without = nlohmann::json::parse(small);
  without.erase("post_processor");
  EXPECT_EQ(message(Tokenizer::parse(without.dump(), "small")),
            "encode_pair: the tokenizer does not define pairs of texts");
}

}  // namespace
}  // namespace qkv
