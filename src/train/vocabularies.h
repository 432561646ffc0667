// The tokenizers of a training: one for both sides, or one for each; given, or the folder's own, or learned.
#pragma once

#include <string>
#include <vector>

#include "qkv/text/tokenizer.h"
#include "qkv/train/train_translator.h"
#include "train/train_config.h"
#include "train/training_pairs.h"

namespace qkv::training {

// Names of the files in a folder.
inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kTargetTokenizerFile = "target_tokenizer.json";

inline constexpr const char* kEnd = "</s>";
inline constexpr const char* kPadding = "<pad>";
inline constexpr const char* kUnknown = "<unk>";

class Vocabulary {
 public:
  // The tokenizer in the file that is given, or that the folder has in `name`; with neither, the smallest one, until
  // learn().
  Vocabulary(const TrainTranslatorFiles& files, const std::string& name, const std::string& given);

  // From texts, if there was no tokenizer; notices that it came out smaller than asked for.
  void learn(const std::vector<const std::string*>& texts, std::int64_t vocab, const Notice& notice);

  bool is_given() const { return is_given_; }
  const std::string& name() const { return name_; }  // of its file in the folder
  const std::string& path() const { return path_; }  // for messages
  const std::string& json() const { return json_; }
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int32_t need(const std::string& token) const;  // its id; FormatError without such a token

 private:
  std::string name_, path_;
  bool is_given_, is_found_;
  std::string json_;
  Tokenizer tokenizer_;
};

// The one of both sides; or the source's, then the target's.
std::vector<Vocabulary> find_vocabularies(const TrainTranslatorFiles& files, Vocabularies sides);

}  // namespace qkv::training
