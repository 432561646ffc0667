// Reads the model of a tokenizer.json, by its type.
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/stop.h"
#include "text/tokenizer_parts.h"
#include "text/vocabularies/bpe.h"
#include "text/vocabularies/unigram.h"
#include "text/vocabularies/wordpiece.h"

namespace qkv::text {

Vocabulary read_vocabulary(const JsonValue& tokens, const TokenLimits& limits) {
  std::vector<Vocabulary::Entry> entries;
  entries.reserve(std::min(tokens.size(), static_cast<std::size_t>(limits.vocab)));
  tokens.for_each_member([&](const std::string& token, const JsonValue& id) {
    limits.check_count(entries.size(), id);
    entries.push_back({limits.text(id, token), limits.id(id)});
  });
  return build_from(tokens, [&] { return Vocabulary(std::move(entries)); });
}

namespace {

std::unique_ptr<Model> read_wordpiece(const JsonValue& stage, const TokenLimits& limits) {
  const WordPieceOptions options{
      .unknown_token = stage["unk_token"].string(),
      .continuing_prefix = stage["continuing_subword_prefix"].string(),
      .max_word_characters = static_cast<std::size_t>(stage["max_input_chars_per_word"].integer(0, INT32_MAX))};
  Vocabulary vocabulary = read_vocabulary(stage["vocab"], limits);
  return build_from(stage["unk_token"], [&] { return std::make_unique<WordPiece>(std::move(vocabulary), options); });
}

// "left right" or ["left", "right"].
void add_merge(const JsonValue& merge, Bpe& model) {
  if (merge.is_string()) {
    const std::string text = merge.string();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      merge.refuse("must be two tokens with a space between");
    }
    model.add_merge(std::string_view(text).substr(0, space), std::string_view(text).substr(space + 1));
    return;
  }
  const std::vector<JsonValue> parts = merge.elements();
  if (parts.size() != 2) merge.refuse("must be two tokens");
  model.add_merge(parts[0].string(), parts[1].string());
}

std::unique_ptr<Model> read_bpe(const JsonValue& stage, const TokenLimits& limits) {
  if (const auto dropout = stage.find("dropout")) {
    if (dropout->number() != 0) dropout->refuse("is not supported; set it to null");
  }
  const BpeOptions options{.unknown_token = optional_string(stage, "unk_token"),
                           .continuing_prefix = optional_string(stage, "continuing_subword_prefix"),
                           .word_suffix = optional_string(stage, "end_of_word_suffix"),
                           .fuse_unknown = optional_boolean(stage, "fuse_unk", false),
                           .byte_fallback = optional_boolean(stage, "byte_fallback", false),
                           .ignore_merges = optional_boolean(stage, "ignore_merges", false)};
  Vocabulary vocabulary = read_vocabulary(stage["vocab"], limits);
  auto model = build_from(stage, [&] { return std::make_unique<Bpe>(std::move(vocabulary), options); });
  const JsonValue merges = stage["merges"];
  model->reserve_merges(merges.size());
  merges.for_each_element([&](const JsonValue& merge) { build_from(stage, [&] { add_merge(merge, *model); }); });
  return model;
}

// [[token, score], ...], whose ids are their positions.
std::unique_ptr<Model> read_unigram(const JsonValue& stage, const TokenLimits& limits) {
  std::vector<Vocabulary::Entry> entries;
  std::vector<double> scores;
  StopTurns turns;
  const std::vector<JsonValue> items = stage["vocab"].elements();
  entries.reserve(items.size()), scores.reserve(items.size());
  for (const JsonValue& item : items) {
    turns.next();
    const std::vector<JsonValue> pair = item.elements();
    if (pair.size() != 2) item.refuse("must be [token, score]");
    limits.check_count(entries.size(), item);
    entries.push_back({limits.text(pair[0], pair[0].string()), static_cast<std::int32_t>(entries.size())});
    scores.push_back(pair[1].number());
  }
  const UnigramOptions options{.unknown_id = limits.id(stage["unk_id"]),
                               .byte_fallback = optional_boolean(stage, "byte_fallback", false)};
  Vocabulary vocabulary = build_from(stage["vocab"], [&] { return Vocabulary(std::move(entries)); });
  return build_from(stage["unk_id"], [&] { return std::make_unique<Unigram>(std::move(vocabulary), scores, options); });
}

}  // namespace

std::unique_ptr<Model> read_model(const JsonValue& stage, const TokenLimits& limits) {
  const std::string type = stage["type"].string();
  if (type == "WordPiece") return read_wordpiece(stage, limits);
  if (type == "BPE") return read_bpe(stage, limits);
  if (type == "Unigram") return read_unigram(stage, limits);
  refuse_type(stage, "WordPiece, BPE, Unigram");
}

}  // namespace qkv::text
