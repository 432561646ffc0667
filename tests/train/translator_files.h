// A training that takes a second: a few words of two made-up languages.
#pragma once

#include "qkv/train/train_translator.h"

namespace qkv::test {

// `count` pairs of one to four words, each word of the source with its own word in the target.
inline std::string pairs_of_words(int count, int first = 0) {
  const std::string source[] = {"one", "two", "three", "four", "five"},
                    target[] = {"uno", "dos", "tres", "cuatro", "cinco"};
  std::string text;
  for (int i = first; i < first + count; ++i) {
    std::string left, right;
    for (int rest = i + 1; rest > 0; rest /= 5) {
      left += (left.empty() ? "" : " ") + source[rest % 5];
      right += (right.empty() ? "" : " ") + target[rest % 5];
    }
    text += left + "\t" + right + "\n";
  }
  return text;
}

inline constexpr const char* kTinyConfig = R"({
 "model": {"model_dim": 16, "heads": 2, "ff_dim": 32, "encoder_layers": 1, "decoder_layers": 1, "positions": 24,
           "dropout": 0.1},
 "tokenizer": {"vocab": 280},
 "training": {"steps": 30, "batch_tokens": 200, "rate": 0.01, "warmup": 5, "clip": 1, "label_smoothing": 0.1,
              "log_every": 5, "validate_every": 10, "average": 2}
})";

// Puts the files of a training into a folder.
template <class Folder>
TrainTranslatorFiles tiny_training(const Folder& folder) {
  return {.config = folder.put("config.json", kTinyConfig),
          .train = folder.put("train.tsv", pairs_of_words(60)),
          .valid = folder.put("valid.tsv", pairs_of_words(10, 60)),
          .out = folder / "out"};
}

}  // namespace qkv::test
