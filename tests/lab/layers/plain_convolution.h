// Convolutions in plain double-precision loops, forward and backward: what Conv1d (pictures of height 1) and Conv2d are
// compared with; and that comparison.
#pragma once

#include <string>
#include <vector>

#include "attention/attention_testing.h"
#include "qkv/pictures.h"

namespace qkv::testing {

// To a part of the largest number.
inline void expect_near(const TensorView& given, const std::vector<double>& wanted, const std::string& what = "") {
  const Tensor expected = Tensor::of({std::ssize(wanted)}, wanted);
  const double part = given.dtype() == Dtype::f32 ? 1e-5 : 1e-12;
  EXPECT_LE(difference(given, expected), part * largest(expected)) << what;
}

using List = std::vector<std::int64_t>;

// f of every combination of one number of each list.
template <class F>
void for_all(const F& f) {
  f();
}
template <class F, class... Lists>
void for_all(const F& f, const List& first, const Lists&... others) {
  for (const std::int64_t number : first) for_all([&](auto... more) { f(number, more...); }, others...);
}

struct PlainConvolution {
  std::int64_t in = 1, out = 1, groups = 1;
  PictureSize kernel{1, 1}, stride{1, 1}, dilation{1, 1};
  PictureSize before{0, 0}, after{0, 0};

  // Windows of `reach` places and one more, a stride apart, that fit; none over padding alone.
  static std::int64_t count(std::int64_t size, std::int64_t padding, std::int64_t reach, std::int64_t stride) {
    std::int64_t windows = 0;
    while (size > 0 && windows * stride + reach < size + padding) ++windows;
    return windows;
  }
  PictureSize out_size(const PictureSize& size) const {
    return {count(size.height, before.height + after.height, (kernel.height - 1) * dilation.height, stride.height),
            count(size.width, before.width + after.width, (kernel.width - 1) * dilation.width, stride.width)};
  }

  // f(index of the output, of the weight, of the input) for every product; all are row-major.
  template <class F>
  void for_each_product(const PictureSize& size, const F& f) const {
    const PictureSize places = out_size(size);
    const std::int64_t group_in = in / groups, group_out = out / groups;
    for (std::int64_t oy = 0; oy < places.height; ++oy) {
      for (std::int64_t ox = 0; ox < places.width; ++ox) {
        for (std::int64_t o = 0; o < out; ++o) {
          for (std::int64_t c = 0; c < group_in; ++c) {
            for (std::int64_t ky = 0; ky < kernel.height; ++ky) {
              for (std::int64_t kx = 0; kx < kernel.width; ++kx) {
                const std::int64_t y = oy * stride.height + ky * dilation.height - before.height;
                const std::int64_t x = ox * stride.width + kx * dilation.width - before.width;
                if (y < 0 || y >= size.height || x < 0 || x >= size.width) continue;
                f((oy * places.width + ox) * out + o, ((o * group_in + c) * kernel.height + ky) * kernel.width + kx,
                  (y * size.width + x) * in + o / group_out * group_in + c);
              }
            }
          }
        }
      }
    }
  }
};

// Outputs and gradients of pictures that follow one another.
struct PlainPictures {
  std::vector<double> out, grad_x, grad_weight, grad_bias;
};

inline PlainPictures convolve_plainly(const PlainConvolution& plain, const std::vector<PictureSize>& sizes,
                                      const std::vector<double>& x, const std::vector<double>& weight,
                                      const std::vector<double>& bias, const std::vector<double>& grad_out) {
  PlainPictures result{{},
                       std::vector<double>(x.size()),
                       std::vector<double>(weight.size()),
                       std::vector<double>(static_cast<std::size_t>(plain.out))};
  std::size_t first_x = 0;
  for (const PictureSize& size : sizes) {
    const PictureSize places = plain.out_size(size);
    const std::size_t first = result.out.size();
    for (std::int64_t i = 0; i < places.height * places.width; ++i) {
      for (std::size_t o = 0; o < static_cast<std::size_t>(plain.out); ++o) {
        result.out.push_back(bias.empty() ? 0 : bias[o]);
        result.grad_bias[o] += grad_out[result.out.size() - 1];
      }
    }
    plain.for_each_product(size, [&](std::int64_t to, std::int64_t tap, std::int64_t from) {
      const std::size_t o = first + static_cast<std::size_t>(to), w = static_cast<std::size_t>(tap);
      const std::size_t i = first_x + static_cast<std::size_t>(from);
      result.out[o] += weight[w] * x[i];
      result.grad_x[i] += weight[w] * grad_out[o];
      result.grad_weight[w] += grad_out[o] * x[i];
    });
    first_x += static_cast<std::size_t>(size.height * size.width * plain.in);
  }
  return result;
}

}  // namespace qkv::testing
