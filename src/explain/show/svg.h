// Pictures as SVG, on white paper in the colours of the page, that read well in dark surroundings, too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "explain/show/heat.h"

namespace qkv::inline explaining {

inline constexpr const char* kInk = "#171c28";
inline constexpr const char* kFaint = "#535c6d";
inline constexpr double kEdge = 28;          // free to each side of a picture
inline constexpr std::size_t kLongest = 16;  // letters of a name

// Of a role, as text on paper.
const char* svg_color(Role role);

enum class Anchor { start, middle, end };

struct SvgText {
  std::string fill = kInk;
  Anchor anchor = Anchor::start;
  int size = 12;
  bool bold = false;
  int turn = 0;  // degrees, around its place
};

// Collects the parts of a picture; whatever text holds, none of it is markup.
class Svg {
 public:
  void text(double x, double y, std::string_view text, const SvgText& look = {});
  void rect(double x, double y, double width, double height, const std::string& fill);
  // Transparent, by its share.
  void tint(double x, double y, double width, double height, const std::string& fill, double share);
  void frame(double x, double y, double width, double height, const std::string& stroke);
  // Cells of a map, `cell` wide and high; what is no finite number is grey.
  void map(double x, double y, double cell, const HeatCells& cells, const HeatScale& scale);

  std::string picture(double width, double height, std::string_view name) const;

  static double width_of(std::string_view text);  // of letters of 12 points, at most
  static std::string cut(std::string_view text, std::size_t columns);

 private:
  std::string body_{};
};

}  // namespace qkv::inline explaining
