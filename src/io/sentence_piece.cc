// Reads and checks a SentencePiece model.
#include "io/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/protobuf.h"
#include "io/quote.h"
#include "io/utf8.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

using Piece = SentencePieceFile::Piece;
using Type = SentencePieceFile::Type;

constexpr std::size_t kMostPieces = 1 << 20;
constexpr std::size_t kLongestPiece = 1024;  // characters: bounds the work at each position of a text

Piece read_piece(std::string_view message, const std::string& file, std::size_t index) {
  Piece piece;
  for (ProtobufFields fields(message, file, fmt::format("pieces[{}].", index)); fields.next();) {
    if (fields.number() == 1) piece.text = fields.bytes("piece");
    if (fields.number() == 2) piece.score = fields.f32("score");
    if (fields.number() == 3) piece.type = static_cast<Type>(fields.integer("type", 1, 6));
  }
  const auto refuse = [&](const std::string& rule) {
    throw FormatError(fmt::format("{}: pieces[{}] {}", file, index, rule));
  };
  if (piece.text.empty()) refuse("is empty");
  const auto characters = code_points_in(piece.text);
  if (!characters) refuse(fmt::format("is {}, which is not UTF-8", quote(piece.text)));
  if (*characters > kLongestPiece) refuse(fmt::format("is longer than {} characters", kLongestPiece));
  if (!std::isfinite(piece.score)) refuse(fmt::format("has the score {}, must be finite", piece.score));
  return piece;
}

void read_trainer(std::string_view message, const std::string& file, SentencePieceFile& model) {
  for (ProtobufFields fields(message, file, "trainer_spec."); fields.next();) {
    if (fields.number() == 3) {
      model.kind = static_cast<SentencePieceFile::Kind>(fields.integer("model_type", 1, 4));
    }
    if (fields.number() == 24) model.space_as_suffix = fields.boolean("treat_whitespace_as_suffix");
    if (fields.number() == 35) model.byte_fallback = fields.boolean("byte_fallback");
  }
}

void read_normalizer(std::string_view message, const std::string& file, SentencePieceFile& model) {
  for (ProtobufFields fields(message, file, "normalizer_spec."); fields.next();) {
    if (fields.number() == 2) model.charsmap = fields.bytes("precompiled_charsmap");
    if (fields.number() == 3) model.space_before_text = fields.boolean("add_dummy_prefix");
    if (fields.number() == 4) model.single_spaces = fields.boolean("remove_extra_whitespaces");
    if (fields.number() == 5) model.visible_spaces = fields.boolean("escape_whitespaces");
  }
}

void check_different(const std::vector<Piece>& pieces, const std::string& file) {
  std::vector<std::string_view> texts;
  texts.reserve(pieces.size());
  for (const Piece& piece : pieces) texts.push_back(piece.text);
  std::ranges::sort(texts);
  const auto same = std::ranges::adjacent_find(texts);
  if (same != texts.end()) throw FormatError(fmt::format("{}: piece {} appears twice", file, quote(*same)));
}

// One piece stands for what is unknown; with byte_fallback there is one for every byte, else for none.
void check_types(const SentencePieceFile& model, const std::string& file) {
  const auto count = [&](Type type) { return std::ranges::count(model.pieces, type, &Piece::type); };
  if (count(Type::unknown) != 1) {
    throw FormatError(fmt::format("{}: has {} pieces of type 2 (unknown), must be 1", file, count(Type::unknown)));
  }
  const std::int64_t bytes = count(Type::byte), wanted = model.byte_fallback ? 256 : 0;
  if (bytes != wanted) {
    throw FormatError(fmt::format("{}: has {} pieces of type 6 (byte), must be {}: trainer_spec.byte_fallback is {}",
                                  file, bytes, wanted, model.byte_fallback));
  }
  std::vector<std::string_view> found;
  for (const Piece& piece : model.pieces) {
    if (piece.type == Type::byte) found.push_back(piece.text);
  }
  std::ranges::sort(found);
  for (std::size_t byte = 0; byte < found.size(); ++byte) {
    const std::string text = fmt::format("<0x{:02X}>", byte);
    if (found[byte] != text) throw FormatError(fmt::format("{}: has no piece {} of type 6 (byte)", file, text));
  }
}

}  // namespace

SentencePieceFile parse_sentence_piece(std::string_view bytes, const std::string& name) {
  SentencePieceFile model;
  for (ProtobufFields fields(bytes, name); fields.next();) {
    if (fields.number() == 1) {
      if (model.pieces.size() == kMostPieces) fields.refuse("pieces", fmt::format("are more than {}", kMostPieces));
      model.pieces.push_back(read_piece(fields.bytes("pieces"), name, model.pieces.size()));
    }
    if (fields.number() == 2) read_trainer(fields.bytes("trainer_spec"), name, model);
    if (fields.number() == 3) read_normalizer(fields.bytes("normalizer_spec"), name, model);
  }
  check_different(model.pieces, name);
  check_types(model, name);
  return model;
}

}  // namespace qkv::io
