// Writes the parts of SVG pictures.
#include "io/svg.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace qkv::io {
namespace {

// Two code points that HTML has and XML lacks, U+FFFE and U+FFFF, become U+FFFD.
std::string xml_text(std::string_view text) {
  std::string safe = markup_text(text);
  for (const std::string_view outside : {"\xEF\xBF\xBE", "\xEF\xBF\xBF"}) {
    for (std::size_t at = 0; (at = safe.find(outside, at)) != std::string::npos;) safe[at + 2] = '\xBD';
  }
  return safe;
}

std::string points_text(const Svg::Points& points) {
  std::string text;
  for (const auto& [x, y] : points) text += fmt::format("{}{:.1f},{:.1f}", text.empty() ? "" : " ", x, y);
  return text;
}

}  // namespace

std::string markup_text(std::string_view text) {
  using nlohmann::json;
  const auto valid = json::parse(json(std::string(text)).dump(-1, ' ', false, json::error_handler_t::replace));
  std::string markup;
  for (const char c : valid.get<std::string>()) {
    switch (c) {
      case '&':
        markup += "&amp;";
        break;
      case '<':
        markup += "&lt;";
        break;
      case '>':
        markup += "&gt;";
        break;
      case '"':
        markup += "&quot;";
        break;
      case '\'':
        markup += "&#39;";
        break;
      default:
        const bool control = (c >= 0 && c < ' ' && c != '\n' && c != '\t') || c == '\x7f';
        markup += control ? std::string("\xEF\xBF\xBD") : std::string(1, c);
    }
  }
  return markup;
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

void Svg::line(const Points& points, const SvgLine& look) {
  if (points.empty()) return;
  body_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\"{} points=\"{}\"/>\n", look.stroke,
                       look.width, look.dashed ? " stroke-dasharray=\"4 4\"" : "", points_text(points));
}

void Svg::polygon(const Points& points, const std::string& fill, double share) {
  body_ += fmt::format("<polygon fill=\"{}\" fill-opacity=\"{}\" points=\"{}\"/>\n", fill, share, points_text(points));
}

void Svg::disc(double x, double y, double radius, const std::string& fill) {
  body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y, radius, fill);
}

void Svg::circle(double x, double y, double radius, const std::string& stroke) {
  body_ +=
      fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", x, y, radius, stroke);
}

void Svg::begin(double x, double y) { body_ += fmt::format("<g transform=\"translate({:.1f} {:.1f})\">\n", x, y); }

void Svg::begin_inside(double x, double y, double width, double height) {
  body_ += fmt::format(
      "<clipPath id=\"inside{0}\"><rect x=\"{1:.1f}\" y=\"{2:.1f}\" width=\"{3:.1f}\" height=\"{4:.1f}\"/></clipPath>\n"
      "<g clip-path=\"url(#inside{0})\">\n",
      clips_++, x, y, width, height);
}

std::string Svg::picture(double width, double height, std::string_view name) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{2}</title>\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"#ffffff\"/>\n{3}</svg>\n",
      std::ceil(width), std::ceil(height), xml_text(name), body_);
}

}  // namespace qkv::io
