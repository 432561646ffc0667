// Words end at white space, which is dropped, and around punctuation, each character of which is a word.
#pragma once

#include "text/stages.h"

namespace qkv::text {

class BertPreTokenizer : public PreTokenizer {
 public:
  std::vector<Word> split(Characters& text) const override;
};

}  // namespace qkv::text
