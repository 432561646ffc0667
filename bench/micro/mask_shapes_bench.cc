// What small masks cost: the time of a masked call by that of the call without a mask, over the share of the pairs of
// query and key that the mask keeps. 1: cost follows the work. Forward and backward on one thread, by the thread's
// processor time, the best of each, every mask in turn with the plain call.
//
//   mask_shapes_bench [ROUNDS [LENGTH [MASK]]]     default 5 rounds of 2,048 and of 8,192
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "processor_time.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/target.h"
#include "random_tensor.h"

namespace qkv::bench {
namespace {

struct MaskShape {
  std::string name;
  Mask mask;
  double kept;  // of the pairs
};

// Causal windows, documents in a row, the same pairs as a boolean array, and squares over the whole array, of which
// one in eight is visible.
class MaskShapes {
 public:
  explicit MaskShapes(std::int64_t length) : length_(length) {
    for (const std::int64_t size : {16, 32, 64, 128}) {
      const auto all = static_cast<double>(length);
      const double cut = static_cast<double>(size * (size - 1)) / 2 / all;
      shapes_.push_back(
          {fmt::format("window {}", size), Mask::window(size - 1, 0), (static_cast<double>(size) - cut) / all});
      const double share = static_cast<double>(size) / all;
      Tensor ids = Tensor::zeros({length}, Dtype::i64);
      for (std::int64_t i = 0; i < length; ++i) ids.data<std::int64_t>()[i] = i / size;
      shapes_.push_back({fmt::format("documents {}", size), Mask::documents(keep(std::move(ids))), share});
      add_boolean("diagonal", size, share, [&](std::int64_t i, std::int64_t j) { return i == j; });
      add_boolean("squares", size, 1.0 / 8, [&](std::int64_t i, std::int64_t j) { return (7 * i + j) % 8 == 0; });
    }
  }

  const std::vector<MaskShape>& shapes() const { return shapes_; }

 private:
  const Tensor& keep(Tensor array) {
    arrays_.push_back(std::move(array));
    return arrays_.back();
  }

  // visible(i, j): of the square of queries and keys i * size and j * size on.
  template <class Visible>
  void add_boolean(const char* name, std::int64_t size, double kept, const Visible& visible) {
    Tensor array = Tensor::zeros({length_, length_}, Dtype::boolean);
    for (std::int64_t i = 0; i < length_; ++i) {
      bool* row = array.data<bool>() + i * length_;
      for (std::int64_t j = 0; j < length_; ++j) row[j] = visible(i / size, j / size);
    }
    const Mask mask = Mask::boolean(keep(std::move(array)));
    shapes_.push_back({fmt::format("{} {}", name, size), mask, kept});
    shapes_.push_back({fmt::format("{} {}, compiled", name, size), mask.compiled(1), kept});
  }

  const std::int64_t length_;
  std::vector<Tensor> arrays_;
  std::vector<MaskShape> shapes_;
};

class Calls {
 public:
  Calls(std::int64_t heads, std::int64_t length)
      : query_(random_tensor({1, heads, length, 64}, Dtype::f32, 1)),
        key_(random_tensor(query_.shape(), Dtype::f32, 2)),
        value_(random_tensor(query_.shape(), Dtype::f32, 3)),
        grad_out_(random_tensor(query_.shape(), Dtype::f32, 4)),
        out_(Tensor::zeros(query_.shape())),
        log_sum_exp_(Tensor::zeros({1, heads, length})),
        grad_query_(Tensor::zeros(query_.shape())),
        grad_key_(Tensor::zeros(query_.shape())),
        grad_value_(Tensor::zeros(query_.shape())) {}

  double forward(const Mask& mask) {
    return seconds_of(
        [&] { attention(query_, key_, value_, out_, {.mask = mask, .threads = 1}, {.log_sum_exp = log_sum_exp_}); });
  }
  // After forward() of the same mask.
  double backward(const Mask& mask) {
    return seconds_of([&] {
      attention_backward(query_, key_, value_, out_, log_sum_exp_, grad_out_, {.mask = mask, .threads = 1},
                         {.query = grad_query_, .key = grad_key_, .value = grad_value_});
    });
  }

 private:
  Tensor query_, key_, value_, grad_out_, out_, log_sum_exp_, grad_query_, grad_key_, grad_value_;
};

struct Best {
  double forward = 1e9, backward = 1e9;

  void time(Calls& calls, const Mask& mask, int times) {
    for (int i = 0; i < times; ++i) forward = std::min(forward, calls.forward(mask));
    for (int i = 0; i < times; ++i) backward = std::min(backward, calls.backward(mask));
  }
};

void compare(std::int64_t heads, std::int64_t length, int rounds, std::string_view only) {
  const MaskShapes masks(length);
  Calls calls(heads, length);
  Best plain;
  std::vector<Best> best(masks.shapes().size());
  for (int round = 0; round < rounds; ++round) {
    plain.time(calls, {}, 1);
    for (std::size_t n = 0; n < best.size(); ++n) {
      const MaskShape& shape = masks.shapes()[n];
      if (shape.name.starts_with(only)) best[n].time(calls, shape.mask, 4);
    }
  }
  for (std::size_t n = 0; n < best.size(); ++n) {
    const MaskShape& shape = masks.shapes()[n];
    if (!shape.name.starts_with(only)) continue;
    fmt::print("{:5} {:24} forward {:5.2f}, backward {:5.2f}\n", length, shape.name,
               best[n].forward / plain.forward / shape.kept, best[n].backward / plain.backward / shape.kept);
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace qkv::bench

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 5;
  const std::int64_t only = count > 2 ? std::atoll(arguments[2]) : 0;
  const std::string_view mask = count > 3 ? arguments[3] : "";
  fmt::print("{}\n", qkv::selected_target());
  if (only == 0 || only == 2048) qkv::bench::compare(/*heads=*/4, 2048, rounds, mask);
  if (only == 0 || only == 8192) qkv::bench::compare(/*heads=*/1, 8192, rounds, mask);
}
