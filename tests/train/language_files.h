// A training of a language model that takes a second: numbers in words.
#pragma once

#include "qkv/train/train_translator.h"

namespace qkv::test {

inline constexpr const char* kTinyLanguage = R"({
 "kind": "language",
 "model": {"model_dim": 16, "heads": 2, "kv_heads": 1, "ff_dim": 32, "layers": 1, "positions": 24, "dropout": 0.1},
 "tokenizer": {"vocab": 275},
 "training": {"steps": 30, "batch_tokens": 200, "rate": 0.01, "warmup": 5, "clip": 1, "long_texts": "cut",
              "log_every": 5, "validate_every": 10}
})";

// A document of so many lines.
inline std::string counting(int lines, int first = 0) {
  const std::string words[] = {"one", "two", "three", "four", "five"};
  std::string text;
  for (int i = first; i < first + lines; ++i) text += words[i % 5] + " " + words[(i + 1) % 5] + "\n";
  return text;
}

// Puts the files of a training into a folder.
template <class Folder>
TrainTranslatorFiles tiny_language(const Folder& folder) {
  std::string train, valid;
  for (int i = 1; i < 12; ++i) train += (i == 1 ? "" : "\n") + counting(i, i);
  for (int i = 2; i < 9; i += 3) valid += (i == 2 ? "" : "\n") + counting(i, i + 1);
  return {.config = folder.put("language.json", kTinyLanguage),
          .train = folder.put("train.txt", train),
          .valid = folder.put("valid.txt", valid),
          .out = folder / "out"};
}

}  // namespace qkv::test
