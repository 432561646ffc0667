// matmul with weights packed beforehand, on one thread: decoding (1 to 8 rows, bound by reading the weights) and whole
// layers. "peak" is the share of the multiply-add peak measured at the start of each case; "bytes_per_second" counts
// the weights once. "token": what a small decoder multiplies for one token, on one thread and two, by the clock.
//
//   matmul_bench [--benchmark_filter=f32/512/]
#include <benchmark/benchmark.h>

#include <vector>

#include "qkv/matmul.h"
#include "qkv/random.h"
#include "simd/dispatch.h"

namespace qkv::bench {
namespace {

template <class T>
Tensor random_matrix(std::int64_t rows, std::int64_t columns) {
  Random random(1);
  Tensor matrix = Tensor::uninitialized({rows, columns}, dtype_of<T>);
  for (std::int64_t i = 0; i < rows * columns; ++i) matrix.data<T>()[i] = static_cast<T>(random.uniform() - 0.5);
  return matrix;
}

template <class T>
void multiply(benchmark::State& state) {
  const std::int64_t m = state.range(0), k = state.range(1), n = state.range(2);
  const Tensor a = random_matrix<T>(m, k);
  const PackedMatrix b(random_matrix<T>(k, n));
  Tensor out = Tensor::zeros({m, n}, dtype_of<T>);
  const double peak = 1e9 * peak_gflops(dtype_of<T>);
  const MatmulOptions options{.threads = 1};
  for (auto _ : state) matmul(a, b, out, options);
  using Counter = benchmark::Counter;
  const double operations = 2.0 * static_cast<double>(m * k * n) * static_cast<double>(state.iterations());
  state.counters["flops"] = Counter(operations, Counter::kIsRate);
  state.counters["peak"] = Counter(operations / peak, Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * k * n * static_cast<std::int64_t>(sizeof(T)));
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"m", "k", "n"});
  for (const std::int64_t m : {1, 2, 4, 8, 32, 128, 512}) {
    for (const auto& [k, n] : {std::pair<std::int64_t, std::int64_t>{768, 768}, {768, 3072}, {3072, 768}}) {
      benchmark->Args({m, k, n});
    }
  }
}

// 3 layers, 256 wide and 768 within, and 4,000 tokens: 13.5 MB of weights in f32, one after the other.
void multiply_token(benchmark::State& state) {
  std::vector<PackedMatrix> weights;
  for (int layer = 0; layer < 3; ++layer) {
    for (int i = 0; i < 6; ++i) weights.emplace_back(random_matrix<float>(256, 256));
    weights.emplace_back(random_matrix<float>(256, 768));
    weights.emplace_back(random_matrix<float>(768, 256));
  }
  weights.emplace_back(random_matrix<float>(256, 4000));
  const Tensor row = random_matrix<float>(1, 768);
  Tensor out = Tensor::zeros({1, 4000});
  const MatmulOptions options{.threads = static_cast<int>(state.range(0))};
  std::int64_t bytes = 0;
  for (const PackedMatrix& b : weights) bytes += b.rows() * b.columns() * 4;
  for (auto _ : state) {
    for (const PackedMatrix& b : weights) {
      matmul(row.view().slice(1, 0, b.rows()), b, out.view().slice(1, 0, b.columns()), options);
    }
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

BENCHMARK_TEMPLATE(multiply, float)->Name("f32")->Apply(shapes);
BENCHMARK_TEMPLATE(multiply, double)->Name("f64")->Apply(shapes);
BENCHMARK(multiply_token)->Name("token")->ArgName("threads")->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace qkv::bench
