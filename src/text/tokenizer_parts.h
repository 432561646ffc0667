// A tokenizer taken apart: what tokenizer.json is read into (tokenizer_json.cc, read_model.cc), or the files of a
// Marian folder (marian_tokenizer.cc); what Tokenizer runs (tokenizer.cc); and the words that the parts make of a text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/json/json_document.h"
#include "qkv/text/tokenizer.h"
#include "text/json_fields.h"
#include "text/stages/added_tokens.h"
#include "text/stages/stages.h"

namespace qkv {
namespace text {

// Special tokens around a text, such as [CLS] and [SEP], and whose spaces they count as theirs.
struct PostProcessor {
  struct Token {
    std::string text;
    std::int32_t id;
    std::int32_t type_id;
  };
  std::vector<Token> before;
  std::int32_t type_id = 0;  // of the tokens of the text
  std::vector<Token> after;
  // Around and between two texts.
  struct Pair {
    std::vector<Token> before;
    std::int32_t first_type = 0;
    std::vector<Token> between;
    std::int32_t second_type = 0;
    std::vector<Token> after;

    std::size_t count() const { return before.size() + between.size() + after.size(); }
  };
  std::optional<Pair> pair{};

  // Where a token begins and ends in the text: with the spaces that it has at its ends, or without them. A space that
  // was put before the text is not there to be left out.
  enum class Spaces { kept, trimmed, trimmed_after_prefix };
  Spaces spaces = Spaces::kept;
};

}  // namespace text

struct Tokenizer::Parts {
  text::Normalizer normalizer;       // none: text as it is
  text::PreTokenizer pre_tokenizer;  // none: the whole text is a word
  std::unique_ptr<text::Model> model;
  text::Decoder decoder;  // none: tokens joined by spaces
  text::AddedTokens added;
  text::PostProcessor post_processor;
  std::string rules;  // a digest of the files' settings besides tokens, scores and merges
};

namespace text {

// Checks everything; FormatError names the file, the field and the rule. Ids must be below `vocab`. The document is
// gone before the model makes its index: of large vocabularies both are large.
Tokenizer::Parts read_tokenizer_json(std::unique_ptr<const io::JsonDocument> document, std::int64_t vocab);

// The tokenizer of a Marian folder, a SentencePiece model with a vocabulary of both sides: what
// Tokenizer::load_marian() says.
Tokenizer::Parts read_marian_tokenizer(const std::string& pieces, const std::string& vocabulary, std::int64_t vocab);
// The same from the contents of the files; the names are those in messages.
struct NamedBytes {
  std::string_view bytes;
  std::string name;
};
Tokenizer::Parts parse_marian_tokenizer(const NamedBytes& pieces, const NamedBytes& vocabulary, std::int64_t vocab);

// FormatError if the folder's tokenizer_config.json asks for ids that are not those of this tokenizer. `is_separate`:
// whether the target side has a vocabulary of its own.
void check_marian_settings(const std::string& path, const Tokenizer& tokenizer, bool is_separate);

// The model by its "type". FormatError names the field and the rule. Its index is not built yet.
std::unique_ptr<Model> read_model(const JsonValue& stage, const TokenLimits& limits);
// Reads {token: id}.
Vocabulary read_vocabulary(const JsonValue& tokens, const TokenLimits& limits);

// Calls visit(token, characters) for the words of a text, whose token is nullptr, and for the added tokens between
// them, in order, until it returns false.
using WordVisitor = std::function<bool(const AddedToken* token, CharacterSpan characters)>;
void for_each_word(const Tokenizer::Parts& parts, std::string_view utf8, const WordVisitor& visit);

}  // namespace text
}  // namespace qkv
