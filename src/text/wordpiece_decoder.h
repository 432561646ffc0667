// Tokens to text: pieces that continue a word are joined to it, all others follow a space.
#pragma once

#include "text/stages.h"

namespace qkv::text {

class WordPieceDecoder : public Decoder {
 public:
  // `cleanup`: no space before punctuation and English contractions.
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void decode(std::vector<std::string>& tokens) const override;

 private:
  std::string prefix_;
  bool cleanup_;
};

}  // namespace qkv::text
