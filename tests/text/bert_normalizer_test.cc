// BERT's normalization of texts, by hand.
#include <gtest/gtest.h>

#include "text/normalizers.h"

namespace qkv::text {
namespace {

std::string normalized(std::string_view text, const BertNormalizerOptions& options = {}) {
  return to_utf8(BertNormalizer(options).normalize(to_characters(text)));
}

TEST(BertNormalizer, AllSteps) {
  EXPECT_EQ(normalized("H\xC3\xA9llo\tW\xC3\x96RLD\x01!"), "hello world!");
  EXPECT_EQ(normalized("a\xE4\xB8\xAD"
                       "b"),
            "a \xE4\xB8\xAD b");
  EXPECT_EQ(normalized("\xEF\xBB\xBF\xE2\x80\x8B\0x"), "");  // byte order mark and zero-width space are formats
  EXPECT_EQ(normalized("bad \xFF byte"), "bad  byte");
  EXPECT_EQ(normalized(""), "");
}

TEST(BertNormalizer, StepsCanBeLeftOut) {
  EXPECT_EQ(normalized("\xC3\x89\t", {.strip_accents = false}), "\xC3\xA9 ");
  EXPECT_EQ(normalized("\xC3\x89", {.lowercase = false}), "E");
  EXPECT_EQ(normalized("A\x01\t", {.clean_text = false, .lowercase = false}), "A\x01\t");
  EXPECT_EQ(normalized("\xE4\xB8\xAD", {.handle_chinese_chars = false}), "\xE4\xB8\xAD");
  EXPECT_EQ(normalized("\xC4\xB0", {.strip_accents = false}), "i\xCC\x87");
}

TEST(BertNormalizer, CharactersRememberTheirBytes) {
  const Characters text =
      BertNormalizer({}).normalize(to_characters("\x01"
                                                 "e\xCC\x81\xE4\xB8\xAD"));
  ASSERT_EQ(to_utf8(text), "e \xE4\xB8\xAD ");
  EXPECT_EQ(text[0].begin, 1u);  // the accent, bytes 2 and 3, belongs to no character
  EXPECT_EQ(text[0].end, 2u);
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(text[i].begin, 4u);
    EXPECT_EQ(text[i].end, 7u);
  }
}

}  // namespace
}  // namespace qkv::text
