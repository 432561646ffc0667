// A SentencePiece model file: pieces with scores, and how text becomes what they are searched in. The file is one
// message of protocol buffers, ModelProto of sentencepiece_model.proto. Source: Kudo, Richardson, "SentencePiece"
// (2018).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

struct SentencePieceFile {
  // The numbers are those of the file.
  enum class Kind { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum class Type { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

  struct Piece {
    std::string text{};
    float score = 0;
    Type type = Type::normal;
  };

  std::vector<Piece> pieces{};
  Kind kind = Kind::unigram;
  bool byte_fallback = false;  // unknown characters become the pieces of their bytes
  bool space_as_suffix = false;
  std::string charsmap{};  // precompiled_charsmap; "": text stays as it is
  bool space_before_text = true;
  bool single_spaces = true;   // of several spaces one stays, at the ends none
  bool visible_spaces = true;  // a space becomes U+2581
};

// FormatError, naming the file, the field and the rule, unless the bytes are a model whose pieces are different, valid
// UTF-8, at most 1,024 characters long, with finite scores, one of them the unknown one. Fields that do not bear on
// pieces and text are passed over.
SentencePieceFile parse_sentence_piece(std::string_view bytes, const std::string& name);
inline constexpr std::uint64_t kLargestSentencePiece = std::uint64_t{16} << 20;  // bytes of a file

}  // namespace qkv::io
