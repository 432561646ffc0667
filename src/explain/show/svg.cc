// Writes the parts of SVG pictures.
#include "explain/show/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "explain/show/report_page.h"
#include "explain/steps/text_parts.h"

namespace qkv::inline explaining {
namespace {

constexpr double kColumn = 7.2;  // width of a letter

// Two code points that HTML has and XML lacks, U+FFFE and U+FFFF, become U+FFFD.
std::string xml_text(std::string_view text) {
  std::string safe = html_text(text);
  for (const std::string_view outside : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = 0; (at = safe.find(outside, at)) != std::string::npos;) safe[at + 2] = '\xBD';
  }
  return safe;
}

}  // namespace

const char* svg_color(Role role) {
  switch (role) {
    case Role::input:
      return "#0a6b4f";
    case Role::query:
      return "#b8341b";
    case Role::key:
      return "#7d5a00";
    case Role::value:
      return "#96308f";
    case Role::score:
      return "#1b57b3";
    case Role::weight:
      return "#05708f";
    case Role::output:
      return kInk;
    case Role::none:
      break;
  }
  return kFaint;
}

void Svg::text(double x, double y, std::string_view text, const SvgText& look) {
  constexpr std::array<const char*, 3> kAnchors = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\"{}", x, y, look.fill,
                       kAnchors[static_cast<std::size_t>(look.anchor)]);
  if (look.size != 12) body_ += fmt::format(" font-size=\"{}\"", look.size);
  if (look.bold) body_ += " font-weight=\"bold\"";
  if (look.turn != 0) body_ += fmt::format(" transform=\"rotate({} {:.1f} {:.1f})\"", look.turn, x, y);
  body_ += ">" + xml_text(text) + "</text>\n";
}

void Svg::rect(double x, double y, double width, double height, const std::string& fill) {
  body_ += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
                       width, height, fill);
}

void Svg::tint(double x, double y, double width, double height, const std::string& fill, double share) {
  if (share == 0) return;
  body_ += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\" fill-opacity=\"{:.3f}\"/>\n", x,
      y, width, height, fill, share);
}

void Svg::frame(double x, double y, double width, double height, const std::string& stroke) {
  body_ +=
      fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" stroke=\"{}\"/>\n",
                  x, y, width, height, stroke);
}

// A path for each of 64 colours, in units of a cell; runs of one colour are one piece.
void Svg::map(double x, double y, double cell, const HeatCells& cells, const HeatScale& scale) {
  constexpr std::size_t kLevels = 64;
  std::array<std::string, kLevels + 1> paths;
  const std::int64_t height = cells.values.size(0), width = cells.values.size(1);
  const auto level_at = [&](std::int64_t i, std::int64_t j) {
    const double value = cells.values.view().at<double>({i, j});
    return std::isfinite(value) ? static_cast<std::size_t>(scale.share(value) * (kLevels - 1) + 0.5) : kLevels;
  };
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t j = 0, end = 0; j < width; j = end) {
      const std::size_t level = level_at(i, j);
      for (end = j + 1; end < width && level_at(i, end) == level;) ++end;
      if (level > 0) paths[level] += fmt::format("M{} {}h{}v1h-{}z", j, i, end - j, end - j);
    }
  }
  rect(x, y, cell * static_cast<double>(width), cell * static_cast<double>(height),
       hex(color_of_share(0, Ground::light)));
  body_ +=
      fmt::format("<g transform=\"translate({:.1f} {:.1f}) scale({})\" shape-rendering=\"crispEdges\">\n", x, y, cell);
  for (std::size_t level = 0; level < paths.size(); ++level) {
    if (paths[level].empty()) continue;
    const Rgb color = level == kLevels ? color_of_no_number(Ground::light)
                                       : color_of_share(static_cast<double>(level) / (kLevels - 1), Ground::light);
    body_ += fmt::format("<path fill=\"{}\" d=\"{}\"/>\n", hex(color), paths[level]);
  }
  body_ += "</g>\n";
}

std::string Svg::picture(double width, double height, std::string_view name) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      std::ceil(width), std::ceil(height), xml_text(name), body_);
}

double Svg::width_of(std::string_view text) { return kColumn * static_cast<double>(columns_of(text)); }

std::string Svg::cut(std::string_view text, std::size_t columns) {
  if (columns_of(text) <= columns) return std::string(text);
  std::string kept = fitted(text, columns - 1);
  kept.erase(kept.find_last_not_of(' ') + 1);
  return kept + "\xe2\x80\xa6";  // an ellipsis
}

}  // namespace qkv::inline explaining
