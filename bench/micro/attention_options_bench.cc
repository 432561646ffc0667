// What an option of attention costs: forward, backward and tangents on one thread beside the plain call, in turns, by
// the thread's processor time, the best of each. A ratio of 1 is the time of the plain call.
//
//   attention_options_bench [SECONDS [SHAPE]]     per pass; default 1
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "processor_time.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "qkv/random.h"
#include "qkv/target.h"
#include "random_tensor.h"

namespace qkv::bench {
namespace {

struct Shape {
  const char* name;
  std::int64_t batch, heads, length, head_dim;
};

class Call {
 public:
  Call(const Shape& shape, const AttentionOptions& options, const std::vector<MutableTensorView>& grad_bias)
      : query_(random_tensor({shape.batch, shape.heads, shape.length, shape.head_dim}, Dtype::f32, 1)),
        key_(random_tensor(query_.shape(), Dtype::f32, 2)),
        value_(random_tensor(query_.shape(), Dtype::f32, 3)),
        tangent_(random_tensor(query_.shape(), Dtype::f32, 4)),
        out_(Tensor::zeros(query_.shape())),
        log_sum_exp_(Tensor::zeros({shape.batch, shape.heads, shape.length})),
        grad_query_(Tensor::zeros(query_.shape())),
        grad_key_(Tensor::zeros(query_.shape())),
        grad_value_(Tensor::zeros(query_.shape())),
        options_(options) {
    options_.threads = 1;
    gradients_ = {.query = grad_query_, .key = grad_key_, .value = grad_value_, .bias = grad_bias};
  }

  void forward() { attention(query_, key_, value_, out_, options_, {.log_sum_exp = log_sum_exp_}); }
  void backward() { attention_backward(query_, key_, value_, out_, log_sum_exp_, tangent_, options_, gradients_); }
  void tangents() {
    attention_jvp(query_, key_, value_, out_, log_sum_exp_, {.query = tangent_}, options_, {.out = grad_query_});
  }

 private:
  Tensor query_, key_, value_, tangent_, out_, log_sum_exp_, grad_query_, grad_key_, grad_value_;
  AttentionOptions options_;
  AttentionGradients gradients_;
};

// The time of `work` by that of `plain`, the best of each.
double ratio(const std::function<void()>& work, const std::function<void()>& plain, double seconds) {
  double best = 1e9, best_plain = 1e9;
  for (double spent = 0; spent < seconds;) {
    const double a = seconds_of(plain), b = seconds_of(work);
    best_plain = std::min(best_plain, a);
    best = std::min(best, b);
    spent += a + b;
  }
  return best / best_plain;
}

void compare(const Shape& shape, const char* option, const AttentionOptions& options,
             const std::vector<MutableTensorView>& grad_bias, double seconds) {
  Call plain(shape, {}, {}), call(shape, options, grad_bias);
  const double forward = ratio([&] { call.forward(); }, [&] { plain.forward(); }, seconds);
  const double backward = ratio([&] { call.backward(); }, [&] { plain.backward(); }, seconds);
  const double tangents = ratio([&] { call.tangents(); }, [&] { plain.tangents(); }, seconds);
  fmt::print("{:6} {:34} forward {:.2f}, backward {:.2f}, tangents {:.2f}\n", shape.name, option, forward, backward,
             tangents);
  std::fflush(stdout);
}

void compare_biases(const Shape& shape, double seconds) {
  const std::int64_t length = shape.length, heads = shape.heads;
  const auto compare_bias = [&](const char* name, const TensorView& bias,
                                const std::vector<MutableTensorView>& gradients = {}) {
    compare(shape, name, {.bias = Bias::view(bias)}, gradients, seconds);
  };
  const Tensor whole = random_tensor({heads, length, length}, Dtype::f32, 5),
               row = random_tensor({heads, 1, length}, Dtype::f32, 6);
  const Tensor column = random_tensor({heads, length, 1}, Dtype::f32, 7),
               last = random_tensor({length, length, heads}, Dtype::f32, 8);
  const Tensor uneven = random_tensor({heads, length, length + 13}, Dtype::f32, 9);
  Tensor gradient = Tensor::zeros(whole.shape());
  compare_bias("bias of each head", whole);
  compare_bias("its gradient, too", whole, {gradient});
  compare_bias("bias of all heads", whole.view().select(0, 0));
  compare_bias("bias, rows apart", uneven.view().slice(2, 0, length));
  compare_bias("bias, keys by queries", whole.view().transpose(1, 2));
  compare_bias("bias, heads last", last.view().transpose(0, 2).transpose(1, 2));
  compare_bias("bias of each key", row);
  compare_bias("bias of each query", column);
}

// Forward alone: keys in pages of 16 rows, in random order, those of all heads side by side; beside keys of each head
// in one piece.
void compare_pages(const Shape& shape, double seconds) {
  constexpr std::int64_t kRows = 16;
  const std::int64_t pages = shape.length / kRows;
  const Tensor query = random_tensor({1, shape.heads, shape.length, shape.head_dim}, Dtype::f32, 1);
  const Tensor keys = random_tensor(query.shape(), Dtype::f32, 2), values = random_tensor(query.shape(), Dtype::f32, 3);
  const Tensor key_pages = random_tensor({pages, kRows, shape.heads, shape.head_dim}, Dtype::f32, 4);
  const Tensor value_pages = random_tensor(key_pages.shape(), Dtype::f32, 5);
  Tensor table = Tensor::zeros({1, pages}, Dtype::i32), out = Tensor::zeros(query.shape());
  Random random(6);
  std::int32_t* order = table.data<std::int32_t>();
  std::iota(order, order + pages, 0);
  for (std::int64_t i = pages; i > 1; --i) std::swap(order[i - 1], order[random.below(static_cast<std::uint64_t>(i))]);
  const double forward =
      ratio([&] { attention(query, key_pages, value_pages, out, {.block_table = table, .threads = 1}); },
            [&] { attention(query, keys, values, out, {.threads = 1}); }, seconds);
  fmt::print("{:6} {:34} forward {:.2f}\n", shape.name, "pages of 16 rows", forward);
}

// One query of each head over 4,096 keys.
void compare_decoding(double seconds) {
  const Tensor query = random_tensor({1, 32, 1, 128}, Dtype::f32, 1),
               keys = random_tensor({1, 8, 4096, 128}, Dtype::f32, 2);
  Tensor out = Tensor::zeros(query.shape());
  const double forward =
      ratio([&] { attention(query, keys, keys, out, {.dropout = {.p = 0.1, .seed = 1}, .threads = 1}); },
            [&] { attention(query, keys, keys, out, {.threads = 1}); }, seconds);
  fmt::print("{:6} {:34} forward {:.2f}\n", "decode", "dropout", forward);
}

}  // namespace
}  // namespace qkv::bench

int main(int count, char** arguments) {
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
  fmt::print("{}\n", qkv::selected_target());
  for (const qkv::bench::Shape& shape : {qkv::bench::Shape{"minilm", 8, 12, 128, 32},
                                         {"vit", 1, 12, 197, 64},
                                         {"bert", 1, 12, 512, 64},
                                         {"gpt", 1, 12, 1024, 64}}) {
    if (count > 2 && std::string_view(arguments[2]) != shape.name) continue;
    qkv::bench::compare_biases(shape, seconds);
    if (shape.length % 16 == 0) qkv::bench::compare_pages(shape, seconds);
  }
  if (count < 3 || std::string_view(arguments[2]) == "decode") qkv::bench::compare_decoding(seconds);
}
