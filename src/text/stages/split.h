// Pre-tokenizers that cut a text where something matches: the regular expressions of well-known tokenizers, a string,
// digits or punctuation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/stages/stages.h"

namespace qkv::text {

// Where the match that begins at `begin`, a character of the text, ends; `begin` if none does.
using Matcher = std::function<std::size_t(CharacterSpan text, std::size_t begin)>;

// GPT-2's expression, whose matches leave nothing between them.
std::size_t end_of_gpt2_word(CharacterSpan text, std::size_t begin);

// The expressions of GPT-4 (cl100k) and Llama 3, and of Qwen 2 and Qwen 3.
inline constexpr std::string_view kGpt4Expression =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwenExpression = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                                    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// The matcher of one of them or of GPT-2's, recognised by its text; nothing for any other.
std::optional<Matcher> matcher_of_expression(std::string_view expression);
Matcher matcher_of_string(std::u32string text);  // not empty
std::size_t end_of_digit(CharacterSpan text, std::size_t begin);
std::size_t end_of_punctuation(CharacterSpan text, std::size_t begin);

// How separators are treated. Of several in a row, the one next to a word is merged with it.
enum class SeparatorBecomes { nothing, word, end_of_word, beginning_of_word, one_word_with_others };

// The separators: the matches, or the text between them.
enum class Separators { matches, between };

PreTokenizer split_at(Matcher matcher, SeparatorBecomes become, Separators separators = Separators::matches);

}  // namespace qkv::text
