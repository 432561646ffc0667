// Pictures as SVG: shapes and text, on white paper in the colours of the page, that read well in dark surroundings,
// too.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::io {

inline constexpr const char* kInk = "#171c28";
inline constexpr const char* kFaint = "#535c6d";

// Text escaped for HTML and XML. Bytes that are not UTF-8, and controls, become
// U+FFFD.
std::string markup_text(std::string_view text);

enum class Anchor { start, middle, end };

struct SvgText {
  std::string fill = kInk;
  Anchor anchor = Anchor::start;
  int size = 12;
  bool bold = false;
  int turn = 0;  // degrees, around its place
};

struct SvgLine {
  std::string stroke = kFaint;
  double width = 1;
  bool dashed = false;
};

// Collects the parts of a picture. Positions in pixels, x to the right, y down.
class Svg {
 public:
  using Points = std::vector<std::pair<double, double>>;

  void text(double x, double y, std::string_view text, const SvgText& look = {});
  void rect(double x, double y, double width, double height, const std::string& fill);
  // Transparent, by its share.
  void tint(double x, double y, double width, double height, const std::string& fill, double share);
  void frame(double x, double y, double width, double height, const std::string& stroke);
  void line(const Points& points, const SvgLine& look = {});
  void polygon(const Points& points, const std::string& fill, double share);
  void disc(double x, double y, double radius, const std::string& fill);
  void circle(double x, double y, double radius, const std::string& stroke);
  // Parts from here on to end() are moved and, if the rectangle has a size, cut at it.
  void begin(double x, double y);
  void begin_inside(double x, double y, double width, double height);
  void end() { body_ += "</g>\n"; }

  std::string picture(double width, double height, std::string_view name) const;

 protected:
  std::string body_{};

 private:
  int clips_ = 0;
};

}  // namespace qkv::io
