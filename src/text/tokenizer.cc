#include "qkv/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "qkv/files.h"
#include "text/tokenizer_parts.h"

namespace qkv {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20;

using text::AddedTokens;
using text::Character;
using text::Characters;
using text::CharacterSpan;
using text::Piece;
using text::Word;

// The tokens of one text on the way to an Encoding.
class Encoder {
 public:
  Encoder(const Tokenizer::Parts& parts, std::size_t limit) : parts_(parts), limit_(limit) {}

  void run(std::string_view utf8) {
    const Characters characters = text::to_characters(utf8);
    for (const AddedTokens::Section& section : parts_.added.split(characters, false)) {
      if (section.token != nullptr) {
        add(section);
      } else {
        encode_between(section.text);
      }
    }
  }

  void add_special(const text::PostProcessor::Token& token) {
    result_.ids.push_back(token.id);
    result_.tokens.push_back(token.text);
    result_.type_ids.push_back(token.type_id);
    result_.offsets.emplace_back();
    result_.special.push_back(1);
  }

  Encoding take() { return std::move(result_); }

 private:
  bool full() const { return result_.ids.size() >= limit_; }

  // Text without added tokens that are looked for as they are.
  void encode_between(CharacterSpan raw) {
    if (full()) return;
    Characters normalized = parts_.normalizer ? parts_.normalizer->normalize(raw) : Characters(raw.begin(), raw.end());
    for (const AddedTokens::Section& section : parts_.added.split(normalized, true)) {
      if (section.token != nullptr) {
        add(section);
      } else {
        encode_words(Characters(section.text.begin(), section.text.end()));
      }
    }
  }

  void encode_words(Characters characters) {
    const auto words =
        parts_.pre_tokenizer ? parts_.pre_tokenizer->split(characters) : std::vector<Word>{{0, characters.size()}};
    for (const Word& word : words) {
      if (full()) return;
      const CharacterSpan span = CharacterSpan(characters).subspan(word.begin, word.end - word.begin);
      pieces_.clear();
      parts_.model->tokenize(span, pieces_);
      for (const Piece& piece : pieces_) {
        add(piece.entry->id, piece.entry->token, span.subspan(piece.begin, piece.end - piece.begin));
      }
    }
  }

  void add(const AddedTokens::Section& section) { add(section.token->id, text::to_utf8(section.text), section.text); }

  void add(std::int32_t id, const std::string& token, CharacterSpan span) {
    if (full()) return;
    result_.ids.push_back(id);
    result_.tokens.push_back(token);
    result_.type_ids.push_back(parts_.post_processor.type_id);
    result_.offsets.push_back({span.front().begin, span.back().end});
    result_.special.push_back(0);
  }

  const Tokenizer::Parts& parts_;
  std::size_t limit_;  // of tokens
  Encoding result_;
  std::vector<Piece> pieces_;
};

}  // namespace

Tokenizer Tokenizer::load(const std::string& path) { return parse(read_file(path, kLargestFile), path); }

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  return Tokenizer(std::make_shared<const Parts>(text::read_tokenizer_json(json, name)));
}

Encoding Tokenizer::encode(std::string_view utf8, const EncodeOptions& options) const {
  if (utf8.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw std::invalid_argument(fmt::format("encode: a text of {} bytes, at most 2^32 - 1 will do", utf8.size()));
  }
  const text::PostProcessor& around = parts_->post_processor;
  const std::size_t special = options.add_special_tokens ? around.before.size() + around.after.size() : 0;
  const std::size_t most = options.max_length == 0 ? std::numeric_limits<std::size_t>::max() : options.max_length;
  if (special > most) {
    throw std::invalid_argument(
        fmt::format("encode: max_length {} leaves no room for {} special tokens", options.max_length, special));
  }
  Encoder encoder(*parts_, most - (options.add_special_tokens ? around.after.size() : 0));
  if (options.add_special_tokens) {
    for (const auto& token : around.before) encoder.add_special(token);
  }
  encoder.run(utf8);
  if (options.add_special_tokens) {
    for (const auto& token : around.after) encoder.add_special(token);
  }
  return encoder.take();
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, const DecodeOptions& options) const {
  std::vector<std::string_view> tokens;
  for (const std::int32_t id : ids) {
    const text::AddedToken* added = parts_->added.find(id);
    const std::string_view token = added != nullptr ? parts_->added.form(*added) : std::string_view(token_of(id));
    if (!options.skip_special_tokens || !parts_->added.is_special(token)) tokens.push_back(token);
  }
  if (parts_->decoder) return parts_->decoder->decode(tokens);
  return fmt::format("{}", fmt::join(tokens, " "));
}

std::optional<std::int32_t> Tokenizer::id_of(std::string_view token) const {
  if (const text::AddedToken* added = parts_->added.find(token)) return added->id;
  if (const auto* entry = parts_->model->vocabulary().find(token)) return entry->id;
  return std::nullopt;
}

const std::string& Tokenizer::token_of(std::int32_t id) const {
  if (const text::AddedToken* added = parts_->added.find(id)) return added->content;
  if (const auto* entry = parts_->model->vocabulary().find(id)) return entry->token;
  throw std::invalid_argument(fmt::format("id {} is not in the vocabulary", id));
}

std::int64_t Tokenizer::vocab() const {
  const std::int32_t last_added = parts_->added.all().empty() ? -1 : parts_->added.all().back().id;
  return std::int64_t{1} + std::max(last_added, parts_->model->vocabulary().max_id());
}

}  // namespace qkv
