// A folder with the tiny model of golden/bert, or another, in model/, and a tokenizer of one-letter words.
#pragma once

#include "apps/program.h"

namespace qkv::test {

struct TinyBert : Folder {
  explicit TinyBert(const std::string& model = "bert/tiny") {
    std::filesystem::copy(QKV_TEST_DATA "/golden/" + model, *this / "model");
    put("model/tokenizer.json",
        R"({"added_tokens": [], "normalizer": null, "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": null, "decoder": null, "model": {"type": "WordPiece", "unk_token": "?",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {"?": 0, "a": 1, "b": 2}}})");
  }
};

}  // namespace qkv::test
