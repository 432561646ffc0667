// The pairs of a training: read, checked, and as tokens.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "io/files/files.h"
#include "qkv/text/tokenizer.h"
#include "qkv/train/train_translator.h"
#include "train/config/train_config.h"
#include "train/data/vocabulary.h"

namespace qkv::training {

// The pairs of `path`, one of the files. FormatError for the first bad line; or they are left out, which is noticed.
// `reserved` as in io/files.h.
io::PairLines read_training_pairs(const std::string& path, std::span<const std::string> reserved,
                                  const TrainTranslatorFiles& files, const Notice& notice);

// Notices how many pairs to validate with are also trained on.
void notice_shared_pairs(const io::PairLines& train, const io::PairLines& valid, const std::string& valid_path,
                         const Notice& notice);

// The tokenizer of one side: its texts end with `end`.
struct SideTokens {
  const Tokenizer& tokenizer;
  std::int32_t end;
};

// Pairs with a side of more than max_length tokens are left out or truncated, which is noticed.
std::vector<TokenPair> encode_pairs(const io::PairLines& texts, const SideTokens& source, const SideTokens& target,
                                    const TrainConfig& config, const std::string& path, const Notice& notice);

}  // namespace qkv::training
