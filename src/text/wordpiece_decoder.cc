#include "text/wordpiece_decoder.h"

#include <array>

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

std::string replace_all(std::string_view text, const Replacement& rule) {
  std::string result;
  for (;;) {
    const std::size_t at = text.find(rule.from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += rule.to;
    text.remove_prefix(at + rule.from.size());
  }
}

}  // namespace

std::string WordPieceDecoder::decode(const std::vector<std::string_view>& tokens) const {
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool continues = i > 0 && tokens[i].starts_with(prefix_);
    std::string part(i > 0 && !continues ? " " : "");
    part += tokens[i].substr(continues ? prefix_.size() : 0);
    if (cleanup_) {
      for (const Replacement& rule : kCleanup) part = replace_all(part, rule);
    }
    text += part;
  }
  return text;
}

}  // namespace qkv::text
