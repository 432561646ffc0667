// Formats matrices and pictures as text.
#include "explain/matrix_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/stop.h"
#include "explain/explanation_context.h"
#include "explain/heat.h"
#include "explain/numbers.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kMostRows = 20;     // a matrix of more rows is shortened
constexpr std::int64_t kShortened = 7;     // to so many lines
constexpr std::int64_t kMostMatrices = 4;  // of a tensor of rank 3
constexpr std::size_t kMostLabel = 28;

// The values at `rows` and `columns` (-1: left out), right-aligned.
std::vector<std::string> cells_as_lines(const TensorView& matrix, const std::vector<std::int64_t>& rows,
                                        const std::vector<std::int64_t>& columns, std::size_t cell,
                                        const NumberFormat& format) {
  std::vector<std::string> lines;
  for (std::int64_t i : rows) {
    check_stop();
    std::string line;
    for (std::int64_t j : columns) {
      if (!line.empty()) line += ' ';
      if (j < 0) {
        line += "...";
      } else {
        line += fmt::format("{:>{}}", i < 0 ? "..." : format(matrix.at<double>({i, j})), cell);
      }
    }
    lines.push_back(line);
  }
  return lines;
}

TextBox box_of_matrix(const std::string& title, const TensorView& matrix, const std::vector<std::string>& names,
                      Role role, const NumberFormat& format, const TextRoom& text) {
  const std::vector<std::int64_t> rows =
      some_of(matrix.size(0), text.full || matrix.size(0) <= kMostRows ? matrix.size(0) : kShortened);
  std::size_t label = 0, cell = 1;
  for (std::int64_t i : rows) {
    if (i < 0) continue;
    if (!names.empty()) label = std::max(label, std::min(kMostLabel, names[static_cast<std::size_t>(i)].size()) + 2);
  }
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    check_stop();
    for (std::int64_t j = 0; j < matrix.size(1); ++j) cell = std::max(cell, format(matrix.at<double>({i, j})).size());
  }
  const std::size_t room = std::max(text.width, label) - label;
  const auto fitting = [&](std::size_t columns) { return static_cast<std::int64_t>((columns + 1) / (cell + 1)); };
  const std::int64_t shortened = room > 4 ? fitting(room - 4) + 1 : 0;  // "..." and a blank take 4 characters
  const std::int64_t count = matrix.size(1);
  const bool all = text.full || count <= fitting(room);
  const std::vector<std::int64_t> columns =
      some_of(count, all ? count : std::max<std::int64_t>(std::min(shortened, count - 1), 3));

  TextBox box;
  box.role = role;
  box.lines.push_back(title);
  const std::vector<std::string> cells = cells_as_lines(matrix, rows, columns, cell, format);
  for (std::size_t line = 0; line < cells.size(); ++line) {
    const std::string name = names.empty() || rows[line] < 0 ? "" : names[static_cast<std::size_t>(rows[line])];
    box.lines.push_back(fmt::format("{:<{}}{}", name.substr(0, kMostLabel), label, cells[line]));
  }
  for (const TextLine& line : box.lines) box.width = std::max(box.width, line.columns);
  return box;
}

}  // namespace

std::string NumberFormat::operator()(double value) const {
  return scientific && std::isfinite(value) ? fmt::format("{:.5e}", value) : fixed_text(value, decimals);
}

NumberFormat format_for(const Quantity& quantity) {
  const double* values = quantity.values.data<double>();
  double largest = 0;
  bool whole = quantity.role != Role::output && quantity.role != Role::weight;
  for (std::int64_t i = 0; i < quantity.values.element_count(); ++i) {
    if (!std::isfinite(values[i])) continue;
    largest = std::max(largest, std::abs(values[i]));
    whole = whole && is_whole(values[i]);
  }
  const bool scientific = largest >= 1e8 || (largest > 0 && largest < 1e-3);
  return {whole ? 0 : 5, scientific};
}

std::vector<TextBox> boxes_of(const Quantity& quantity, const TextRoom& room) {
  const std::string suffix = quantity.substituted ? " (substituted)" : "";
  const std::string title = quantity.name + " " + to_string(quantity.values.shape()) + suffix;
  const NumberFormat format = format_for(quantity);
  const TensorView values = quantity.values;
  if (values.rank() < 3) {
    const TensorView matrix = values.rank() == 2 ? values : values.reshape({1, values.element_count()});
    const std::vector<std::string> names = values.rank() == 2 ? quantity.rows : std::vector<std::string>();
    return {box_of_matrix(title, matrix, names, quantity.role, format, room)};
  }
  std::vector<TextBox> boxes;
  if (values.size(0) > kMostMatrices && !room.full) {
    const std::string note = fmt::format("({} matrices: all of them with --full or --json)", values.size(0));
    return {{{title, note}, std::max(title.size(), note.size()), quantity.role}};
  }
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    const std::string name = fmt::format("{}[{}] {}", quantity.name, i + 1, to_string(values.select(0, i).shape()));
    boxes.push_back(box_of_matrix(name, values.select(0, i), quantity.rows, quantity.role, format, room));
  }
  return boxes;
}

TextBox box_of(const Picture& picture) {
  const double* pixels = picture.pixels.data<double>();
  const std::int64_t count = picture.pixels.element_count();
  const double least = *std::min_element(pixels, pixels + count), most = *std::max_element(pixels, pixels + count);
  TextBox box;
  box.role = Role::input;
  box.lines.push_back(picture.caption);
  for (std::int64_t row = 0; row < picture.pixels.size(0); ++row) {
    std::string line;
    for (std::int64_t column = 0; column < picture.pixels.size(1); ++column) {
      const double share = most > least ? (pixels[row * picture.pixels.size(1) + column] - least) / (most - least) : 0;
      line.append(2, shade_of_share(share));
    }
    box.lines.push_back(line);
  }
  for (const TextLine& line : box.lines) box.width = std::max(box.width, line.columns);
  return box;
}

}  // namespace qkv::inline explaining
