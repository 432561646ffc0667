// Pairs of texts against tokenizers (golden/tokenizer/pairs.json, made by make_pairs.py), and what is refused.
#include <nlohmann/json.hpp>

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

TEST(TokenizerPairs, AreRefusedWithoutRoomOrRule) {
  const auto message = [](const Tokenizer& tokenizer) {
    return test::message_of<std::invalid_argument>([&] { tokenizer.encode_pair("a", "b", 2); });
  };
  const std::string small = golden("small.json");
  EXPECT_EQ(message(Tokenizer::parse(small, "small")), "encode_pair: max_length 2 leaves no room for 3 special tokens");
  nlohmann::json without = nlohmann::json::parse(small);
  without.erase("post_processor");
  EXPECT_EQ(message(Tokenizer::parse(without.dump(), "small")),
            "encode_pair: the tokenizer says nothing of pairs of texts");
}

}  // namespace
}  // namespace qkv
