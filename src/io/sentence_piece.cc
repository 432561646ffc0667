// Reads and checks a SentencePiece model, a message of protocol buffers.
#include "io/sentence_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/files/text.h"
#include "qkv/error.h"

namespace qkv::io {
namespace {

// One message, field by field:
//
//   for (ProtobufFields fields(bytes, file); fields.next();) {
//     if (fields.number() == 1) text = fields.bytes();
//   }
//
// FormatError, naming the file and the place, for what is no message; for a value of another kind than it is asked for.
class ProtobufFields {
 public:
  // `path` stands for the message in messages: "", or what leads to it ("pieces[3].").
  ProtobufFields(std::string_view message, const std::string& file, std::string path = "")
      : rest_(message), file_(&file), path_(std::move(path)) {}

  bool next();  // false: there are no more
  std::uint32_t number() const { return number_; }

  std::string_view bytes(std::string_view field) const;  // a string, bytes or a message
  std::int64_t integer(std::string_view field, std::int64_t min, std::int64_t max) const;
  bool boolean(std::string_view field) const { return integer(field, 0, 1) != 0; }
  float f32(std::string_view field) const;

  [[noreturn]] void refuse(std::string_view field, std::string_view rule) const;

 private:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  std::uint64_t varint();
  std::string_view take(std::uint64_t count);
  void require(Wire wire, std::string_view field, std::string_view kind) const;

  std::string_view rest_;
  const std::string* file_;
  std::string path_;
  std::uint32_t number_ = 0;
  Wire wire_ = Wire::varint;
  std::uint64_t integer_ = 0;
  std::string_view bytes_;
};

bool ProtobufFields::next() {
  if (rest_.empty()) return false;
  const std::uint64_t key = varint();
  number_ = static_cast<std::uint32_t>(key >> 3 & 0x1FFFFFFF);
  if (key >> 32 != 0 || number_ == 0) refuse("a field", fmt::format("has the invalid key {}", key));
  const auto wire = static_cast<int>(key & 7);
  if (wire != 0 && wire != 1 && wire != 2 && wire != 5) {
    refuse(fmt::format("field {}", number_), fmt::format("is of wire type {}, must be 0, 1, 2 or 5", wire));
  }
  wire_ = static_cast<Wire>(wire);
  if (wire_ == Wire::varint) {
    integer_ = varint();
  } else {
    bytes_ = take(wire_ == Wire::bytes ? varint() : wire_ == Wire::fixed32 ? 4 : 8);
  }
  return true;
}

std::uint64_t ProtobufFields::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(1).front());
    if (shift == 63 && byte > 1) break;
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  refuse("a number", "has more than 64 bits");
}

std::string_view ProtobufFields::take(std::uint64_t count) {
  if (count > rest_.size()) {
    refuse("a field", fmt::format("has {} bytes, but {} are left in its message", count, rest_.size()));
  }
  const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
  rest_.remove_prefix(taken.size());
  return taken;
}

std::string_view ProtobufFields::bytes(std::string_view field) const {
  require(Wire::bytes, field, "bytes");
  return bytes_;
}

std::int64_t ProtobufFields::integer(std::string_view field, std::int64_t min, std::int64_t max) const {
  require(Wire::varint, field, "an integer");
  const auto value = static_cast<std::int64_t>(integer_);
  if (value < min || value > max) refuse(field, fmt::format("is {}, must be {} to {}", value, min, max));
  return value;
}

float ProtobufFields::f32(std::string_view field) const {
  require(Wire::fixed32, field, "a number of 32 bits");
  std::uint32_t bits = 0;
  for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(bytes_[i]);
  return std::bit_cast<float>(bits);
}

void ProtobufFields::require(Wire wire, std::string_view field, std::string_view kind) const {
  if (wire_ != wire) refuse(field, fmt::format("must be {}, is of wire type {}", kind, static_cast<int>(wire_)));
}

void ProtobufFields::refuse(std::string_view field, std::string_view rule) const {
  throw FormatError(fmt::format("{}: {}{} {}", *file_, path_, field, rule));
}

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
