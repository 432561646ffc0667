// One query, or a few, over many cached keys on one thread: bytes of keys and values per second beside what a plain sum
// over the same buffers reads, in turns, by the thread's processor time, the best of each. The last line is the time of
// a call so small that its overhead counts.
//
//   single_query_bench [SECONDS]     per case; default 1
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "plain_sum.h"
#include "processor_time.h"
#include "qkv/attention.h"
#include "qkv/target.h"
#include "random_tensor.h"

namespace qkv::bench {
namespace {

struct Shape {
  std::int64_t heads, kv_heads, q_len, k_len, head_dim;
};

class Case {
 public:
  Case(const Shape& shape, Dtype dtype)
      : q_(random_tensor({1, shape.heads, shape.q_len, shape.head_dim}, dtype, 1)),
        k_(random_tensor({1, shape.kv_heads, shape.k_len, shape.head_dim}, dtype, 2)),
        v_(random_tensor({1, shape.kv_heads, shape.k_len, shape.head_dim}, dtype, 3)),
        out_(Tensor::zeros(q_.shape(), dtype)) {}

  void attend() { attention(q_, k_, v_, out_, options_); }
  void sum() const {
    for (const TensorView& view : {k_.view(), v_.view()}) {
      const Words words = words_of(view);
      const volatile std::uint64_t total = sum_of(words.data(), static_cast<std::int64_t>(words.size()));
      (void)total;
    }
  }
  double bytes() const {
    return static_cast<double>(2 * k_.element_count()) * static_cast<double>(size_of(k_.dtype()));
  }

 private:
  Tensor q_, k_, v_, out_;
  AttentionOptions options_{.mask = Mask::causal(Align::bottom_right), .threads = 1};
};

void compare(const Shape& shape, Dtype dtype, double seconds) {
  Case data(shape, dtype);
  double ours = 1e9, plain = 1e9;
  for (double spent = 0; spent < seconds;) {
    const double sum = seconds_of([&] { data.sum(); }), attend = seconds_of([&] { data.attend(); });
    plain = std::min(plain, sum);
    ours = std::min(ours, attend);
    spent += sum + attend;
  }
  fmt::print("{:5} {:2} heads on {}, {:2} queries, {:5} keys of {:3}: {:6.1f} GB/s, plain sum {:6.1f}, ratio {:.2f}\n",
             name_of(dtype), shape.heads, shape.kv_heads, shape.q_len, shape.k_len, shape.head_dim,
             1e-9 * data.bytes() / ours, 1e-9 * data.bytes() / plain, plain / ours);
}

void time_small_call(double seconds) {
  constexpr int kCalls = 1000;
  Case data({8, 8, 1, 16, 64}, Dtype::f32);
  double best = 1e9;
  for (double spent = 0; spent < seconds;) {
    const double calls = seconds_of([&] {
      for (int i = 0; i < kCalls; ++i) data.attend();
    });
    best = std::min(best, calls / kCalls);
    spent += calls;
  }
  fmt::print("f32    8 heads on 8,  1 query,     16 keys of  64: {:.2f} microseconds a call\n", 1e6 * best);
}

}  // namespace
}  // namespace qkv::bench

int main(int count, char** arguments) {
  using qkv::Dtype;
  const double seconds = count > 1 ? std::atof(arguments[1]) : 1;
  fmt::print("{}\n", qkv::selected_target());
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    qkv::bench::compare({32, 8, 1, 4096, 128}, dtype, seconds);
    qkv::bench::compare({8, 8, 1, 16384, 64}, dtype, seconds);
    for (const std::int64_t q_len : {2, 4, 8, 16}) qkv::bench::compare({32, 8, q_len, 4096, 128}, dtype, seconds);
  }
  qkv::bench::time_small_call(seconds);
}
