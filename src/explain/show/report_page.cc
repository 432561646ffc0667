// Writes bytes as letters, four at a time, and text and matrices as HTML.
#include "explain/show/report_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "explain/show/json_object.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {

void append_base85(std::string& text, std::string_view bytes) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&,>()[]{}@%$#";
  static_assert(kLetters.size() == 85);
  text.reserve(text.size() + (bytes.size() + 3) / 4 * 5);
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    const std::size_t count = std::min<std::size_t>(4, bytes.size() - i);
    std::uint32_t four = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      four = four << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
    }
    std::array<char, 5> letters{};
    for (std::size_t k = 5; k-- > 0; four /= 85) letters[k] = kLetters[four % 85];
    text.append(letters.data(), count + 1);
  }
}

std::string html_element(const char* tag, const std::string& text) { return fmt::format("<{0}>{1}</{0}>", tag, text); }
std::string html_cell(double value) { return html_element("td", fixed_text(value, 5)); }

std::string html_row_head(const std::string& name) {
  return "<th scope=\"row\"><bdi>" + io::markup_text(name) + "</bdi></th>";
}

std::string html_column_heads(const std::vector<std::string>& names, bool after_rows) {
  if (names.empty()) return "";
  std::string row = after_rows ? "<td></td>" : "";
  for (const std::string& name : names) row += "<th scope=\"col\"><bdi>" + io::markup_text(name) + "</bdi></th>";
  return html_element("tr", row) + "\n";
}

std::string html_table(const std::string& name, const TensorView& values, const std::vector<std::string>& rows,
                       const std::vector<std::string>& columns) {
  constexpr std::int64_t kMostNumbers = 1 << 16;
  if (values.element_count() > kMostNumbers) {
    return html_element("p", io::markup_text(fmt::format("{} has {} numbers, too many for a table.", name,
                                                         values.element_count()))) +
           "\n";
  }
  if (values.rank() == 3) {
    std::string tables;
    for (std::int64_t i = 0; i < values.size(0); ++i) {
      tables += html_table(fmt::format("{} [{}]", name, i + 1), values.select(0, i), rows, columns);
    }
    return tables;
  }
  const bool is_row = values.rank() == 1;
  const std::int64_t height = is_row ? 1 : values.size(0), width = values.size(is_row ? 0 : 1);
  const bool has_rows = !is_row && std::ssize(rows) == height;
  std::string text = "<table>" + html_element("caption", io::markup_text(name)) + "\n";
  if (std::ssize(columns) == width) text += html_column_heads(columns, has_rows);
  for (std::int64_t i = 0; i < height; ++i) {
    std::string row = has_rows ? html_row_head(rows[static_cast<std::size_t>(i)]) : "";
    for (std::int64_t j = 0; j < width; ++j)
      row += html_cell(is_row ? values.at<double>({j}) : values.at<double>({i, j}));
    text += html_element("tr", row) + "\n";
  }
  return text + "</table>\n";
}

}  // namespace qkv::inline explaining
