// Reads and checks tokenizer.json, version 1.0: each stage but the model by its "type".
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/sha256.h"
#include "io/base64.h"
#include "io/files/text.h"
#include "text/json_fields.h"
#include "text/stages/charsmap.h"
#include "text/stages/decoders.h"
#include "text/stages/normalizers.h"
#include "text/stages/pre_tokenizers.h"
#include "text/stages/split.h"
#include "text/stages/stages.h"
#include "text/tokenizer_parts.h"

namespace qkv::text {
namespace {

template <class Stage>
using Readers = std::initializer_list<std::pair<const char*, Stage (*)(const JsonValue&)>>;

template <class Stage>
Stage read_by_type(const JsonValue& stage, const Readers<Stage>& readers) {
  const std::string type = stage["type"].string();
  std::string known;
  for (const auto& [name, read] : readers) {
    if (name == type) return read(stage);
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  refuse_type(stage, known);
}

// The members of `list` in turn, each read by `read`.
template <class Stage>
Stage read_all(const JsonValue& list, Stage (*read)(const JsonValue&)) {
  std::vector<Stage> stages;
  for (const JsonValue& stage : list.elements()) stages.push_back(read(stage));
  return in_turn(std::move(stages));
}

// A stage without fields of its own.
template <class Stage, auto function>
Stage plain(const JsonValue&) {
  return function;
}

std::string one_character(const JsonValue& value) {
  const std::string text = value.string();
  if (to_code_points(text).size() != 1) value.refuse("must be one character");
  return text;
}

// The string to search for; no regular expressions.
std::string pattern(const JsonValue& stage) {
  const JsonValue text = stage["pattern"]["String"];
  std::string found = text.string();
  if (found.empty()) text.refuse("must not be empty");
  return found;
}

std::size_t count(const JsonValue& value) { return static_cast<std::size_t>(value.integer(0, 1024)); }

Normalizer read_bert_normalizer(const JsonValue& stage) {
  BertNormalizerOptions options{.clean_text = stage["clean_text"].boolean(),
                                .handle_chinese_chars = stage["handle_chinese_chars"].boolean(),
                                .lowercase = stage["lowercase"].boolean()};
  options.strip_accents = optional_boolean(stage, "strip_accents", options.lowercase);
  return bert_normalizer(options);
}

Normalizer read_precompiled(const JsonValue& stage) {
  const JsonValue rules = stage["precompiled_charsmap"];
  const auto bytes = io::decode_base64(rules.string());
  if (!bytes) rules.refuse("must be base64");
  return build_from(rules, [&] { return precompiled(Charsmap(*bytes)); });
}

// Replaces a string; of regular expressions, only the one in files of SentencePiece models.
Normalizer read_replace(const JsonValue& stage) {
  const std::u32string to = to_code_points(stage["content"].string());
  if (const auto expression = stage["pattern"].find("Regex")) {
    if (expression->string() != " {2,}")
      expression->refuse("is not supported; the only supported regular expression is \" {2,}\"");
    return replace_spaces(to);
  }
  return replace(to_code_points(pattern(stage)), to);
}

template <UnicodeForm form>
Normalizer read_form(const JsonValue&) {
  return [](CharacterSpan text) { return to_form(text, form); };
}

// Older files say only whether a space is put before every text.
PrependSpace prepend_of(const JsonValue& stage) {
  const auto scheme = stage.find("prepend_scheme");
  if (!scheme) {
    return optional_boolean(stage, "add_prefix_space", true) ? PrependSpace::always : PrependSpace::never;
  }
  if (scheme->string() == "always") return PrependSpace::always;
  if (scheme->string() == "first") return PrependSpace::first;
  if (scheme->string() != "never") scheme->refuse("must be \"always\", \"first\" or \"never\"");
  return PrependSpace::never;
}

PreTokenizer read_metaspace(const JsonValue& stage) {
  const char32_t replacement = to_code_points(one_character(stage["replacement"])).front();
  return metaspace_words(replacement, prepend_of(stage), optional_boolean(stage, "split", true));
}

PreTokenizer read_byte_level(const JsonValue& stage) {
  return byte_level_words(stage["add_prefix_space"].boolean(), optional_boolean(stage, "use_regex", true));
}

SeparatorBecomes read_behavior(const JsonValue& behavior) {
  constexpr std::pair<std::string_view, SeparatorBecomes> kBehaviors[] = {
      {"Removed", SeparatorBecomes::nothing},
      {"Isolated", SeparatorBecomes::word},
      {"MergedWithPrevious", SeparatorBecomes::end_of_word},
      {"MergedWithNext", SeparatorBecomes::beginning_of_word},
      {"Contiguous", SeparatorBecomes::one_word_with_others}};
  const std::string name = behavior.string();
  for (const auto& [known, become] : kBehaviors) {
    if (name == known) return become;
  }
  behavior.refuse("must be \"Removed\", \"Isolated\", \"MergedWithPrevious\", \"MergedWithNext\" or \"Contiguous\"");
}

Matcher read_matcher(const JsonValue& stage) {
  const auto expression = stage["pattern"].find("Regex");
  if (!expression) return matcher_of_string(to_code_points(pattern(stage)));
  const auto matcher = matcher_of_expression(expression->string());
  if (!matcher) {
    expression->refuse(
        "is not supported; the supported regular expressions are those of GPT-2, GPT-4, Llama 3, Qwen 2 and Qwen 3");
  }
  return *matcher;
}

PreTokenizer read_split(const JsonValue& stage) {
  const Separators separators = stage["invert"].boolean() ? Separators::between : Separators::matches;
  return split_at(read_matcher(stage), read_behavior(stage["behavior"]), separators);
}

PreTokenizer read_digits(const JsonValue& stage) {
  const bool each = stage["individual_digits"].boolean();
  return split_at(end_of_digit, each ? SeparatorBecomes::word : SeparatorBecomes::one_word_with_others);
}

PreTokenizer read_punctuation(const JsonValue& stage) {
  const auto behavior = stage.find("behavior");
  return split_at(end_of_punctuation, behavior ? read_behavior(*behavior) : SeparatorBecomes::word);
}

Decoder read_metaspace_decoder(const JsonValue& stage) {
  return metaspace_decoder(one_character(stage["replacement"]), prepend_of(stage) != PrependSpace::never);
}

Decoder read_strip_decoder(const JsonValue& stage) {
  return strip_decoder(one_character(stage["content"]), count(stage["start"]), count(stage["stop"]));
}

Normalizer read_normalizer(const JsonValue& stage) {
  return read_by_type<Normalizer>(
      stage,
      {{"BertNormalizer", read_bert_normalizer},
       {"NFC", read_form<UnicodeForm::nfc>},
       {"NFD", read_form<UnicodeForm::nfd>},
       {"NFKC", read_form<UnicodeForm::nfkc>},
       {"NFKD", read_form<UnicodeForm::nfkd>},
       {"Lowercase", plain<Normalizer, to_lower>},
       {"StripAccents", plain<Normalizer, strip_accents>},
       {"Strip",
        [](const JsonValue& s) -> Normalizer {
          return strip_space(s["strip_left"].boolean(), s["strip_right"].boolean());
        }},
       {"Prepend",
        [](const JsonValue& s) -> Normalizer {
          return [beginning = to_code_points(s["prepend"].string())](CharacterSpan text) {
            return prepended(beginning, text);
          };
        }},
       {"Precompiled", read_precompiled},
       {"Replace", read_replace},
       {"Sequence", [](const JsonValue& s) -> Normalizer { return read_all(s["normalizers"], read_normalizer); }}});
}

PreTokenizer read_pre_tokenizer(const JsonValue& stage) {
  return read_by_type<PreTokenizer>(
      stage, {{"BertPreTokenizer", plain<PreTokenizer, bert_words>},
              {"ByteLevel", read_byte_level},
              {"Metaspace", read_metaspace},
              {"Split", read_split},
              {"Digits", read_digits},
              {"Punctuation", read_punctuation},
              {"Whitespace", [](const JsonValue&) -> PreTokenizer { return whitespace_words(true); }},
              {"WhitespaceSplit", [](const JsonValue&) -> PreTokenizer { return whitespace_words(false); }},
              {"Sequence",
               [](const JsonValue& s) -> PreTokenizer { return read_all(s["pretokenizers"], read_pre_tokenizer); }}});
}

Decoder read_decoder(const JsonValue& stage) {
  return read_by_type<Decoder>(
      stage,
      {{"WordPiece",
        [](const JsonValue& s) -> Decoder { return word_piece_decoder(s["prefix"].string(), s["cleanup"].boolean()); }},
       {"ByteLevel", plain<Decoder, decode_byte_level>},
       {"Metaspace", read_metaspace_decoder},
       {"BPEDecoder", [](const JsonValue& s) -> Decoder { return suffix_decoder(s["suffix"].string()); }},
       {"ByteFallback", plain<Decoder, decode_byte_fallback>},
       {"Replace", [](const JsonValue& s) -> Decoder { return replace_decoder(pattern(s), s["content"].string()); }},
       {"Fuse", plain<Decoder, fuse>},
       {"Strip", read_strip_decoder},
       {"Sequence", [](const JsonValue& s) -> Decoder { return read_all(s["decoders"], read_decoder); }}});
}

// Each character of an added token may cost a hundred bytes, and no file has so many.
constexpr std::size_t kMostAddedCharacters = 100'000;

AddedTokens read_added_tokens(const JsonValue& list, const TokenLimits& limits, const Vocabulary& vocabulary,
                              const Normalizer& normalizer) {
  std::vector<AddedToken> tokens;
  std::size_t characters = 0;
  for (const JsonValue& item : list.elements()) {
    const AddedToken token{.content = limits.text(item["content"], item["content"].string()),
                           .id = limits.id(item["id"]),
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
    characters += to_code_points(token.content).size();
    if (characters > kMostAddedCharacters)
      list.refuse(fmt::format("hold more than {} characters", kMostAddedCharacters));
    tokens.push_back(token);
  }
  return build_from(list, [&] { return AddedTokens(std::move(tokens), normalizer); });
}

// The vocabulary of a whole tokenizer, for the tokens that a post-processor names.
struct KnownTokens {
  TokenLimits limits;
  const Vocabulary& vocabulary;
  const AddedTokens& added;

  PostProcessor::Token check(const JsonValue& text, const JsonValue& id, std::int32_t type_id) const {
    const PostProcessor::Token token{text.string(), limits.id(id), type_id};
    const AddedToken* as_added = added.find(token.id);
    const Vocabulary::Entry* as_entry = vocabulary.find(token.id);
    if ((as_added == nullptr || as_added->content != token.text) &&
        (as_entry == nullptr || as_entry->token != token.text)) {
      id.refuse(fmt::format("is {}, which is not the id of {}", token.id, io::quote(token.text)));
    }
    return token;
  }
};

// `second_type`: of the second text of a pair and what ends it.
PostProcessor read_bert_processing(const JsonValue& stage, const KnownTokens& known, std::int32_t second_type) {
  const auto token = [&](const char* name) {
    const std::vector<JsonValue> pair = stage[name].elements();
    if (pair.size() != 2) stage[name].refuse("must be [token, id]");
    return std::vector{known.check(pair[0], pair[1], 0)};
  };
  PostProcessor result{.before = token("cls"), .after = token("sep")};
  PostProcessor::Token end = result.after[0];
  end.type_id = second_type;
  result.pair = {.before = result.before, .between = result.after, .second_type = second_type, .after = {end}};
  return result;
}

std::int32_t type_id(const JsonValue& value) { return static_cast<std::int32_t>(value.integer(0, INT32_MAX)); }

// Special tokens of a template before, between and after its texts, and their types.
struct Template {
  std::vector<std::vector<PostProcessor::Token>> around{1};
  std::vector<std::int32_t> types{};
};

// The texts are `ids`, in this order. FormatError for others.
Template read_pieces(const JsonValue& stage, const char* key, const std::vector<std::string>& ids,
                     const KnownTokens& known) {
  Template result;
  for (const JsonValue& piece : stage[key].elements()) {
    if (const auto sequence = piece.find("Sequence")) {
      const JsonValue id = (*sequence)["id"];
      const std::size_t at = result.types.size();
      if (std::ranges::find(ids, id.string()) == ids.end())
        id.refuse(ids.size() == 1 ? "must be \"A\", the only text" : "must be \"A\" or \"B\"");
      if (at == ids.size() || id.string() != ids[at]) {
        piece.refuse(ids.size() == 1 ? "must not contain the text a second time" : "must be \"A\" first, then \"B\"");
      }
      result.types.push_back(type_id((*sequence)["type_id"]));
      result.around.emplace_back();
      continue;
    }
    const JsonValue special = piece["SpecialToken"];
    const JsonValue definition = stage["special_tokens"][special["id"].string()];
    const std::vector<JsonValue> numbers = definition["ids"].elements();
    const std::vector<JsonValue> tokens = definition["tokens"].elements();
    if (numbers.size() != tokens.size()) definition["ids"].refuse("must be as many as tokens");
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      result.around.back().push_back(known.check(tokens[i], numbers[i], type_id(special["type_id"])));
    }
  }
  return result;
}

PostProcessor read_template(const JsonValue& stage, const KnownTokens& known) {
  const Template single = read_pieces(stage, "single", {"A"}, known);
  if (single.types.empty()) stage["single"].refuse("must contain the text, Sequence \"A\"");
  PostProcessor result{.before = single.around[0], .type_id = single.types[0], .after = single.around[1]};
  if (!stage.find("pair")) return result;
  const Template pair = read_pieces(stage, "pair", {"A", "B"}, known);
  if (pair.types.size() < 2) return result;
  result.pair = {.before = pair.around[0],
                 .first_type = pair.types[0],
                 .between = pair.around[1],
                 .second_type = pair.types[1],
                 .after = pair.around[2]};
  return result;
}

PostProcessor::Spaces read_spaces(const JsonValue& stage) {
  if (!stage["trim_offsets"].boolean()) return PostProcessor::Spaces::kept;
  return stage["add_prefix_space"].boolean() ? PostProcessor::Spaces::trimmed_after_prefix
                                             : PostProcessor::Spaces::trimmed;
}

PostProcessor read_post_processor(const JsonValue& stage, const KnownTokens& known);

// A ByteLevel one, which says what becomes of spaces, and perhaps one that adds tokens.
PostProcessor read_post_processors(const JsonValue& list, const KnownTokens& known) {
  const std::vector<JsonValue> steps = list.elements();
  if (steps.empty() || steps.size() > 2 || steps[0]["type"].string() != "ByteLevel") {
    list.refuse("must be ByteLevel and at most one more");
  }
  PostProcessor result = steps.size() == 2 ? read_post_processor(steps[1], known) : PostProcessor{};
  result.spaces = read_spaces(steps[0]);
  return result;
}

PostProcessor read_post_processor(const JsonValue& stage, const KnownTokens& known) {
  const std::string type = stage["type"].string();
  if (type == "TemplateProcessing") return read_template(stage, known);
  if (type == "BertProcessing") return read_bert_processing(stage, known, 1);
  PostProcessor result;
  if (type == "RobertaProcessing") {
    result = read_bert_processing(stage, known, 0);
    result.pair->between.push_back(result.after[0]);
    result.spaces = read_spaces(stage);
    return result;
  }
  if (type == "ByteLevel") {
    result.spaces = read_spaces(stage);
    return result;
  }
  if (type == "Sequence") return read_post_processors(stage["processors"], known);
  refuse_type(stage, "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence");
}

// A digest of what the file says of the stages, but for the vocabulary, which the model knows better.
std::string digest_of_rules(const JsonValue& root) {
  Sha256 rules;
  for (const char* name : {"normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    const auto stage = root.find(name);
    rules.add(stage ? stage->canonical() : "");
  }
  root["model"].for_each_member([&](const std::string& key, const JsonValue& value) {
    if (key == "vocab" || key == "merges" || !root["model"].find(key)) return;
    rules.add(key);
    rules.add(value.canonical());
  });
  return rules.hexadecimal();
}

Tokenizer::Parts read_stages(const io::JsonDocument& document, std::int64_t vocab) {
  const JsonValue root = document.root();
  const TokenLimits limits{vocab};
  if (const auto version = root.find("version"); version && version->string() != "1.0") {
    version->refuse(fmt::format("is {}; supported: \"1.0\"", io::quote(version->string())));
  }
  Tokenizer::Parts parts;
  if (const auto stage = root.find("normalizer")) parts.normalizer = read_normalizer(*stage);
  if (const auto stage = root.find("pre_tokenizer")) parts.pre_tokenizer = read_pre_tokenizer(*stage);
  if (const auto stage = root.find("decoder")) parts.decoder = read_decoder(*stage);
  parts.model = read_model(root["model"], limits);
  const Vocabulary& vocabulary = parts.model->vocabulary();
  if (const auto list = root.find("added_tokens")) {
    parts.added = read_added_tokens(*list, limits, vocabulary, parts.normalizer);
  }
  if (const auto stage = root.find("post_processor")) {
    parts.post_processor = read_post_processor(*stage, {limits, vocabulary, parts.added});
  }
  parts.rules = digest_of_rules(root);
  return parts;
}

}  // namespace

Tokenizer::Parts read_tokenizer_json(std::unique_ptr<const io::JsonDocument> document, std::int64_t vocab) {
  Tokenizer::Parts parts = read_stages(*document, vocab);
  document.reset();
  parts.model->build_index();
  return parts;
}

}  // namespace qkv::text
