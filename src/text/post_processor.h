// What stands around the tokens of a text, such as [CLS] and [SEP].
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
};

}  // namespace qkv::text
