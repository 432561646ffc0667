// Formats matrices and pictures as text, and as heat maps of a terminal.
#include "explain/show/matrix_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/stop.h"
#include "explain/observe/token_names.h"
#include "explain/show/heat.h"
#include "explain/steps/explanation_context.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {
namespace {

constexpr std::int64_t kMostRows = 20;     // a matrix of more rows is shortened
constexpr std::int64_t kShortened = 7;     // to so many lines
constexpr std::int64_t kMostMatrices = 4;  // of a tensor of rank 3
constexpr std::int64_t kLeastColumns = 3;
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

std::size_t widest_cell(const TensorView& matrix, const NumberFormat& format) {
  std::size_t cell = 1;
  for (std::int64_t i = 0; i < matrix.size(0); ++i) {
    check_stop();
    for (std::int64_t j = 0; j < matrix.size(1); ++j) cell = std::max(cell, format(matrix.at<double>({i, j})).size());
  }
  return cell;
}

TextBox box_of_matrix(const std::string& title, const TensorView& matrix, const std::vector<std::string>& names,
                      Role role, NumberFormat format, const TextRoom& text) {
  const std::vector<std::int64_t> rows =
      some_of(matrix.size(0), text.full || matrix.size(0) <= kMostRows ? matrix.size(0) : kShortened);
  std::size_t label = 0;
  for (std::int64_t i : rows) {
    if (i < 0) continue;
    if (!names.empty()) label = std::max(label, std::min(kMostLabel, names[static_cast<std::size_t>(i)].size()) + 2);
  }
  const std::size_t room = std::max(text.width, label) - label;
  std::size_t cell = widest_cell(matrix, format);
  const auto columns_fit = [&](std::int64_t wanted) {
    return room + 1 >= static_cast<std::size_t>(wanted) * (cell + 1);
  };
  // Fewer decimals rather than columns that do not fit.
  while (!text.full && format.decimals > 1 && !columns_fit(std::min(matrix.size(1), kLeastColumns))) {
    --format.decimals;
    cell = widest_cell(matrix, format);
  }
  const auto fitting = [&](std::size_t columns) { return static_cast<std::int64_t>((columns + 1) / (cell + 1)); };
  const std::int64_t shortened = room > 4 ? fitting(room - 4) + 1 : 0;  // "..." and a blank take 4 characters
  const std::int64_t count = matrix.size(1);
  const bool all = text.full || count <= fitting(room);
  const std::vector<std::int64_t> columns =
      some_of(count, all ? count : std::max(std::min(shortened, count - 1), kLeastColumns));

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

namespace {

constexpr std::size_t kMostOfName = 16;    // columns for the names of rows
constexpr std::size_t kMostOfColumn = 10;  // lines above the columns
constexpr std::int64_t kMostHeight = 128;  // cells

// The nearest of the 256 colours of xterm: 16 to 231 are a cube of 6 x 6 x 6, 232 to 255 greys.
int color_256(const Rgb& color) {
  static constexpr std::array<int, 6> kSteps = {0, 95, 135, 175, 215, 255};
  int at = 16, off = 0, factor = 36;
  for (const std::uint8_t part : color) {
    const auto nearest = std::ranges::min_element(kSteps, {}, [part](int step) { return std::abs(step - part); });
    at += factor * static_cast<int>(nearest - kSteps.begin());
    off += (*nearest - part) * (*nearest - part);
    factor /= 6;
  }
  const int grey = std::clamp(((color[0] + color[1] + color[2]) / 3 - 8 + 5) / 10, 0, 23), level = 8 + 10 * grey;
  int grey_off = 0;
  for (const std::uint8_t part : color) grey_off += (level - part) * (level - part);
  return grey_off < off ? 232 + grey : at;
}

class HeatMap {
 public:
  HeatMap(const TensorView& matrix, Role role, HeatStyle style, std::size_t room)
      : style_(style), cells_(heat_cells(matrix, kMostHeight, static_cast<std::int64_t>(room))), scale_(cells_, role) {
    const std::size_t most = room / static_cast<std::size_t>(std::max<std::int64_t>(cells_.values.size(1), 1));
    // Two columns are as wide as one line is high.
    width_ = most >= 4 && style == HeatStyle::colors ? 4 : most >= 2 ? 2 : 1;
  }

  std::size_t width() const { return width_ * static_cast<std::size_t>(cells_.values.size(1)); }
  std::size_t cell() const { return width_; }
  const HeatCells& cells() const { return cells_; }
  std::string scale() const { return scale_.text(); }

  std::int64_t lines() const {
    const std::int64_t rows = cells_.values.size(0);
    return style_ == HeatStyle::letters ? rows : (rows * half_lines() + 1) / 2;
  }
  // The row that a line begins, if it is the first of its lines; else -1.
  std::int64_t row_of(std::int64_t line) const {
    if (style_ == HeatStyle::letters) return line;
    return 2 * line % half_lines() == 0 ? 2 * line / half_lines() : -1;
  }
  std::string line(std::int64_t line) const { return style_ == HeatStyle::letters ? letters(line) : blocks(line); }

 private:
  std::int64_t half_lines() const { return static_cast<std::int64_t>(width_); }  // of a row

  std::string letters(std::int64_t row) const {
    std::string text;
    for (std::int64_t j = 0; j < cells_.values.size(1); ++j) {
      const double value = cells_.values.view().at<double>({row, j});
      const char letter = std::isnan(value)   ? '?'
                          : std::isinf(value) ? (value < 0 ? 'x' : '^')
                                              : shade_of_share(scale_.share(value));
      text.append(width_, letter);
    }
    return text;
  }

  int color(std::int64_t row, std::int64_t column) const {
    const double value = cells_.values.view().at<double>({row, column});
    return color_256(std::isfinite(value) ? color_of_share(scale_.share(value), Ground::dark)
                                          : color_of_no_number(Ground::dark));
  }

  // Two rows of half lines each: upper half blocks (U+2580), on the colour of the lower ones.
  std::string blocks(std::int64_t line) const {
    const std::int64_t upper = 2 * line / half_lines(), lower = (2 * line + 1) / half_lines();
    const bool ends = lower >= cells_.values.size(0);
    std::string text, last;
    for (std::int64_t j = 0; j < cells_.values.size(1); ++j) {
      const std::string code = ends ? fmt::format("\x1b[0;38;5;{}m", color(upper, j))
                                    : fmt::format("\x1b[38;5;{};48;5;{}m", color(upper, j), color(lower, j));
      if (code != last) text += code;
      last = code;
      for (std::size_t i = 0; i < width_; ++i) text += "\xe2\x96\x80";
    }
    return text + "\x1b[0m";
  }

  HeatStyle style_;
  HeatCells cells_;
  HeatScale scale_;
  std::size_t width_ = 1;  // of a cell
};

// Names from above to below, of which the last characters stand on their columns.
void add_column_names(TextBox& box, const std::vector<std::string>& names, std::size_t indent, std::size_t cell) {
  std::vector<std::vector<TextUnit>> columns;
  std::size_t height = 0;
  for (const std::string& name : names) {
    columns.push_back(units_of(printable(name)));
    if (columns.back().size() > kMostOfColumn) columns.back().resize(kMostOfColumn);
    height = std::max(height, columns.back().size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    std::string text(indent, ' ');
    for (const std::vector<TextUnit>& units : columns) {
      const std::size_t above = height - units.size();
      text += fitted(line < above ? "" : units[line - above].text, cell);
    }
    box.lines.push_back({text, indent + cell * columns.size()});
  }
}

TextBox heat_box(const std::string& name, const Quantity& quantity, const TensorView& matrix, HeatStyle style,
                 const TextRoom& room) {
  std::size_t label = 0;
  for (const std::string& row : quantity.rows) label = std::max(label, columns_of(printable(row)) + 1);
  label = std::min(label, kMostOfName + 1);
  const std::size_t width = std::max<std::size_t>(room.width, 16);
  const HeatMap map(matrix, quantity.role, style, width > label + 8 ? width - label : 8);
  const HeatCells& cells = map.cells();
  std::string title = name;
  if (cells.are_means()) title += fmt::format(", means of {} x {}", cells.rows, cells.columns);
  if (const std::string scale = map.scale(); !scale.empty()) title += ", " + scale;
  TextBox box;
  box.role = quantity.role;
  box.lines.push_back({title, columns_of(title)});
  if (!cells.are_means() && map.cell() > 1) add_column_names(box, quantity.columns, label, map.cell());
  for (std::int64_t line = 0; line < map.lines(); ++line) {
    check_stop();
    const std::int64_t row = map.row_of(line) * cells.rows;
    const bool named = row >= 0 && row < std::ssize(quantity.rows);
    const std::string text = named ? printable(quantity.rows[static_cast<std::size_t>(row)]) : "";
    const std::string names = label == 0 ? "" : fitted(fitted(text, label - 1), label);
    box.lines.push_back({names + map.line(line), label + map.width(), style == HeatStyle::colors});
  }
  for (const TextLine& line : box.lines) box.width = std::max(box.width, line.columns);
  return box;
}

}  // namespace

std::vector<TextBox> heat_boxes_of(const Quantity& quantity, HeatStyle style, const TextRoom& room) {
  const TensorView values = quantity.values;
  const std::string name = quantity.name + (quantity.substituted ? " (substituted)" : "");
  if (values.rank() == 2) return {heat_box(name, quantity, values, style, room)};
  std::vector<TextBox> boxes;
  for (std::int64_t i = 0; i < values.size(0); ++i) {
    boxes.push_back(heat_box(fmt::format("{}[{}]", name, i + 1), quantity, values.select(0, i), style, room));
  }
  return boxes;
}

std::string heat_ramp(HeatStyle style) {
  constexpr int kSteps = 10;
  std::string ramp;
  for (int i = 0; i < kSteps; ++i) {
    const double share = static_cast<double>(i) / (kSteps - 1);
    ramp += style == HeatStyle::letters
                ? std::string(1, shade_of_share(share))
                : fmt::format("\x1b[38;5;{}m\xe2\x96\x88\xe2\x96\x88", color_256(color_of_share(share, Ground::dark)));
  }
  return "From least to most " + (style == HeatStyle::letters ? "\"" + ramp + "\"" : ramp + "\x1b[0m");
}

std::string heat_remark(HeatStyle style) {
  return fmt::format("Matrices are maps; weights go from 0 to 1, other numbers as their names say. {}.",
                     style == HeatStyle::letters ? "x is -inf, ^ inf, ? not a number" : "Grey is no finite number");
}

}  // namespace qkv::inline explaining
