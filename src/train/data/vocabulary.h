// The tokenizer of a training: given, or the folder's own, or learned.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "qkv/text/tokenizer.h"
#include "qkv/text/train_tokenizer.h"

namespace qkv::training {

using Notice = std::function<void(const std::string&)>;

inline constexpr const char* kEnd = "</s>";
inline constexpr const char* kPadding = "<pad>";

class Vocabulary {
 public:
  // The tokenizer in the file that is given, or that the folder `out` has in `name`; with neither, the smallest one,
  // until learn().
  Vocabulary(const std::string& out, const std::string& name, const std::string& given,
             EndTokenPlace place = EndTokenPlace::behind);

  // Learns from texts, if there was no tokenizer; gives notice if the vocabulary is smaller than requested.
  void learn(const std::vector<const std::string*>& texts, std::int64_t vocab, const Notice& notice);

  bool is_given() const { return is_given_; }
  const std::string& name() const { return name_; }  // of its file in the folder
  const std::string& path() const { return path_; }  // for messages
  const std::string& json() const { return json_; }
  std::string checksum() const;
  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::int32_t need(const std::string& token) const;  // its id; FormatError without such a token

 private:
  std::string name_, path_;
  EndTokenPlace place_;
  bool is_given_, is_found_;
  std::string json_;
  Tokenizer tokenizer_;
};

// The file that is given, or that of the folder which training begins from; neither: empty.
std::string given_tokenizer(const std::string& file, const std::string& from, const std::string& name);

// tokenizer_config.json, as transformers.AutoTokenizer reads it with tokenizer.json.
void write_tokenizer_config(const std::string& folder, const Tokenizer& tokenizer, std::int64_t positions);

}  // namespace qkv::training
