// Reads and checks tokenizer.json, version 1.0: each stage by its "type".
#include <fmt/format.h>

#include <stdexcept>

#include "io/json_document.h"
#include "io/quote.h"
#include "text/bert_normalizer.h"
#include "text/bert_pre_tokenizer.h"
#include "text/tokenizer_parts.h"
#include "text/wordpiece.h"
#include "text/wordpiece_decoder.h"

namespace qkv::text {
namespace {

using io::JsonValue;

constexpr std::int64_t kMaxId = INT32_MAX;
constexpr std::size_t kLongestToken = 1024;  // characters: bounds the work at each place of a text

[[noreturn]] void refuse_type(const JsonValue& stage, std::string_view known) {
  stage["type"].refuse(fmt::format("is {}, known is only {}", io::quote(stage["type"].string()), known));
}

const std::string& token_text(const JsonValue& value, const std::string& text) {
  if (to_code_points(text).size() > kLongestToken) {
    value.refuse(fmt::format("is longer than {} characters", kLongestToken));
  }
  return text;
}

std::int32_t token_id(const JsonValue& value) { return static_cast<std::int32_t>(value.integer(0, kMaxId)); }

// Calls `build`, whose std::invalid_argument is a rule that `value` breaks.
template <class Build>
auto build_from(const JsonValue& value, const Build& build) {
  try {
    return build();
  } catch (const std::invalid_argument& broken) {
    value.refuse(fmt::format("breaks a rule: {}", broken.what()));
  }
}

std::unique_ptr<Normalizer> read_normalizer(const JsonValue& stage) {
  if (stage["type"].string() != "BertNormalizer") refuse_type(stage, "BertNormalizer");
  BertNormalizerOptions options{.clean_text = stage["clean_text"].boolean(),
                                .handle_chinese_chars = stage["handle_chinese_chars"].boolean(),
                                .lowercase = stage["lowercase"].boolean()};
  const auto strip_accents = stage.find("strip_accents");
  options.strip_accents = strip_accents ? strip_accents->boolean() : options.lowercase;
  return std::make_unique<BertNormalizer>(options);
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonValue& stage) {
  if (stage["type"].string() != "BertPreTokenizer") refuse_type(stage, "BertPreTokenizer");
  return std::make_unique<BertPreTokenizer>();
}

std::unique_ptr<Decoder> read_decoder(const JsonValue& stage) {
  if (stage["type"].string() != "WordPiece") refuse_type(stage, "WordPiece");
  return std::make_unique<WordPieceDecoder>(stage["prefix"].string(), stage["cleanup"].boolean());
}

std::unique_ptr<Model> read_model(const JsonValue& stage) {
  if (stage["type"].string() != "WordPiece") refuse_type(stage, "WordPiece");
  const WordPieceOptions options{
      .unknown_token = stage["unk_token"].string(),
      .continuing_prefix = stage["continuing_subword_prefix"].string(),
      .max_word_characters = static_cast<std::size_t>(stage["max_input_chars_per_word"].integer(0, kMaxId))};
  std::vector<Vocabulary::Entry> entries;
  stage["vocab"].for_each_member(
      [&](const std::string& token, const JsonValue& id) { entries.push_back({token_text(id, token), token_id(id)}); });
  Vocabulary vocabulary = build_from(stage["vocab"], [&] { return Vocabulary(std::move(entries)); });
  return build_from(stage["unk_token"], [&] { return std::make_unique<WordPiece>(std::move(vocabulary), options); });
}

AddedTokens read_added_tokens(const JsonValue& list, const Vocabulary& vocabulary, const Normalizer* normalizer) {
  std::vector<AddedToken> tokens;
  for (const JsonValue& item : list.elements()) {
    const AddedToken token{.content = token_text(item["content"], item["content"].string()),
                           .id = token_id(item["id"]),
                           .special = item["special"].boolean(),
                           .single_word = item["single_word"].boolean(),
                           .lstrip = item["lstrip"].boolean(),
                           .rstrip = item["rstrip"].boolean(),
                           .normalized = item["normalized"].boolean()};
    const Vocabulary::Entry* same_id = vocabulary.find(token.id);
    if (same_id != nullptr && same_id->token != token.content) {
      item["id"].refuse(fmt::format("is {}, which is {} in model.vocab", token.id, io::quote(same_id->token)));
    }
    const Vocabulary::Entry* same_token = vocabulary.find(token.content);
    if (same_token != nullptr && same_token->id != token.id) {
      item["id"].refuse(fmt::format("is {}, but the token is {} in model.vocab", token.id, same_token->id));
    }
    tokens.push_back(token);
  }
  return build_from(list, [&] { return AddedTokens(std::move(tokens), normalizer); });
}

// The vocabulary of a whole tokenizer, for the tokens that a post-processor names.
struct KnownTokens {
  const Vocabulary& vocabulary;
  const AddedTokens& added;

  PostProcessor::Token check(const JsonValue& text, const JsonValue& id, std::int32_t type_id) const {
    const PostProcessor::Token token{text.string(), token_id(id), type_id};
    const AddedToken* as_added = added.find(token.id);
    const Vocabulary::Entry* as_entry = vocabulary.find(token.id);
    if ((as_added == nullptr || as_added->content != token.text) &&
        (as_entry == nullptr || as_entry->token != token.text)) {
      id.refuse(fmt::format("is {}, which is not the id of {}", token.id, io::quote(token.text)));
    }
    return token;
  }
};

PostProcessor read_bert_processing(const JsonValue& stage, const KnownTokens& known) {
  const auto token = [&](const char* name) {
    const std::vector<JsonValue> pair = stage[name].elements();
    if (pair.size() != 2) stage[name].refuse("must be [token, id]");
    return std::vector{known.check(pair[0], pair[1], 0)};
  };
  return {.before = token("cls"), .after = token("sep")};
}

PostProcessor read_template(const JsonValue& stage, const KnownTokens& known) {
  PostProcessor result;
  bool text_seen = false;
  for (const JsonValue& piece : stage["single"].elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      if ((*sequence)["id"].string() != "A") (*sequence)["id"].refuse("must be \"A\", the only text");
      if (text_seen) piece.refuse("must not be a second place of the text");
      text_seen = true;
      result.type_id = token_id((*sequence)["type_id"]);
      continue;
    }
    const JsonValue special = piece["SpecialToken"];
    const JsonValue definition = stage["special_tokens"][special["id"].string()];
    const std::vector<JsonValue> ids = definition["ids"].elements();
    const std::vector<JsonValue> tokens = definition["tokens"].elements();
    if (ids.size() != tokens.size()) definition["ids"].refuse("must be as many as tokens");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      (text_seen ? result.after : result.before)
          .push_back(known.check(tokens[i], ids[i], token_id(special["type_id"])));
    }
  }
  if (!text_seen) stage["single"].refuse("must have a place for the text, Sequence \"A\"");
  return result;
}

PostProcessor read_post_processor(const JsonValue& stage, const KnownTokens& known) {
  const std::string& type = stage["type"].string();
  if (type == "TemplateProcessing") return read_template(stage, known);
  if (type == "BertProcessing") return read_bert_processing(stage, known);
  refuse_type(stage, "TemplateProcessing or BertProcessing");
}

}  // namespace

Tokenizer::Parts read_tokenizer_json(std::string_view json, const std::string& file) {
  const io::JsonDocument document(json, file);
  const JsonValue root = document.root();
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    version->refuse(fmt::format("is {}, known is only \"1.0\"", io::quote(version->string())));
  }
  Tokenizer::Parts parts;
  if (const auto stage = root.find("normalizer")) parts.normalizer = read_normalizer(*stage);
  if (const auto stage = root.find("pre_tokenizer")) parts.pre_tokenizer = read_pre_tokenizer(*stage);
  if (const auto stage = root.find("decoder")) parts.decoder = read_decoder(*stage);
  parts.model = read_model(root["model"]);
  if (const auto list = root.find("added_tokens")) {
    parts.added = read_added_tokens(*list, parts.model->vocabulary(), parts.normalizer.get());
  }
  if (const auto stage = root.find("post_processor")) {
    parts.post_processor = read_post_processor(*stage, {parts.model->vocabulary(), parts.added});
  }
  return parts;
}

}  // namespace qkv::text
