// Tokens and ids both ways, and duplicates that are refused.
#include "text/vocabulary.h"

#include <gtest/gtest.h>

#include <stdexcept>

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
}

TEST(Vocabulary, RefusesWhatIsThereTwice) {
  EXPECT_THROW(Vocabulary({{"a", 1}, {"a", 2}}), std::invalid_argument);
  EXPECT_THROW(Vocabulary({{"a", 1}, {"b", 1}}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::text
