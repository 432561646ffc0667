// The wire format of protocol buffers: a message is fields, each a number with a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::io {

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

}  // namespace qkv::io
