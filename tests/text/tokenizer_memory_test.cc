// What a vocabulary of XLM-RoBERTa's size takes while it is read.
#include <fmt/format.h>

#include "memory_for_test.h"
#include "qkv/text/tokenizer.h"
#include "sanitizers.h"

#ifndef QKV_SANITIZED  // sanitizers need memory of their own

namespace qkv {
namespace {

// 250,002 pieces of five or six letters, half of them Cyrillic, indented as `tokenizers` writes them.
std::string large_tokenizer_json() {
  std::string file = R"({"model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0])";
  for (int i = 1; i < 250'002; ++i) {
    std::string piece = i % 3 == 0 ? "_" : "";
    for (const int number : {i, 1 + i % 19}) {
      for (int left = number; left > 0; left /= 20) {
        if (i % 2 == 0) piece += "\xD0";
        piece += static_cast<char>((i % 2 == 0 ? 0x90 : 'a') + left % 20);
      }
    }
    file += fmt::format(",\n        [\n          \"{}\",\n          -{}.{:05}\n        ]", piece, 8 + i % 7, i % 99991);
  }
  return file + "]}}";
}

// As one that is refused: its own size and 64 MiB.
TEST(TokenizerMemory, OfALargeVocabularyIsBounded) {
  const test::TemporaryFolder folder;
  folder.put("tokenizer.json", large_tokenizer_json());
  const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(folder / "tokenizer.json"));
  ASSERT_GT(bytes, 15'000'000);
  const test::Memory taken = test::cost([&] { return Tokenizer::load(folder / "tokenizer.json"); });
  EXPECT_LT(taken.peak, bytes + 64 * test::kMebibyte);
}

}  // namespace
}  // namespace qkv

#endif
