// Reads the wire format of protocol buffers.
#include "io/protobuf.h"

#include <fmt/format.h>

#include <bit>

#include "qkv/error.h"

namespace qkv::io {

bool ProtobufFields::next() {
  if (rest_.empty()) return false;
  const std::uint64_t key = varint();
  number_ = static_cast<std::uint32_t>(key >> 3 & 0x1FFFFFFF);
  if (key >> 32 != 0 || number_ == 0) refuse("a field", fmt::format("has the key {}, which no field has", key));
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

}  // namespace qkv::io
