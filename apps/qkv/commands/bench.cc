// qkv bench: the throughput of kernels as a share of the multiply-add peak of the same cores, both measured
// alternately in one process, under the same clock and the same load.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/counted.h"
#include "core/share.h"
#include "figures.h"
#include "inputs/options.h"
#include "notes.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/error.h"
#include "qkv/matmul.h"
#include "qkv/random.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "signals.h"
#include "simd/dispatch.h"

namespace qkv::app {
namespace {

constexpr double kMeasureSeconds = 1.0;
constexpr int kLeastRuns = 3;

struct Result {
  double seconds = std::numeric_limits<double>::infinity();  // of the best run
  double peak = 0;                                           // GFLOP/s of one thread
  Dtype multiplied = Dtype::f32;
};

// Runs `work` once to warm up, then alternates it with the measurement of the peak.
// `multiplied`: the type of the factors.
Result measure(const std::function<void()>& work, Dtype multiplied) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const WorkingLine line("measuring");
  ShareTurns turns(1 + kLeastRuns, ShareTurns::divided);  // of quick work more runs, in about a second
  work();
  turns.next();
  Result result{.multiplied = multiplied};
  const Clock::time_point begin = Clock::now();
  for (int run = 0; run < kLeastRuns || since(begin) < kMeasureSeconds; ++run) {
    check_interruption();
    result.peak = std::max(result.peak, peak_gflops(multiplied));
    const Clock::time_point slice = Clock::now();
    do {
      const Clock::time_point start = Clock::now();
      work();
      result.seconds = std::min(result.seconds, since(start));
    } while (since(slice) < kMeasureSeconds / 20);
    if (run < kLeastRuns) turns.next();
  }
  return result;
}

void report(const std::string& title, double operations, const Result& result, bool json) {
  const double gflops = operations / result.seconds * 1e-9;
  const double peak = result.peak * threads();
  if (json) {
    const nlohmann::ordered_json object = {{"best_ms", result.seconds * 1e3},
                                           {"gflops", gflops},
                                           {"peak_gflops", peak},
                                           {"peak_dtype", name_of(result.multiplied)},
                                           {"target", selected_target()},
                                           {"threads", threads()}};
    fmt::print("{}\n", object.dump());
    return;
  }
  fmt::print("{}, {} on {}\n", title, counted(threads(), "thread"), selected_target());
  fmt::print("  {} at best, {:.4g} GFLOP/s: {} of this machine's peak in {}\n", seconds_text(result.seconds), gflops,
             percent_text(gflops / peak), name_of(result.multiplied));
  fmt::print("  (the peak is {:.4g} GFLOP/s: {:.4g} multiplied and added on one thread, times {})\n", peak, result.peak,
             threads());
}

// Random numbers in [-1, 1).
Tensor made_up(const Dims& shape, Dtype dtype, std::uint64_t seed) {
  Random random(seed);
  Tensor values = Tensor::uninitialized(shape);
  std::generate_n(values.data<float>(), values.element_count(), [&] {
    check_interruption();
    return static_cast<float>(2 * random.uniform() - 1);
  });
  return convert(values, dtype);
}

// Arrays beyond the machine's memory are refused before the system has to.
void check_memory(double elements) {
  const double needed = elements * sizeof(float) * 2;  // made in f32, then held in another type
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed <= memory) return;
  throw UsageError(fmt::format("these sizes need {:.3g} GB, this machine has {:.3g} GB; choose smaller ones",
                               needed * 1e-9, memory * 1e-9));
}

// Which passes are timed.
enum class BenchPass { forward, backward, both };

struct AttentionBench {
  AttentionSizes sizes;
  std::optional<Align> causal{};
  Precision precision = Precision::exact;
  Dropout dropout{};
  BenchPass pass = BenchPass::forward;
  bool json = false;
};

void bench_attention(AttentionBench& bench) {
  AttentionSizes& sizes = bench.sizes;
  sizes.complete();
  const auto product = [](auto... extents) { return (1.0 * ... * static_cast<double>(extents)); };
  const double size = static_cast<double>(sizes.head_dim + sizes.value_dim);
  check_memory(size *
               (product(sizes.batch, sizes.heads, sizes.q_len) + product(sizes.batch, sizes.kv_heads, sizes.k_len)));

  const Dtype dtype = *sizes.dtype;
  const Tensor query = made_up(sizes.query(), dtype, 1);
  const Tensor key = made_up(sizes.key(), dtype, 2);
  const Tensor value = made_up(sizes.value(), dtype, 3);
  Tensor out = Tensor::zeros(sizes.out(), dtype);
  AttentionOptions options;
  if (bench.causal) options.mask = Mask::causal(*bench.causal);
  options.dropout = bench.dropout;
  options.precision = bench.precision;
  options.stop = interruption();
  Tensor log_sum_exp = Tensor::zeros({sizes.batch, sizes.heads, sizes.q_len}, accumulation_of(dtype));
  Tensor grad_query, grad_key, grad_value;
  AttentionExtras extras;
  AttentionGradients gradients;
  if (bench.pass != BenchPass::forward) {
    grad_query = Tensor::zeros(query.shape(), dtype), grad_key = Tensor::zeros(key.shape(), dtype);
    grad_value = Tensor::zeros(value.shape(), dtype);
    extras.log_sum_exp = log_sum_exp;
    gradients = {.query = grad_query, .key = grad_key, .value = grad_value};
  }
  const auto forward = [&] { attention(query, key, value, out, options, extras); };
  const auto backward = [&] {
    attention_backward(query, key, value, out, log_sum_exp, /*grad_out=*/out, options, gradients);
  };
  if (bench.pass == BenchPass::backward) forward();
  const auto work = [&] {
    if (bench.pass != BenchPass::backward) forward();
    if (bench.pass != BenchPass::forward) backward();
  };
  const Precision precision = plan(query, key, value, options).precision;
  const bool is_forward = bench.pass == BenchPass::forward;  // gradients are never reduced so
  const Result result = measure(work, multiplied_in(is_forward ? precision : Precision::exact, dtype));

  // A product of queries and keys, and one of weights and values; a causal mask hides half of both. Backward has five
  // such products for these two.
  const double passes = bench.pass == BenchPass::forward ? 1 : bench.pass == BenchPass::backward ? 2.5 : 3.5;
  const double operations =
      passes * 2 * size * product(sizes.batch, sizes.heads, sizes.q_len, sizes.k_len) * (bench.causal ? 0.5 : 1);
  const char* name = bench.pass == BenchPass::forward    ? "attention"
                     : bench.pass == BenchPass::backward ? "attention backward"
                                                         : "attention forward and backward";
  report(fmt::format("{}, q {}, k {}, v {}{}, {}", name, to_string(query.shape()), to_string(key.shape()),
                     to_string(value.shape()), bench.causal ? ", causal" : "", name_of(dtype)) +
             (precision == Precision::exact ? "" : ", products in bf16"),
         operations, result, bench.json);
}

struct MatmulSizes {
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::optional<Dtype> dtype{};
  bool json = false;
};

void bench_matmul(const MatmulSizes& sizes) {
  const double m = static_cast<double>(sizes.m), k = static_cast<double>(sizes.k), n = static_cast<double>(sizes.n);
  check_memory(m * k + 2 * k * n + m * n);
  const Dtype dtype = sizes.dtype.value_or(Dtype::f32);
  const Tensor a = made_up({sizes.m, sizes.k}, dtype, 1);
  const PackedMatrix b(made_up({sizes.k, sizes.n}, dtype, 2));
  Tensor out = Tensor::zeros({sizes.m, sizes.n}, dtype);
  const Result result = measure([&] { matmul(a, b, out); }, accumulation_of(dtype));
  report(fmt::format("matmul, {} x {} x {}, packed, {}", sizes.m, sizes.k, sizes.n, name_of(dtype)), 2 * m * k * n,
         result, sizes.json);
}

void add_bench_attention(Command& bench) {
  Command& command = bench.add_command("attention", "Time attention over synthetic inputs");
  command.add_examples({{"Eight heads", "qkv bench attention --heads 8 --q-len 1024 --k-len 1024"}});
  const auto request = std::make_shared<AttentionBench>();
  const Names<BenchPass> passes = {
      {"forward", BenchPass::forward}, {"backward", BenchPass::backward}, {"both", BenchPass::both}};
  command.add(size_options(request->sizes));
  command.add({causal_option(request->causal), precision_option(request->precision)});
  command.add(dropout_options(request->dropout));
  command.add({{"--pass", choice(request->pass, passes), "What to time (default: forward)"},
               {"--json", flag(request->json), "Print one JSON object"}});
  command.on_run([request] { bench_attention(*request); });
}

void add_bench_matmul(Command& bench) {
  Command& command = bench.add_command("matmul", "Time the product [m, k] x [k, n] with the second matrix packed");
  command.add_examples({{"A product of two matrices", "qkv bench matmul --m 512 --k 512 --n 512"}});
  const auto sizes = std::make_shared<MatmulSizes>();
  command.add({{"--m", size(sizes->m), "rows", required()},
               {"--k", size(sizes->k), "Columns of the first, rows of the second", required()},
               {"--n", size(sizes->n), "columns", required()},
               dtype_option(sizes->dtype, {Dtype::f32, Dtype::f64}, "Type of the arrays (default: f32)"),
               threads_option(),
               {"--json", flag(sizes->json), "Print one JSON object"}});
  command.on_run([sizes] { bench_matmul(*sizes); });
}

}  // namespace

void add_bench(Command& program) {
  Command& command = program.add_command("bench", "Measure the throughput of kernels as a share of this CPU's peak");
  add_bench_attention(command);
  add_bench_matmul(command);
}

}  // namespace qkv::app
