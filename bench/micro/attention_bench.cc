// Attention on one thread: prefill, masks, element types, decoding. "flops" and "peak" (the share of the multiply-add
// peak measured at the start of each case) count the pairs of query and key that may attend; "bytes_per_second" counts
// keys and values once.
//
//   attention_bench [--benchmark_filter=f32/none/bert]
#include <benchmark/benchmark.h>

#include "qkv/attention.h"
#include "qkv/random.h"
#include "simd/peak.h"

namespace qkv::bench {
namespace {

struct Shape {
  const char* name;
  std::int64_t batch, heads, kv_heads, q_len, k_len, head_dim;
};

constexpr Shape kShapes[] = {
    {"vit", 1, 12, 12, 197, 197, 64},   {"minilm", 8, 12, 12, 128, 128, 32}, {"bert", 1, 12, 12, 512, 512, 64},
    {"long", 1, 4, 4, 4096, 4096, 64},  {"llm", 1, 8, 8, 2048, 2048, 128},   {"chunk", 1, 32, 8, 16, 4096, 128},
    {"decode", 1, 32, 8, 1, 4096, 128}, {"tiny", 1, 8, 8, 1, 16, 64},
};

enum class Masking { none, causal, window, lengths, boolean };
constexpr std::pair<Masking, const char*> kMaskings[] = {{Masking::none, "none"},
                                                         {Masking::causal, "causal"},
                                                         {Masking::window, "window"},
                                                         {Masking::lengths, "lengths"},
                                                         {Masking::boolean, "boolean"}};

Tensor random_tensor(const Dims& shape, Dtype dtype, std::uint64_t seed) {
  Random random(seed);
  Tensor values = Tensor::uninitialized(shape);
  for (std::int64_t i = 0; i < values.element_count(); ++i) {
    values.data<float>()[i] = static_cast<float>(2 * random.uniform() - 1);
  }
  return convert(values, dtype);
}

// A mask with what it borrows, and how many keys a query sees on average.
struct MaskCase {
  Mask mask{};
  Tensor array{};
  double keys = 0;
};

MaskCase mask_case(const Shape& shape, Masking masking) {
  MaskCase result{.keys = static_cast<double>(shape.k_len)};
  const std::int64_t quarter = shape.k_len / 4;
  if (masking == Masking::causal) {
    result.mask = Mask::causal();
    result.keys = static_cast<double>(shape.k_len + 1) / 2;
  } else if (masking == Masking::window) {
    result.mask = Mask::window(quarter, 0);
    const double cut = static_cast<double>(quarter * (quarter + 1)) / 2 / static_cast<double>(shape.q_len);
    result.keys = static_cast<double>(quarter + 1) - cut;
  } else if (masking == Masking::lengths) {
    result.array = Tensor::of<std::int64_t>(
        {shape.batch}, std::vector<std::int64_t>(static_cast<std::size_t>(shape.batch), 3 * quarter));
    result.mask = Mask::lengths(result.array);
    result.keys = static_cast<double>(3 * quarter);
  } else if (masking == Masking::boolean) {
    result.array = Tensor::zeros({shape.k_len}, Dtype::boolean);
    for (std::int64_t key = 0; key < shape.k_len; ++key) result.array.data<bool>()[key] = key % 4 != 0;
    result.mask = Mask::boolean(result.array);
    result.keys = static_cast<double>(shape.k_len - (shape.k_len + 3) / 4);
  }
  return result;
}

void attend(benchmark::State& state, const Shape& shape, Masking masking, Dtype dtype) {
  const Tensor q = random_tensor({shape.batch, shape.heads, shape.q_len, shape.head_dim}, dtype, 1);
  const Tensor k = random_tensor({shape.batch, shape.kv_heads, shape.k_len, shape.head_dim}, dtype, 2);
  const Tensor v = random_tensor({shape.batch, shape.kv_heads, shape.k_len, shape.head_dim}, dtype, 3);
  Tensor out = Tensor::zeros(q.shape(), dtype);
  const MaskCase masked = mask_case(shape, masking);
  const AttentionOptions options{.mask = masked.mask, .threads = 1};
  const double peak = 1e9 * peak_gflops(dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
  for (auto _ : state) attention(q, k, v, out, options);
  using Counter = benchmark::Counter;
  const double pairs = static_cast<double>(shape.batch * shape.heads * shape.q_len) * masked.keys;
  const double operations = 4 * pairs * static_cast<double>(shape.head_dim) * static_cast<double>(state.iterations());
  state.counters["flops"] = Counter(operations, Counter::kIsRate);
  state.counters["peak"] = Counter(operations / peak, Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * 2 * k.element_count() * static_cast<std::int64_t>(size_of(dtype)));
}

// Every shape in every type without a mask, and every mask where there are as many queries as keys, in f32.
void register_cases() {
  const auto add = [](const Shape& shape, std::pair<Masking, const char*> masking, Dtype dtype) {
    const std::string name = std::string(name_of(dtype)) + "/" + masking.second + "/" + shape.name;
    benchmark::RegisterBenchmark(name.c_str(), attend, shape, masking.first, dtype);
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}) {
    for (const Shape& shape : kShapes) add(shape, kMaskings[0], dtype);
  }
  for (const auto& masking : std::span(kMaskings).subspan(1)) {
    for (const Shape& shape : kShapes) {
      if (shape.q_len == shape.k_len) add(shape, masking, Dtype::f32);
    }
  }
}

}  // namespace
}  // namespace qkv::bench

int main(int count, char** arguments) {
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 1;
  qkv::bench::register_cases();
  benchmark::RunSpecifiedBenchmarks();
}
