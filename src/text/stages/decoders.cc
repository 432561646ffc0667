// Detokenizers of byte-pair, unigram and WordPiece vocabularies.
#include "text/stages/decoders.h"

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/stages/byte_alphabet.h"

namespace qkv::text {
namespace {

// Every occurrence of a string in a text, from left to right, replaced by another. `from` is not empty.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (;;) {
    const std::size_t at = text.find(from);
    result += text.substr(0, at);
    if (at == std::string_view::npos) return result;
    result += to;
    text.remove_prefix(at + from.size());
  }
}

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

Decoder word_piece_decoder(std::string prefix, bool cleanup) {
  return [prefix = std::move(prefix), cleanup](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      const bool continues = i > 0 && token.starts_with(prefix);
      token = (i > 0 && !continues ? " " : "") + token.substr(continues ? prefix.size() : 0);
      if (!cleanup) continue;
      for (const Replacement& rule : kCleanup) token = replace_all(token, rule.from, rule.to);
    }
  };
}

namespace {

// "<0x41>" is the byte 0x41.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  unsigned value = 0;
  const char* end = token.data() + 5;
  const auto [stopped, error] = std::from_chars(token.data() + 3, end, value, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return static_cast<char>(value);
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Decoded next = decode_utf8(bytes);
    if (next.code == kReplacement && !bytes.starts_with("\xEF\xBF\xBD")) return false;
    bytes.remove_prefix(next.size);
  }
  return true;
}

}  // namespace

void decode_byte_level(std::vector<std::string>& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) {
    const std::size_t before = bytes.size();
    for (const char32_t code : to_code_points(token)) {
      const auto byte = byte_of(code);
      if (!byte) {  // a token of another alphabet stays what it is
        bytes.resize(before);
        bytes += token;
        break;
      }
      bytes += static_cast<char>(*byte);
    }
  }
  std::string text;
  for (const char32_t code : to_code_points(bytes)) append_utf8(text, code);
  tokens = {std::move(text)};
}

Decoder metaspace_decoder(std::string replacement, bool first_goes) {
  return [replacement = std::move(replacement), first_goes](std::vector<std::string>& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(tokens[i], replacement, i == 0 && first_goes ? "" : " ");
    }
  };
}

Decoder suffix_decoder(std::string suffix) {
  return [suffix = std::move(suffix)](std::vector<std::string>& tokens) {
    if (suffix.empty()) return;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    }
  };
}

void decode_byte_fallback(std::vector<std::string>& tokens) {
  std::vector<std::string> result;
  std::string bytes;
  const auto flush = [&] {
    if (is_utf8(bytes)) {
      if (!bytes.empty()) result.push_back(bytes);
    } else {
      result.insert(result.end(), bytes.size(), "\xEF\xBF\xBD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  tokens = std::move(result);
}

Decoder replace_decoder(std::string from, std::string to) {
  return [from = std::move(from), to = std::move(to)](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) token = replace_all(token, from, to);
  };
}

void fuse(std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  tokens = {std::move(text)};
}

Decoder strip_decoder(std::string character, std::size_t start, std::size_t stop) {
  return [character = std::move(character), start, stop](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (std::size_t i = 0; i < start && rest.starts_with(character); ++i) rest.remove_prefix(character.size());
      for (std::size_t i = 0; i < stop && rest.ends_with(character); ++i) rest.remove_suffix(character.size());
      token = std::string(rest);
    }
  };
}

Decoder in_turn(std::vector<Decoder> steps) {
  return [steps = std::move(steps)](std::vector<std::string>& tokens) {
    for (const Decoder& step : steps) step(tokens);
  };
}

}  // namespace qkv::text
