// Makes the stages of a Marian tokenizer.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/sha256.h"
#include "io/files/text.h"
#include "io/json/json_document.h"
#include "io/sentence_piece.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "text/json_fields.h"
#include "text/stages/decoders.h"
#include "text/stages/normalizers.h"
#include "text/stages/stages.h"
#include "text/tokenizer_parts.h"
#include "text/vocabularies/unigram.h"

namespace qkv::text {
namespace {

// The length of the code that the text begins with: from ">>" to the first "<<". 0: there is none.
std::size_t code_length(CharacterSpan text) {
  const auto are_both = [](char32_t bracket) {
    return [bracket](const Character& a, const Character& b) { return a.code == bracket && b.code == bracket; };
  };
  if (std::ranges::adjacent_find(text, are_both('>')) != text.begin()) return 0;
  const auto end = std::ranges::adjacent_find(text, are_both('<'));
  return end == text.end() ? 0 : static_cast<std::size_t>(end - text.begin()) + 2;
}

// The words of Marian's tokenizer: a code of the target language, ">>fr<<", as it is, then all else as sentencepiece
// normalizes it.
PreTokenizer marian_words(Normalizer normalizer) {
  return [normalizer = std::move(normalizer)](Characters& text) {
    const std::size_t code = text.empty() ? 0 : code_length(text);
    const Characters normalized = normalizer(CharacterSpan(text).subspan(code));
    text.resize(code);
    text.insert(text.end(), normalized.begin(), normalized.end());
    std::vector<Word> words;
    if (code > 0) words.push_back({0, code});
    if (!normalized.empty()) words.push_back({code, text.size()});
    return words;
  };
}

// Whether a word is such a code: all other words begin with U+2581.
bool is_language_code(CharacterSpan word) { return word.front().code == '>'; }

constexpr const char* kEnd = "</s>";
constexpr const char* kUnknown = "<unk>";
constexpr const char* kPadding = "<pad>";

constexpr std::uint64_t kLargestVocabulary = std::uint64_t{16} << 20;

// Pieces of words, and the codes of languages, which are tokens as they are.
class MarianModel : public SentencePiece {
 public:
  using SentencePiece::SentencePiece;
  void tokenize(CharacterSpan word, std::vector<Piece>& pieces) const override {
    if (is_language_code(word)) {
      pieces.push_back({entry_of(to_utf8(word)), 0, word.size()});
    } else {
      SentencePiece::tokenize(word, pieces);
    }
  }
};

// Settings that MarianTokenizer assumes.
void check_spaces(const io::SentencePieceFile& file, const std::string& name) {
  const auto demand = [&](bool is_so, const char* rule) {
    if (!is_so) throw FormatError(name + ": " + rule + "; others are not supported");
  };
  demand(file.space_before_text, "normalizer_spec.add_dummy_prefix must be true");
  demand(file.visible_spaces, "normalizer_spec.escape_whitespaces must be true");
  demand(!file.space_as_suffix, "trainer_spec.treat_whitespace_as_suffix must be false");
}

Decoder decoder_of(const io::SentencePieceFile& file) {
  constexpr std::size_t kAll = ~std::size_t{0};
  std::vector<Decoder> steps{replace_decoder("\xE2\x96\x81", " "), fuse, strip_decoder(" ", kAll, kAll)};
  if (file.byte_fallback) steps.insert(steps.begin(), decode_byte_fallback);
  return in_turn(std::move(steps));
}

AddedTokens special_tokens(const Vocabulary& vocabulary) {
  std::vector<AddedToken> tokens;
  for (const char* token : {kEnd, kUnknown, kPadding}) {
    const Vocabulary::Entry* entry = vocabulary.find(token);
    if (entry != nullptr) tokens.push_back({.content = token, .id = entry->id, .special = true});
  }
  return AddedTokens(std::move(tokens), nullptr);
}

void check_is(const JsonValue& settings, const char* key, const std::string& json) {
  const auto value = settings.find(key);
  if (value && !value->is(json)) value->refuse(fmt::format("must be {}; others are not supported", json));
}

// One of added_tokens_decoder, {id: token}.
void check_added(const std::string& id, const JsonValue& added, const Tokenizer& tokenizer) {
  const std::string token = added["content"].string();
  const auto known = tokenizer.id_of(token);
  const bool is_special = token == kEnd || token == kUnknown || token == kPadding;
  if (!is_special || !known || std::to_string(*known) != id) {
    added.refuse(fmt::format("is {}; only {}, {} and {} with their ids in vocab.json are supported", io::quote(token),
                             kEnd, kUnknown, kPadding));
  }
  for (const char* key : {"lstrip", "rstrip", "single_word"}) check_is(added, key, "false");
}

}  // namespace

void check_marian_settings(const std::string& path, const Tokenizer& tokenizer, bool is_separate) {
  const io::JsonDocument document = io::JsonDocument::of_config(path);
  const JsonValue settings = document.root();
  check_is(settings, "tokenizer_class", "\"MarianTokenizer\"");
  check_is(settings, "separate_vocabs", is_separate ? "true" : "false");
  check_is(settings, "sp_model_kwargs", "{}");
  check_is(settings, "additional_special_tokens", "[]");
  check_is(settings, "extra_special_tokens", "{}");
  for (const auto& [key, token] : {std::pair{"eos_token", kEnd}, {"unk_token", kUnknown}, {"pad_token", kPadding}}) {
    const auto value = settings.find(key);
    if (!value) continue;
    const JsonValue content = value->is_string() ? *value : (*value)["content"];
    if (content.string() != token)
      content.refuse(fmt::format("must be {}; others are not supported", io::quote(token)));
  }
  if (const auto added = settings.find("added_tokens_decoder")) {
    added->for_each_member([&](const std::string& id, const JsonValue& one) { check_added(id, one, tokenizer); });
  }
}

Tokenizer::Parts parse_marian_tokenizer(const NamedBytes& pieces, const NamedBytes& vocabulary, std::int64_t vocab) {
  io::SentencePieceFile file = io::parse_sentence_piece(pieces.bytes, pieces.name);
  check_spaces(file, pieces.name);
  const io::JsonDocument document(vocabulary.bytes, vocabulary.name);
  Vocabulary tokens = read_vocabulary(document.root(), {vocab});
  for (const char* token : {kEnd, kUnknown}) {
    if (tokens.find(token) == nullptr) document.root()[token];
  }
  Tokenizer::Parts parts;
  parts.decoder = decoder_of(file);
  parts.added = special_tokens(tokens);
  Sha256 rules;
  rules.add(pieces.bytes);
  parts.rules = rules.hexadecimal();
  parts.post_processor.after = {{kEnd, tokens.find(kEnd)->id, 0}};
  try {
    parts.pre_tokenizer = marian_words(sentence_piece_normalizer(file));
    parts.model = std::make_unique<MarianModel>(std::move(file), std::move(tokens), kUnknown);
  } catch (const std::invalid_argument& broken) {
    throw FormatError(pieces.name + ": " + broken.what());
  }
  parts.model->build_index();
  return parts;
}

Tokenizer::Parts read_marian_tokenizer(const std::string& pieces, const std::string& vocabulary, std::int64_t vocab) {
  return parse_marian_tokenizer({read_file(pieces, io::kLargestSentencePiece), pieces},
                                {read_file(vocabulary, kLargestVocabulary), vocabulary}, vocab);
}

}  // namespace qkv::text
