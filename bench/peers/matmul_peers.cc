// Our matmul against oneDNN's, one thread, f32, both with weights laid out beforehand. The two run in turns in the same
// process, and the best of many runs counts: noise of the machine slows both alike.
//
//   OMP_NUM_THREADS=1 matmul_peers [SECONDS_PER_SHAPE]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "micro/processor_time.h"
#include "qkv/matmul.h"
#include "qkv/random.h"
#include "qkv/target.h"
#include "simd/dispatch.h"

namespace qkv::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Shape {
  std::int64_t m, k, n;
};

Tensor random_matrix(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Random random(seed);
  Tensor matrix = Tensor::uninitialized({rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i)
    matrix.data<float>()[i] = static_cast<float>(random.uniform() - 0.5);
  return matrix;
}

// oneDNN's matmul with the weights in the layout that it prefers.
class Peer {
 public:
  Peer(const Shape& shape, Tensor& a, Tensor& b, Tensor& out) {
    using dnnl::memory;
    const auto f32 = memory::data_type::f32;
    const memory::desc a_desc({shape.m, shape.k}, f32, memory::format_tag::ab);
    const memory::desc b_desc({shape.k, shape.n}, f32, memory::format_tag::ab);
    const memory::desc b_any({shape.k, shape.n}, f32, memory::format_tag::any);
    const memory::desc out_desc({shape.m, shape.n}, f32, memory::format_tag::ab);
    const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a_desc, b_any, out_desc), engine_);
    memory plain(b_desc, engine_, b.data<float>()), packed(desc.weights_desc(), engine_);
    dnnl::reorder(plain, packed).execute(stream_, plain, packed);
    stream_.wait();
    matmul_ = dnnl::matmul(desc);
    arguments_ = {{DNNL_ARG_SRC, memory(a_desc, engine_, a.data<float>())},
                  {DNNL_ARG_WEIGHTS, packed},
                  {DNNL_ARG_DST, memory(out_desc, engine_, out.data<float>())}};
  }

  void run() {
    matmul_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul matmul_;
  std::unordered_map<int, dnnl::memory> arguments_;
};

double largest_difference(const Tensor& x, const Tensor& y) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(x.data<float>()[i]) - y.data<float>()[i]));
  }
  return largest;
}

void compare(const Shape& shape, double seconds) {
  Tensor a = random_matrix(shape.m, shape.k, 1), b = random_matrix(shape.k, shape.n, 2);
  Tensor ours = Tensor::zeros({shape.m, shape.n}), theirs = Tensor::zeros({shape.m, shape.n});
  const PackedMatrix packed(b);
  Peer peer(shape, a, b, theirs);
  const MatmulOptions options{.threads = 1};
  double best_ours = 1e9, best_theirs = 1e9;
  const Clock::time_point start = Clock::now();
  do {
    best_ours = std::min(best_ours, seconds_of([&] { matmul(a, packed, ours, options); }));
    best_theirs = std::min(best_theirs, seconds_of([&] { peer.run(); }));
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  const double operations = 2e-9 * static_cast<double>(shape.m * shape.k * shape.n);
  fmt::print("{:>5} {:>5} {:>5} {:>10.4f} {:>10.4f} {:>10.1f} {:>10.1f} {:>6.3f} {:>10.1f} {:>12.1e}\n", shape.m,
             shape.k, shape.n, 1e3 * best_ours, 1e3 * best_theirs, operations / best_ours, operations / best_theirs,
             best_theirs / best_ours, peak_gflops(Dtype::f32), largest_difference(ours, theirs));
}

}  // namespace
}  // namespace qkv::bench

int main(int count, char** arguments) {
  using namespace qkv::bench;
  const double seconds = count > 1 ? std::atof(arguments[1]) : 2.0;
  fmt::print("target {}, one thread, f32, {} s per shape\n", qkv::selected_target(), seconds);
  fmt::print("{:>5} {:>5} {:>5} {:>10} {:>10} {:>10} {:>10} {:>6} {:>10} {:>12}\n", "m", "k", "n", "qkv ms",
             "oneDNN ms", "GFLOP/s", "oneDNN", "ratio", "peak", "difference");
  // The layers of Transformers; where k and n differ, both ways round.
  for (const Shape& shape : {Shape{512, 768, 768}, Shape{512, 768, 3072}, Shape{512, 3072, 768}, Shape{128, 384, 384},
                             Shape{32, 256, 8000}, Shape{32, 8000, 256}}) {
    compare(shape, seconds);
  }
}
