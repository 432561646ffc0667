// A matrix as lines of numbers between commas.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "core/counted.h"
#include "core/stop.h"
#include "io/files/files.h"
#include "io/files/text.h"
#include "qkv/error.h"

namespace qkv {
namespace io {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kSpaces = " \t";
// Fields of a line between two checks for a stop.
constexpr std::size_t kStopFields = 1 << 16;

std::string_view trim(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Cuts what is before the mark, or all, from the front of `text`, and the mark with it.
std::string_view take_until(char mark, std::string_view& text) {
  const std::size_t end = text.find(mark);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

struct Number {
  double value = 0;
  std::errc error{};
};

Number parse_number(std::string_view field) {
  Number number;
  if (field.starts_with('+') && !field.starts_with("+-")) field.remove_prefix(1);
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number.value);
  number.error = error == std::errc() && end != field.data() + field.size() ? std::errc::invalid_argument : error;
  return number;
}

std::vector<std::string_view> split(std::string_view line) {
  std::vector<std::string_view> fields;
  // A comma at the end leaves one more, empty field.
  for (bool more = true; more;) {
    more = line.find(',') != std::string_view::npos;
    fields.push_back(trim(take_until(',', line)));
  }
  return fields;
}

// A line of names: one of its fields begins as a name does, and is no nan or inf. Whatever else is no number is a
// mistake, not a header.
bool is_header(const std::vector<std::string_view>& fields) {
  return std::ranges::any_of(fields, [](std::string_view field) {
    const char first = field.empty() ? '\0' : field[0];
    const bool begins = (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '_';
    return begins && parse_number(field).error != std::errc();
  });
}

}  // namespace

Tensor parse_csv(std::string_view text, const std::string& name) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<double> values;
  std::int64_t rows = 0;
  std::size_t columns = 0, first_row = 0;
  bool header_possible = true;
  for (std::size_t number = 1; !text.empty(); ++number) {
    check_stop();
    std::string_view line = take_until('\n', text);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with('#') || trim(line).empty()) continue;
    const std::vector<std::string_view> fields = split(line);
    if (std::exchange(header_possible, false) && is_header(fields)) continue;
    if (rows == 0) {
      columns = fields.size();
      first_row = number;
    }
    if (fields.size() != columns) {
      throw FormatError(fmt::format("{}: line {} has {}, but line {} has {}", name, number,
                                    counted(std::ssize(fields), "field"), first_row, columns));
    }
    for (std::size_t column = 0; column < columns; ++column) {
      if (column % kStopFields == 0) check_stop();
      const Number field = parse_number(fields[column]);
      if (field.error != std::errc()) {
        throw FormatError(
            fmt::format("{}: line {}, column {}: {} {}", name, number, column + 1, quote(fields[column]),
                        field.error == std::errc::result_out_of_range ? "does not fit in 64 bits" : "is not a number"));
      }
      values.push_back(field.value);
    }
    ++rows;
  }
  if (rows == 0) throw FormatError(name + ": no numbers");
  return Tensor::of<double>({rows, static_cast<std::int64_t>(columns)}, values);
}

}  // namespace io

Tensor read_csv(const std::string& path) { return io::parse_csv(read_file(path), path); }

}  // namespace qkv
