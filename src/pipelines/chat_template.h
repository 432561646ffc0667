// Chat templates: how a folder's model expects what its user says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace qkv::inline pipelines {

// A user's first message, and the beginning of the answer: `before`, the message, `behind`. An answer ends with `mark`,
// with blanks in front of it and white space behind it, and the next message stands between `next` and `behind`; where
// `next` is empty that is not known.
struct ChatTemplate {
  std::string before{}, behind{}, blanks{}, mark{}, space{}, next{};
  bool trims = false;     // white space around the message is left out
  std::string refusal{};  // why there is none

  std::string render(std::string_view message) const;  // FormatError with the refusal
  // Continues a conversation, whose text so far ends with an answer, or with a part of it. FormatError for a text
  // that does not begin as conversations do.
  std::string render_next(std::string_view text, std::string_view message) const;
};

// The kinds ChatML, Llama 2 and 3, Mistral and Gemma, recognised by their marks in the Jinja source. A system prompt
// that the source has of its own is kept; templates of Llama 3 that would ask for today's date say 26 Jul 2024, as they
// do themselves where there is no clock. `begin`, `end`: the tokens that begin and end a text. Nothing for any other
// source.
std::optional<ChatTemplate> parse_chat_template(std::string_view source, std::string_view begin, std::string_view end);

// Reads the folder's chat_template.jinja, else its tokenizer_config.json.
ChatTemplate read_chat_template(const std::string& folder);

}  // namespace qkv::inline pipelines
