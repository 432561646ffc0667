// The walk-through as text for people: plain, or coloured by role on a terminal.
#include <algorithm>

#include "core/stop.h"
#include "explain/show/matrix_text.h"
#include "explain/show/svg.h"
#include "explain/steps/text_parts.h"
#include "io/wrap.h"
#include "qkv/explain/explain.h"

namespace qkv {
namespace {

constexpr std::size_t kIndent = 2;
constexpr int kNarrowest = 30;
constexpr std::size_t kGap = 4;  // between tensors side by side

class TextWriter {
 public:
  explicit TextWriter(const TextStyle& style)
      : color_(style.color),
        full_(style.full),
        heat_(style.heat),
        heat_style_(style.color && style.colors_256 ? HeatStyle::colors : HeatStyle::letters),
        width_(static_cast<std::size_t>(std::max(style.width, kNarrowest))) {}

  std::string write(const Explanation& explanation) {
    heading(explanation.title, "1");
    if (heat_) {
      constexpr std::size_t kRamp = 39;  // columns
      constexpr std::string_view kBefore = "From least to most ";
      std::string ramp = heat_ramp(heat_style_);
      if (kIndent + kRamp > width_) ramp.replace(kBefore.size() - 1, 1, "\n" + std::string(kIndent, ' '));
      text_.append(kIndent, ' ') += ramp + "\n";
      write(Line{{heat_remark(heat_style_), Role::none}});
    }
    for (const Section& section : explanation.sections) {
      text_ += '\n';
      heading((section.number > 0 ? "Step " + std::to_string(section.number) + ". " : "") + section.title, "1;4");
      for (std::size_t i = 0; i < section.blocks.size(); ++i) {
        if (i > 0) text_ += '\n';
        write(section.blocks[i]);
      }
    }
    return std::move(text_);
  }

 private:
  void paint(const std::string& text, std::string_view code) { text_ += painted(text, color_ ? code : ""); }

  void heading(const std::string& text, std::string_view code) {
    for (const std::string& line : wrapped(text, width_)) {
      paint(line, code);
      text_ += '\n';
    }
  }

  void write(const Block& block) {
    for (const Line& line : block.lines) write(line);
    std::vector<TextBox> pictures, boxes;
    for (const Picture& picture : block.pictures) pictures.push_back(box_of(picture));
    write(pictures);
    if (!pictures.empty() && !block.quantities.empty()) text_ += '\n';
    const auto count = static_cast<std::size_t>(std::ranges::count_if(block.quantities, is_mapped));
    for (const Quantity& quantity : block.quantities) {
      for (TextBox& box : boxes_to_write(quantity, count)) boxes.push_back(std::move(box));
    }
    write(boxes);
  }

  static bool is_mapped(const Quantity& quantity) {
    return quantity.values.rank() > 1 && quantity.values.element_count() > 0;
  }

  // Maps share the width if they can.
  std::vector<TextBox> boxes_to_write(const Quantity& quantity, std::size_t maps) const {
    const std::size_t width = width_ - kIndent;
    if (!heat_ || !is_mapped(quantity)) return boxes_of(quantity, {.width = width, .full = full_});
    if (quantity.values.rank() > 2) maps *= static_cast<std::size_t>(quantity.values.size(0));
    const std::size_t share = (width - (maps - 1) * kGap) / maps;
    return heat_boxes_of(quantity, heat_style_, {.width = maps > width / kGap ? 0 : share});
  }

  // Lines are wrapped between words; a word may run through several spans.
  struct Word {
    std::size_t blanks = 0;  // before it
    std::size_t length = 0;
    Line pieces;
  };

  static std::vector<Word> words_of(const Line& line) {
    std::vector<Word> words(1);
    for (const Span& span : line) {
      for (const char c : span.text) {
        if (c == ' ') {
          if (words.back().length > 0) words.emplace_back();
          ++words.back().blanks;
          continue;
        }
        Line& pieces = words.back().pieces;
        if (pieces.empty() || pieces.back().role != span.role) pieces.push_back({"", span.role});
        pieces.back().text += c;
        ++words.back().length;
      }
    }
    return words;
  }

  void write(const Line& line) {
    check_stop();
    std::size_t column = kIndent;
    text_.append(kIndent, ' ');
    for (const Word& word : words_of(line)) {
      if (word.length == 0) continue;
      if (column > kIndent && column + word.blanks + word.length > width_) {
        text_ += '\n';
        text_.append(kIndent, ' ');
        column = kIndent;
      } else {
        text_.append(word.blanks, ' ');
        column += word.blanks;
      }
      for (const Span& piece : word.pieces) paint(piece.text, style_of(piece.role).terminal);
      column += word.length;
    }
    text_ += '\n';
  }

  // A title that is wider than all there is, in lines.
  void fit_title(TextBox& box) const {
    if (kIndent + box.lines.front().columns <= width_) return;
    std::vector<TextLine> lines;
    for (const std::string& line : wrapped(box.lines.front().text, width_ - kIndent)) lines.emplace_back(line);
    lines.insert(lines.end(), box.lines.begin() + 1, box.lines.end());
    box.lines = std::move(lines);
    box.width = std::ranges::max(box.lines, {}, &TextLine::columns).columns;
  }

  // Boxes side by side while they fit into the width, then the next ones below.
  void write(std::vector<TextBox> boxes) {
    for (TextBox& box : boxes) fit_title(box);
    for (std::size_t first = 0; first < boxes.size();) {
      std::size_t end = first + 1, width = kIndent + boxes[first].width;
      while (end < boxes.size() && width + kGap + boxes[end].width <= width_) width += kGap + boxes[end++].width;
      if (first > 0) text_ += '\n';
      std::size_t height = 0;
      for (std::size_t i = first; i < end; ++i) height = std::max(height, boxes[i].lines.size());
      for (std::size_t row = 0; row < height; ++row) write_row(boxes, first, end, row);
      first = end;
    }
  }

  void write_row(const std::vector<TextBox>& boxes, std::size_t first, std::size_t end, std::size_t row) {
    std::size_t pending = kIndent;  // blanks are written only before text: no line ends in them
    for (std::size_t i = first; i < end; ++i) {
      const TextLine line = row < boxes[i].lines.size() ? boxes[i].lines[row] : TextLine("");
      const std::size_t blanks = line.painted ? 0 : line.text.size() - (line.text.find_last_not_of(' ') + 1);
      const std::size_t columns = line.columns - blanks;
      if (columns > 0) {
        text_.append(pending, ' ');
        paint(line.text.substr(0, line.text.size() - blanks), line.painted ? "" : style_of(boxes[i].role).terminal);
        pending = 0;
      }
      pending += boxes[i].width - columns + kGap;
    }
    text_ += '\n';
  }

  bool color_, full_, heat_;
  HeatStyle heat_style_;
  std::size_t width_;
  std::string text_;
};

}  // namespace

std::string to_text(const Explanation& explanation, const TextStyle& style) {
  const StopScope stop(explanation.stop);
  return TextWriter(style).write(explanation);
}

}  // namespace qkv
