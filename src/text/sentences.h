// Splits a text into sentences. The rules are in docs/semantics.md ("Sentences").
#pragma once

#include <string_view>
#include <vector>

namespace qkv::text {

// Characters that may follow an end mark and white space.
enum class SentenceBegin { not_lower_case, anything };

// The sentences of a text, in order, without the white space around them; none is empty.
std::vector<std::string_view> split_sentences(std::string_view text,
                                              SentenceBegin begin = SentenceBegin::not_lower_case);

// Whether the text is nothing but white space.
bool is_blank(std::string_view text);

// Whether the text ends with a mark of East Asian width, after which no space comes.
bool ends_wide(std::string_view text);

}  // namespace qkv::text
