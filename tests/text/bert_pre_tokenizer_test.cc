// Words at white space and punctuation, by hand.
#include <gtest/gtest.h>

#include "text/pre_tokenizers.h"

namespace qkv::text {
namespace {

std::vector<std::string> words_of(std::string_view text) {
  Characters characters = to_characters(text);
  std::vector<std::string> words;
  for (const Word& word : BertPreTokenizer().split(characters)) {
    words.push_back(to_utf8(CharacterSpan(characters).subspan(word.begin, word.end - word.begin)));
  }
  return words;
}

TEST(BertPreTokenizer, SplitsAtSpaceAndAroundPunctuation) {
  EXPECT_EQ(words_of("Hey friend!     How are you?!?"),
            (std::vector<std::string>{"Hey", "friend", "!", "How", "are", "you", "?", "!", "?"}));
  EXPECT_EQ(words_of(" a$b\xE2\x80\x94"
                     "c\xE3\x80\x80"
                     "d"),
            (std::vector<std::string>{"a", "$", "b", "\xE2\x80\x94", "c", "d"}));
  EXPECT_EQ(words_of(" \t "), std::vector<std::string>{});
  EXPECT_EQ(words_of(""), std::vector<std::string>{});
}

}  // namespace
}  // namespace qkv::text
