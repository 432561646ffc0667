// Joins WordPiece tokens to text.
#include "text/wordpiece_decoder.h"

#include <array>

#include "text/replace_all.h"

namespace qkv::text {
namespace {

struct Replacement {
  std::string_view from;
  std::string_view to;
};

// In this order, each over the whole token.
constexpr std::array<Replacement, 11> kCleanup = {{{" .", "."},
                                                   {" ?", "?"},
                                                   {" !", "!"},
                                                   {" ,", ","},
                                                   {" ' ", "'"},
                                                   {" n't", "n't"},
                                                   {" 'm", "'m"},
                                                   {" do not", " don't"},
                                                   {" 's", "'s"},
                                                   {" 've", "'ve"},
                                                   {" 're", "'re"}}};

}  // namespace

void WordPieceDecoder::decode(std::vector<std::string>& tokens) const {
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    const bool continues = i > 0 && token.starts_with(prefix_);
    token = (i > 0 && !continues ? " " : "") + token.substr(continues ? prefix_.size() : 0);
    if (!cleanup_) continue;
    for (const Replacement& rule : kCleanup) token = replace_all(token, rule.from, rule.to);
  }
}

}  // namespace qkv::text
