// Any bytes as the SentencePiece model of a Marian tokenizer.
#include "reader.h"
#include "text/tokenizer_parts.h"

void read(std::string_view bytes) {
  constexpr const char* kVocabulary = R"({"</s>": 0, "<unk>": 1, "a": 2})";
  const auto parts = qkv::text::parse_marian_tokenizer({bytes, "fuzz"}, {kVocabulary, "fuzz"}, 3);
  auto text = qkv::text::to_characters(">>fr<< The cat\t\xEF\xBC\xA1 e\xCC\x81.");
  for (const auto& word : parts.pre_tokenizer->split(text)) {
    std::vector<qkv::text::Piece> pieces;
    parts.model->tokenize(qkv::text::CharacterSpan(text).subspan(word.begin, word.end - word.begin), pieces);
    if (pieces.empty()) __builtin_trap();
  }
}
