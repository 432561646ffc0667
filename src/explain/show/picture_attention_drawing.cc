// Draws where a Vision Transformer looks, over the picture: in a terminal, and as SVG.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/mathematics.h"
#include "explain/observe/require.h"
#include "explain/show/heat.h"
#include "explain/show/svg.h"
#include "io/base64.h"
#include "io/wrap.h"
#include "qkv/explain/picture_attention.h"

namespace qkv {
namespace {

// Black, purple, orange, yellow, by a heat from 0 to 1.
Rgb heat_color(double heat) {
  return color_between({{{0, 0, 4}, {120, 28, 109}, {237, 105, 37}, {252, 255, 164}}}, heat);
}

// Weights as shares of the largest.
Tensor heats_of(const Tensor& weights) {
  Tensor heats = Tensor::copy(weights);
  double* heat = heats.data<double>();
  const double largest = *std::max_element(heat, heat + heats.element_count());
  for (std::int64_t i = 0; i < heats.element_count(); ++i) heat[i] = largest > 0 ? heat[i] / largest : 0;
  return heats;
}

// The mean colour of a part of the picture that is `rows` x `columns` times as small.
Rgb mean_color(const TensorView& view, std::int64_t y, std::int64_t x, std::int64_t rows, std::int64_t columns) {
  std::array<double, 3> sum{};
  const std::int64_t top = y * view.size(0) / rows, bottom = std::max(top + 1, (y + 1) * view.size(0) / rows);
  const std::int64_t left = x * view.size(1) / columns, right = std::max(left + 1, (x + 1) * view.size(1) / columns);
  for (std::int64_t i = top; i < bottom; ++i) {
    for (std::int64_t j = left; j < right; ++j) {
      for (std::int64_t c = 0; c < 3; ++c) sum[static_cast<std::size_t>(c)] += view.at<std::uint8_t>({i, j, c});
    }
  }
  Rgb color{};
  for (std::size_t c = 0; c < 3; ++c) {
    color[c] = static_cast<std::uint8_t>(std::lround(sum[c] / static_cast<double>((bottom - top) * (right - left))));
  }
  return color;
}

Rgb mixed(const Rgb& a, const Rgb& b, double share_of_b) {
  Rgb color{};
  for (std::size_t c = 0; c < 3; ++c) {
    color[c] = static_cast<std::uint8_t>(std::lround(a[c] * (1 - share_of_b) + b[c] * share_of_b));
  }
  return color;
}

constexpr double kHeatShare = 0.6;  // of a colour over the picture

// Two rows of pixels in a line of half blocks (U+2580), each in its colour.
std::string half_blocks(const TensorView& view, const Tensor& heats, std::int64_t scale, std::int64_t line) {
  const std::int64_t rows = heats.size(0) * scale, columns = heats.size(1) * scale;
  std::string text;
  const auto draw = [&](bool with_heat) {
    for (std::int64_t x = 0; x < columns; ++x) {
      std::array<Rgb, 2> halves{};
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t y = std::min(2 * line + half, rows - 1);
        halves[static_cast<std::size_t>(half)] = mean_color(view, y, x, rows, columns);
        if (!with_heat) continue;
        const double heat = heats.view().at<double>({y / scale, x / scale});
        halves[static_cast<std::size_t>(half)] =
            mixed(halves[static_cast<std::size_t>(half)], heat_color(heat), kHeatShare);
      }
      const auto& [upper, lower] = halves;
      text += fmt::format("\x1b[38;2;{};{};{}m\x1b[48;2;{};{};{}m\xe2\x96\x80", upper[0], upper[1], upper[2], lower[0],
                          lower[1], lower[2]);
    }
    text += "\x1b[0m";
  };
  draw(false);
  text += "  ";
  draw(true);
  return text + "\n";
}

std::string letters(const Tensor& heats) {
  std::string text;
  for (std::int64_t y = 0; y < heats.size(0); ++y) {
    for (std::int64_t x = 0; x < heats.size(1); ++x) {
      text.append(2, shade_of_share(heats.view().at<double>({y, x})));
    }
    text += "\n";
  }
  return text;
}

// A picture as the address of an image: BMP, 24 bits, rows from below, each filled up to a multiple of 4 bytes.
std::string image_address(const TensorView& view) {
  const auto height = static_cast<std::uint32_t>(view.size(0)), width = static_cast<std::uint32_t>(view.size(1));
  const std::uint32_t row = (3 * width + 3) / 4 * 4;
  std::string bytes = "BM";
  const auto number = [&](std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
  };
  constexpr std::uint32_t kHeader = 54;
  number(kHeader + row * height, 4), number(0, 4), number(kHeader, 4);
  number(40, 4), number(width, 4), number(height, 4), number(1, 2), number(24, 2);
  for (const std::uint32_t value : {0u, row * height, 2835u, 2835u, 0u, 0u}) number(value, 4);
  for (std::int64_t y = view.size(0) - 1; y >= 0; --y) {
    for (std::int64_t x = 0; x < view.size(1); ++x) {
      for (std::int64_t c = 2; c >= 0; --c) bytes += static_cast<char>(view.at<std::uint8_t>({y, x, c}));
    }
    bytes.append(row - 3 * width, '\0');
  }
  return "data:image/bmp;base64," + io::encode_base64(bytes);
}

// Programs that smooth pictures where they are drawn larger would smear a small one: it is made larger here.
Tensor enlarged(const TensorView& view) {
  constexpr std::int64_t kLeast = 128;
  const std::int64_t side = std::min(view.size(0), view.size(1)), scale = (kLeast + side - 1) / side;
  Tensor large = Tensor::uninitialized({view.size(0) * scale, view.size(1) * scale, 3}, Dtype::u8);
  std::uint8_t* to = large.data<std::uint8_t>();
  for (std::int64_t y = 0; y < large.size(0); ++y) {
    for (std::int64_t x = 0; x < large.size(1); ++x) {
      for (std::int64_t c = 0; c < 3; ++c) *to++ = view.at<std::uint8_t>({y / scale, x / scale, c});
    }
  }
  return large;
}

// One picture, drawn again in each panel, with weights over it.
class PictureSvg : public Svg {
 public:
  static constexpr double kSide = 150;

  explicit PictureSvg(const TensorView& view)
      : height_(kSide * static_cast<double>(view.size(0)) / static_cast<double>(view.size(1))) {
    body_ = fmt::format(
        "<defs><image id=\"picture\" width=\"{:.0f}\" height=\"{:.1f}\" preserveAspectRatio=\"none\" "
        "href=\"{}\"/></defs>\n",
        kSide, height_, image_address(enlarged(view)));
  }

  double height() const { return kTitle + height_; }  // of a panel

  void panel(double x, double y, const std::string& title, const Tensor* weights) {
    begin(x, y);
    text(0, 12, title);
    begin(0, kTitle);
    body_ += "<use href=\"#picture\"/>\n";
    if (weights != nullptr) {
      std::array<std::string, 16> colors;
      for (std::size_t i = 0; i < colors.size(); ++i) colors[i] = hex(heat_color(static_cast<double>(i) / 15));
      const Tensor heats = heats_of(*weights);
      body_ += fmt::format("<g opacity=\"{}\" shape-rendering=\"crispEdges\" transform=\"scale({} {})\">\n{}</g>\n",
                           kHeatShare, kSide / static_cast<double>(heats.size(1)),
                           height_ / static_cast<double>(heats.size(0)),
                           cell_paths(heats.size(0), heats.size(1), colors, [&](std::int64_t i, std::int64_t j) {
                             return static_cast<std::size_t>(heats.view().at<double>({i, j}) * 15 + 0.5);
                           }));
    }
    end(), end();
  }

 private:
  static constexpr double kTitle = 18;
  double height_ = 0;  // of the picture
};

// The patch with the largest weight.
std::pair<PictureSize, double> largest(const Tensor& patches) {
  const double* weight = patches.data<double>();
  const std::int64_t at = std::max_element(weight, weight + patches.element_count()) - weight;
  return {{at / patches.size(1), at % patches.size(1)}, weight[at]};
}

}  // namespace

std::string to_text(const PictureAttention& seen, const TensorView& view, const TextStyle& style) {
  const Tensor heats = heats_of(seen.rollout);
  const std::string name = seen.token == "class" ? "the class token" : "patch " + seen.token;
  const std::string title =
      fmt::format("Where {} looks: attention rollout over all layers, {} x {} patches{}", name, seen.grid.height,
                  seen.grid.width, style.color ? "; beside it the picture as the model reads it" : "");
  std::string text;
  for (const std::string& line : wrapped(title, static_cast<std::size_t>(std::max(style.width, 1))))
    text += line + "\n";
  text += "\n";
  if (style.color) {
    const std::int64_t room = (style.width - 2) / 2;
    const std::int64_t scale = std::max<std::int64_t>(1, std::min<std::int64_t>(room, 48) / seen.grid.width);
    for (std::int64_t line = 0; 2 * line < seen.grid.height * scale; ++line) {
      text += half_blocks(view, heats, scale, line);
    }
  } else {
    text += letters(heats);
  }
  const bool narrow = style.width < 62;  // the columns of a row in full
  text += narrow ? fmt::format("\n{:>5} {:>4} {:>5} {}\n", "layer", "head", "keys", "largest")
                 : fmt::format("\n{:>5} {:>4}  {:>7} {:>6}  {:>8}  {}\n", "layer", "head", "entropy", "keys",
                               "to class", "largest weight");
  for (const PictureAttention::Head& head : seen.heads) {
    const auto [patch, weight] = largest(head.patches);
    if (narrow) {
      text += fmt::format("{:>5} {:>4} {:>5.1f} {:.3f} to {},{}\n", head.index.layer, head.index.head,
                          exp(head.summary.entropy), weight, patch.height, patch.width);
      continue;
    }
    text += fmt::format("{:>5} {:>4}  {:>7.3f} {:>6.1f}  {:>8.3f}  {:.3f} to patch {},{}\n", head.index.layer,
                        head.index.head, head.summary.entropy, exp(head.summary.entropy), head.to_class, weight,
                        patch.height, patch.width);
  }
  return text;
}

std::string to_svg(const PictureAttention& seen, const TensorView& view) {
  constexpr double kGap = 12;
  PictureSvg svg(view);
  std::int64_t columns = 2;
  for (const auto& head : seen.heads) columns = std::max(columns, head.index.head + 1);
  double bottom = 0;
  const auto panel = [&](std::int64_t column, std::int64_t line, const std::string& title, const Tensor* weights) {
    const double y = kGap + static_cast<double>(line) * (svg.height() + kGap);
    svg.panel(kGap + static_cast<double>(column) * (PictureSvg::kSide + kGap), y, title, weights);
    bottom = y + svg.height() + kGap;
  };
  const std::string name = seen.token == "class" ? "class token" : "patch " + seen.token;
  panel(0, 0, "picture", nullptr);
  panel(1, 0, name + ", rollout", &seen.rollout);
  for (const auto& head : seen.heads) {
    panel(head.index.head, head.index.layer + 1, fmt::format("layer {}, head {}", head.index.layer, head.index.head),
          &head.patches);
  }
  return svg.picture(static_cast<double>(columns) * (PictureSvg::kSide + kGap) + kGap, bottom,
                     "where the " + name + " looks");
}

}  // namespace qkv
