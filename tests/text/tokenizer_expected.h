// The tokens of a tokenizer against a list of them that the reference made.
#pragma once

#include <gtest/gtest.h>

#include "qkv/text/tokenizer.h"
#include "text/tokenizer_files.h"

namespace qkv {

// As make.py and make_schemes.py write them: "id:begin:end" for each token, positions counted in characters.
inline std::string described(const Encoding& encoding, std::string_view text) {
  std::vector<std::size_t> character_at(text.size() + 1);
  std::size_t seen = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    character_at[i] = seen;
    if (i + 1 == text.size() || (static_cast<unsigned char>(text[i + 1]) & 0xC0) != 0x80) ++seen;
  }
  character_at[text.size()] = seen;
  std::string result;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    const TextSpan span = encoding.offsets[i];
    result += (i == 0 ? "" : " ") + std::to_string(encoding.ids[i]) + ":" + std::to_string(character_at[span.begin]) +
              ":" + std::to_string(character_at[span.end]);
  }
  return result;
}

inline void expect_tokens(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                          const std::vector<std::string>& expected) {
  ASSERT_EQ(texts.size(), expected.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string tokens = described(tokenizer.encode(texts[i]), texts[i]);
    if (tokens == expected[i]) continue;
    ADD_FAILURE() << "text " << i << " " << nlohmann::json(texts[i]).dump(-1, ' ', true) << "\n  is " << tokens
                  << "\n  not " << expected[i];
    if (++wrong == 10) FAIL() << "further differences are not shown";
  }
}

}  // namespace qkv
