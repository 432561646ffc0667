// A folder with the tiny model of golden/bert, or another, and a tokenizer of one-letter words.
#pragma once

#include "apps/program.h"

namespace qkv::test {

struct TinyBert : TempFolder {
  explicit TinyBert(const std::string& model = "bert/tiny") {
    for (const auto& entry : std::filesystem::directory_iterator(QKV_TEST_DATA "/golden/" + model)) {
      std::filesystem::copy_file(entry.path(), *this / entry.path().filename().string());
    }
    std::ofstream(*this / "tokenizer.json")
        << R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "BertPreTokenizer"},
               "post_processor": null, "decoder": null, "model": {"type": "WordPiece", "unk_token": "?",
               "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"?": 0, "a": 1, "b": 2}}})";
  }
};

}  // namespace qkv::test
