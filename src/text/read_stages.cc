// Reads the other stages of a tokenizer.json, by their types.
#include "text/read_stages.h"

#include <utility>
#include <vector>

#include "io/text.h"
#include "text/bert_normalizer.h"
#include "text/bert_pre_tokenizer.h"
#include "text/decoders.h"
#include "text/normalizers.h"
#include "text/pre_tokenizers.h"
#include "text/precompiled.h"
#include "text/unicode_form.h"
#include "text/wordpiece_decoder.h"

namespace qkv::text {
namespace {

template <class Stage>
using Reader = std::unique_ptr<Stage> (*)(const JsonValue&);
template <class Stage>
using Readers = std::initializer_list<std::pair<const char*, Reader<Stage>>>;

template <class Stage>
std::unique_ptr<Stage> read_by_type(const JsonValue& stage, const Readers<Stage>& readers) {
  const std::string type = stage["type"].string();
  std::string known;
  for (const auto& [name, read] : readers) {
    if (name == type) return read(stage);
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  refuse_type(stage, known);
}

// The members of `list`, each read by `read`.
template <class Stage>
std::vector<std::unique_ptr<Stage>> read_all(const JsonValue& list, Reader<Stage> read) {
  std::vector<std::unique_ptr<Stage>> stages;
  for (const JsonValue& stage : list.elements()) stages.push_back(read(stage));
  return stages;
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

std::unique_ptr<Normalizer> read_bert_normalizer(const JsonValue& stage) {
  BertNormalizerOptions options{.clean_text = stage["clean_text"].boolean(),
                                .handle_chinese_chars = stage["handle_chinese_chars"].boolean(),
                                .lowercase = stage["lowercase"].boolean()};
  options.strip_accents = optional_boolean(stage, "strip_accents", options.lowercase);
  return std::make_unique<BertNormalizer>(options);
}

// A stage without fields of its own.
template <class Stage, class Kind>
std::unique_ptr<Stage> plain(const JsonValue&) {
  return std::make_unique<Kind>();
}

std::unique_ptr<Normalizer> read_precompiled(const JsonValue& stage) {
  const JsonValue rules = stage["precompiled_charsmap"];
  const auto bytes = io::decode_base64(rules.string());
  if (!bytes) rules.refuse("must be base64");
  return build_from(rules, [&] { return std::make_unique<Precompiled>(Charsmap(*bytes)); });
}

// Of a string; of regular expressions that one alone which files of SentencePiece models have.
std::unique_ptr<Normalizer> read_replace(const JsonValue& stage) {
  const std::u32string to = to_code_points(stage["content"].string());
  if (const auto expression = stage["pattern"].find("Regex")) {
    if (expression->string() != " {2,}")
      expression->refuse("is not supported; of regular expressions only \" {2,}\" is");
    return std::make_unique<ReplaceSpaces>(to);
  }
  return std::make_unique<Replace>(to_code_points(pattern(stage)), to);
}

template <UnicodeForm form>
std::unique_ptr<Normalizer> read_form(const JsonValue&) {
  return std::make_unique<UnicodeNormalizer>(form);
}

// Older files say only whether a space is put before every text.
Metaspace::Prepend prepend_of(const JsonValue& stage) {
  const auto scheme = stage.find("prepend_scheme");
  if (!scheme) {
    return optional_boolean(stage, "add_prefix_space", true) ? Metaspace::Prepend::always : Metaspace::Prepend::never;
  }
  if (scheme->string() == "always") return Metaspace::Prepend::always;
  if (scheme->string() == "first") return Metaspace::Prepend::first;
  if (scheme->string() != "never") scheme->refuse("must be \"always\", \"first\" or \"never\"");
  return Metaspace::Prepend::never;
}

std::unique_ptr<PreTokenizer> read_metaspace(const JsonValue& stage) {
  const char32_t replacement = to_code_points(one_character(stage["replacement"])).front();
  return std::make_unique<Metaspace>(replacement, prepend_of(stage), optional_boolean(stage, "split", true));
}

std::unique_ptr<PreTokenizer> read_byte_level(const JsonValue& stage) {
  return std::make_unique<ByteLevel>(stage["add_prefix_space"].boolean(), optional_boolean(stage, "use_regex", true));
}

std::unique_ptr<Decoder> read_metaspace_decoder(const JsonValue& stage) {
  return std::make_unique<MetaspaceDecoder>(one_character(stage["replacement"]),
                                            prepend_of(stage) != Metaspace::Prepend::never);
}

std::unique_ptr<Decoder> read_strip_decoder(const JsonValue& stage) {
  return std::make_unique<StripDecoder>(one_character(stage["content"]), count(stage["start"]), count(stage["stop"]));
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonValue& stage) {
  using Result = std::unique_ptr<Normalizer>;
  return read_by_type<Normalizer>(
      stage,
      {{"BertNormalizer", read_bert_normalizer},
       {"NFC", read_form<UnicodeForm::nfc>},
       {"NFD", read_form<UnicodeForm::nfd>},
       {"NFKC", read_form<UnicodeForm::nfkc>},
       {"NFKD", read_form<UnicodeForm::nfkd>},
       {"Lowercase", plain<Normalizer, Lowercase>},
       {"StripAccents", plain<Normalizer, StripAccents>},
       {"Strip",
        [](const JsonValue& s) -> Result {
          return std::make_unique<StripSpace>(s["strip_left"].boolean(), s["strip_right"].boolean());
        }},
       {"Prepend",
        [](const JsonValue& s) -> Result { return std::make_unique<Prepend>(to_code_points(s["prepend"].string())); }},
       {"Precompiled", read_precompiled},
       {"Replace", read_replace},
       {"Sequence", [](const JsonValue& s) -> Result {
          return std::make_unique<NormalizerSequence>(read_all<Normalizer>(s["normalizers"], read_normalizer));
        }}});
}

std::unique_ptr<PreTokenizer> read_pre_tokenizer(const JsonValue& stage) {
  using Result = std::unique_ptr<PreTokenizer>;
  return read_by_type<PreTokenizer>(
      stage,
      {{"BertPreTokenizer", plain<PreTokenizer, BertPreTokenizer>},
       {"ByteLevel", read_byte_level},
       {"Metaspace", read_metaspace},
       {"Whitespace", [](const JsonValue&) -> Result { return std::make_unique<Whitespace>(true); }},
       {"WhitespaceSplit", [](const JsonValue&) -> Result { return std::make_unique<Whitespace>(false); }},
       {"Sequence", [](const JsonValue& s) -> Result {
          return std::make_unique<PreTokenizerSequence>(read_all<PreTokenizer>(s["pretokenizers"], read_pre_tokenizer));
        }}});
}

std::unique_ptr<Decoder> read_decoder(const JsonValue& stage) {
  using Result = std::unique_ptr<Decoder>;
  return read_by_type<Decoder>(
      stage, {{"WordPiece",
               [](const JsonValue& s) -> Result {
                 return std::make_unique<WordPieceDecoder>(s["prefix"].string(), s["cleanup"].boolean());
               }},
              {"ByteLevel", plain<Decoder, ByteLevelDecoder>},
              {"Metaspace", read_metaspace_decoder},
              {"BPEDecoder",
               [](const JsonValue& s) -> Result { return std::make_unique<SuffixDecoder>(s["suffix"].string()); }},
              {"ByteFallback", plain<Decoder, ByteFallbackDecoder>},
              {"Replace",
               [](const JsonValue& s) -> Result {
                 return std::make_unique<ReplaceDecoder>(pattern(s), s["content"].string());
               }},
              {"Fuse", plain<Decoder, FuseDecoder>},
              {"Strip", read_strip_decoder},
              {"Sequence", [](const JsonValue& s) -> Result {
                 return std::make_unique<DecoderSequence>(read_all<Decoder>(s["decoders"], read_decoder));
               }}});
}

}  // namespace qkv::text
