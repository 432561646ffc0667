// Detokenizes token by token, and reads rows of logits.
#include "explain/observe/written_tokens.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/mathematics.h"
#include "explain/observe/token_names.h"
#include "ops/rowwise/row_kernels.h"

namespace qkv::inline explaining {
namespace {

// Rows of a model may have no token.
bool is_token(const Tokenizer* tokenizer, std::int32_t id) { return tokenizer != nullptr && tokenizer->contains(id); }

// Ends of lines are seen.
std::string seen_text(const std::string& text) {
  std::string seen;
  for (const char c : text) {
    c == '\n' ? seen += "\\n" : c == '\r' ? seen += "\\r" : c == '\t' ? seen += "\\t" : seen += c;
  }
  return seen;
}

bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t'; }

std::string name_of_id(std::int32_t id) { return fmt::format("#{}", id); }

}  // namespace

TokenPieces::TokenPieces(const Tokenizer* tokenizer, std::span<const std::int32_t> ids) {
  std::optional<DecodeStream> stream;
  if (tokenizer != nullptr) stream.emplace(*tokenizer);
  bool alone = true;  // what comes next continues no word
  for (const std::int32_t id : ids) {
    const bool is_known = is_token(tokenizer, id);
    const std::string text = is_known ? stream->put(id) : "";
    const std::size_t begin = text.find_first_not_of(' ');
    const bool special = is_known && tokenizer->decode(std::span(&id, 1)).empty() && text.empty();
    const std::string shown = begin == std::string::npos ? "" : seen_text(text.substr(begin));
    const bool begins = alone || special || !is_known || (!text.empty() && is_blank(text.front()));
    const std::string name = is_known ? label_of(tokenizer->token_of(id)) : name_of_id(id);
    const std::string instead = text.empty() ? name : kBlank;
    tokens.push_back((begins ? "" : kPieceMark) + (shown.empty() ? instead : shown));
    marks.push_back(special ? 1 : 0);
    if (begins) words.words.emplace_back();
    words.words.back() += special || !is_known ? tokens.back() : shown;  // it may be a space, or part of a character
    words.word_of.push_back(std::ssize(words.words) - 1);
    alone = special || !is_known || text.ends_with('\n');
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string& word = words.words[static_cast<std::size_t>(words.word_of[i])];
    if (word.empty()) word = tokens[i];
  }
}

std::span<const float> row_of(const TensorView& rows, std::size_t i) {
  const auto size = static_cast<std::size_t>(rows.size(1));
  return {rows.data<float>() + i * size, size};
}

TokenProbability probability_of(std::int32_t id, std::span<const float> logits, double log_sum_exp,
                                const Tokenizer* tokenizer) {
  const double logit = static_cast<double>(logits[static_cast<std::size_t>(id)]);
  std::string name = name_of_id(id);
  if (is_token(tokenizer, id)) {
    const std::string text = tokenizer->decode(std::span(&id, 1));
    name = text.find_first_not_of(' ') != std::string::npos ? seen_text(text) : label_of(tokenizer->token_of(id));
  }
  return {std::move(name), id, exp(logit - log_sum_exp)};
}

std::vector<WrittenToken> written_tokens(const TensorView& logits, std::span<const std::int32_t> output,
                                         const Tokenizer* tokenizer) {
  constexpr std::size_t kCandidates = 5;
  std::vector<WrittenToken> all;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const std::span row = row_of(logits, i);
    const double sum = log_sum_exp(row);
    WrittenToken& token = all.emplace_back(probability_of(output[i], row, sum, tokenizer));
    std::vector<TokenLogit> largest(std::min(kCandidates, row.size()));
    largest.resize(largest_logits(row, largest));
    for (const TokenLogit& one : largest) token.candidates.push_back(probability_of(one.token, row, sum, tokenizer));
  }
  return all;
}

std::vector<double> log_probabilities(const TensorView& logits, std::span<const std::int32_t> output) {
  std::vector<double> found;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const std::span row = row_of(logits, i);
    found.push_back(static_cast<double>(row[static_cast<std::size_t>(output[i])]) - log_sum_exp(row));
  }
  return found;
}

}  // namespace qkv::inline explaining
