// Fine-tunings that take a second: whether a text has an even number of words; and which words belong together.
#pragma once

#include "qkv/files.h"
#include "qkv/train/train_translator.h"

namespace qkv::test {

inline constexpr const char* kTinyTexts = R"({
 "kind": "classes",
 "model": {"dropout": 0.1},
 "training": {"steps": 150, "batch": 8, "rate": 0.01, "warmup": 5, "clip": 1, "validate_every": 50}
})";

// Texts of one to six words.
inline std::string counted_texts(int count, int first = 0) {
  std::string text;
  for (int i = first; i < first + count; ++i) {
    const int words = 1 + i % 6;
    for (int w = 0; w < words; ++w) text += (w == 0 ? "w" : " w") + std::to_string((i * 3 + w) % 7);
    text += words % 2 == 0 ? "\teven\n" : "\todd\n";
  }
  return text;
}

// Puts an encoder with random weights into the folder: BERT with a table of a few words.
template <class Folder>
std::string tiny_encoder(const Folder& folder) {
  using OrderedJson = nlohmann::ordered_json;
  const std::string golden = QKV_TEST_DATA "/golden/text_training/bert/";
  folder.put("encoder/config.json", read_file(golden + "config.json"));
  folder.put("encoder/model.safetensors", read_file(golden + "model.safetensors"));
  OrderedJson vocab = {{"[PAD]", 1}, {"[UNK]", 0}, {"[CLS]", 2}, {"[SEP]", 3}};
  for (int i = 0; i < 7; ++i) vocab["w" + std::to_string(i)] = 4 + i;
  const auto special = [](const char* token, int id) {
    return OrderedJson{{"id", id},        {"content", token},    {"single_word", false}, {"lstrip", false},
                       {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  folder.put("encoder/tokenizer.json",
             OrderedJson{
                 {"version", "1.0"},
                 {"truncation", nullptr},
                 {"padding", nullptr},
                 {"added_tokens", {special("[UNK]", 0), special("[PAD]", 1), special("[CLS]", 2), special("[SEP]", 3)}},
                 {"normalizer", nullptr},
                 {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
                 {"post_processor", {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
                 {"decoder", nullptr},
                 {"model",
                  {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", vocab}}}}
                 .dump());
  return folder / "encoder";
}

inline double largest_difference(const Tensor& given, const Tensor& wanted) {
  double apart = 0;
  for (std::int64_t i = 0; i < wanted.element_count(); ++i) {
    apart = std::max(apart, static_cast<double>(std::abs(given.data<float>()[i] - wanted.data<float>()[i])));
  }
  return apart;
}

// Puts the files of a training into a folder.
template <class Folder>
TrainTranslatorFiles tiny_texts(const Folder& folder) {
  std::filesystem::create_directories(folder / "encoder");
  return {.config = folder.put("texts.json", kTinyTexts),
          .train = folder.put("train.tsv", counted_texts(60)),
          .valid = folder.put("valid.tsv", counted_texts(12, 60)),
          .from = tiny_encoder(folder),
          .out = folder / "out"};
}

// The same of pairs: a word twice, and the one behind it.
template <class Folder>
TrainTranslatorFiles tiny_sentences(const Folder& folder) {
  TrainTranslatorFiles files = tiny_texts(folder);
  std::string config = kTinyTexts, pairs;
  config.replace(config.find("classes"), 7, "contrast");
  config.replace(config.find("\"batch\": 8"), 10, "\"batch\": 7, \"chunk\": 3");
  for (int i = 0; i < 35; ++i) {
    const std::string word = "w" + std::to_string(i % 7);
    pairs += word + " " + word + "\tw" + std::to_string((i + 1) % 7) + "\n";
  }
  files.config = folder.put("contrast.json", config);
  files.train = files.valid = folder.put("pairs.tsv", pairs);
  const std::string golden = QKV_TEST_DATA "/golden/sentence_training/bert/";
  for (const char* name : {"config.json", "model.safetensors"}) {
    folder.put(std::string("encoder/") + name, read_file(golden + name));
  }
  return files;
}

}  // namespace qkv::test
