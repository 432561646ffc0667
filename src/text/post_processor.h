// What is put around the tokens of a text, such as [CLS] and [SEP], and whose spaces they count as theirs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace qkv::text {

struct PostProcessor {
  struct Token {
    std::string text;
    std::int32_t id;
    std::int32_t type_id;
  };
  std::vector<Token> before;
  std::int32_t type_id = 0;  // of the tokens of the text
  std::vector<Token> after;

  // Where a token begins and ends in the text: with the spaces that it has at its ends, or without them. A space that
  // was put before the text is not there to be left out.
  enum class Spaces { kept, trimmed, trimmed_after_prefix };
  Spaces spaces = Spaces::kept;
};

}  // namespace qkv::text
