// Attention on one thread: prefill, masks, element types, decoding, optional outputs, derivatives. "flops" and "peak"
// (the share of the multiply-add peak measured at the start of each case) count the pairs of query and key that may
// attend; "bytes_per_second" counts keys and values once.
//
//   attention_bench [--benchmark_filter=f32/none/bert]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <functional>
#include <span>
#include <string>

#include "processor_time.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "qkv/random.h"
#include "random_tensor.h"
#include "simd/dispatch.h"

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

enum class Masking { none, causal, window, lengths, boolean, squares, documents };

// What of a mask is measured; size: keys of a window, or of the side of a square or a document; 0: by the length.
struct MaskShape {
  const char* name;
  Masking masking;
  std::int64_t size = 0;
};

constexpr MaskShape kMaskShapes[] = {{"none", Masking::none},
                                     {"causal", Masking::causal},
                                     {"window", Masking::window},
                                     {"lengths", Masking::lengths},
                                     {"boolean", Masking::boolean}};
// An eighth of the pairs, where there are 2,048 keys, or less.
constexpr MaskShape kSmallMaskShapes[] = {
    {"window16", Masking::window, 16},        {"window64", Masking::window, 64},
    {"window128", Masking::window, 128},      {"window256", Masking::window, 256},
    {"squares16", Masking::squares, 16},      {"squares32", Masking::squares, 32},
    {"squares64", Masking::squares, 64},      {"documents32", Masking::documents, 32},
    {"documents256", Masking::documents, 256}};
constexpr Shape kMasked = {"masked", 1, 8, 8, 2048, 2048, 64};

// A mask with what it borrows, and how many keys a query sees on average.
struct MaskCase {
  Mask mask{};
  Tensor array{};
  double keys = 0;
};

MaskCase mask_case(const Shape& shape, const MaskShape& of) {
  MaskCase result{.keys = static_cast<double>(shape.k_len)};
  const std::int64_t quarter = shape.k_len / 4;
  const Masking masking = of.masking;
  if (masking == Masking::causal) {
    result.mask = Mask::causal();
    result.keys = static_cast<double>(shape.k_len + 1) / 2;
  } else if (masking == Masking::window) {
    const std::int64_t left = of.size > 0 ? of.size - 1 : quarter;
    result.mask = Mask::window(left, 0);
    const double cut = static_cast<double>(left * (left + 1)) / 2 / static_cast<double>(shape.q_len);
    result.keys = static_cast<double>(left + 1) - cut;
  } else if (masking == Masking::documents) {
    result.array = Tensor::zeros({shape.k_len}, Dtype::i64);
    for (std::int64_t i = 0; i < shape.k_len; ++i) result.array.data<std::int64_t>()[i] = i / of.size;
    result.mask = Mask::documents(result.array);
    result.keys = static_cast<double>(of.size);
  } else if (masking == Masking::squares) {
    result.array = Tensor::zeros({shape.q_len, shape.k_len}, Dtype::boolean);
    for (std::int64_t i = 0; i < shape.q_len; ++i) {
      bool* row = result.array.data<bool>() + i * shape.k_len;
      for (std::int64_t j = 0; j < shape.k_len; ++j) row[j] = (7 * (i / of.size) + j / of.size) % 8 == 0;
    }
    result.mask = Mask::boolean(result.array);
    result.keys = static_cast<double>(shape.k_len) / 8;
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

void attend(benchmark::State& state, const Shape& shape, const MaskShape& masking, Dtype dtype) {
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

// Places for optional outputs, by their names.
class Outputs {
 public:
  explicit Outputs(const Shape& shape) : shape_(shape) {}

  AttentionExtras ask(const std::string& name) {
    const Dims rows{shape_.batch, shape_.heads, shape_.q_len};
    AttentionExtras extras;
    if (name == "log_sum_exp") extras.log_sum_exp = place(rows);
    if (name == "row_maximum") extras.row_maximum = place(rows);
    if (name == "entropy") extras.entropy = place(rows);
    if (name == "top_keys") {
      extras.top_weights = place({shape_.batch, shape_.heads, shape_.q_len, 8});
      keys_ = Tensor::zeros({shape_.batch, shape_.heads, shape_.q_len, 8}, Dtype::i64);
      extras.top_keys = keys_;
    }
    if (name == "received") extras.received = place({shape_.batch, shape_.heads, shape_.k_len});
    if (name == "block_weights") extras.block_weights = place({shape_.batch, shape_.heads, 16, 16});
    if (name == "weights") extras.weights = place({shape_.batch, shape_.heads, shape_.q_len, shape_.k_len});
    if (name == "row_weights") {
      constexpr std::int64_t kRows = 1024;
      extras.row_weights = place({kRows, shape_.k_len});
      keys_ = Tensor::zeros({kRows, 3}, Dtype::i64);
      Random random(4);
      for (std::int64_t n = 0; n < kRows; ++n) {
        keys_.data<std::int64_t>()[3 * n + 1] = n % shape_.heads;
        keys_.data<std::int64_t>()[3 * n + 2] =
            static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(shape_.q_len)));
      }
      extras.rows = keys_;
    }
    return extras;
  }

 private:
  Tensor& place(const Dims& shape) { return place_ = Tensor::zeros(shape); }

  const Shape shape_;
  Tensor place_, keys_;
};

// "of_plain": the time of `work`, in times of the plain call's, in turns with it, by the thread's own time.
void compare(benchmark::State& state, const std::function<void()>& work, const std::function<void()>& plain) {
  double best = 1e9, best_plain = 1e9;
  for (auto _ : state) {
    best = std::min(best, seconds_of(work));
    state.PauseTiming();
    best_plain = std::min(best_plain, seconds_of(plain));
    state.ResumeTiming();
  }
  state.counters["of_plain"] = best / best_plain;
}

// One optional output.
void request(benchmark::State& state, const Shape& shape, const MaskShape& masking, const std::string& name) {
  const Tensor q = random_tensor({shape.batch, shape.heads, shape.q_len, shape.head_dim}, Dtype::f32, 1);
  const Tensor k = random_tensor({shape.batch, shape.kv_heads, shape.k_len, shape.head_dim}, Dtype::f32, 2);
  Tensor out = Tensor::zeros(q.shape());
  const MaskCase masked = mask_case(shape, masking);
  const AttentionOptions options{.mask = masked.mask, .threads = 1};
  Outputs outputs(shape);
  const AttentionExtras extras = outputs.ask(name);
  compare(state, [&] { attention(q, k, k, out, options, extras); }, [&] { attention(q, k, k, out, options); });
}

// Gradients, or the forward-mode derivative, of 8 heads of `length` queries and keys of 64.
void differentiate(benchmark::State& state, std::int64_t length, bool forward_mode) {
  const Dims rows{1, 8, length}, shape{1, 8, length, 64};
  const Tensor q = random_tensor(shape, Dtype::f32, 1), k = random_tensor(shape, Dtype::f32, 2),
               v = random_tensor(shape, Dtype::f32, 3), direction = random_tensor(shape, Dtype::f32, 4);
  Tensor out = Tensor::zeros(shape), log_sum_exp = Tensor::zeros(rows), tangent = Tensor::zeros(shape);
  Tensor grad_q = Tensor::zeros(shape), grad_k = Tensor::zeros(shape), grad_v = Tensor::zeros(shape);
  const AttentionOptions options{.threads = 1};
  const auto plain = [&] { attention(q, k, v, out, options, {.log_sum_exp = log_sum_exp}); };
  plain();
  compare(
      state,
      [&] {
        if (forward_mode) {
          const AttentionTangents tangents{.query = direction, .key = direction, .value = direction};
          attention_jvp(q, k, v, out, log_sum_exp, tangents, options, {.out = tangent});
        } else {
          attention_backward(q, k, v, out, log_sum_exp, direction, options,
                             {.query = grad_q, .key = grad_k, .value = grad_v});
        }
      },
      plain);
}

// Every shape in every type without a mask, every mask where there are as many queries as keys, in f32; small masks at
// one shape, and there each optional output under three of them; derivatives by length.
void register_cases() {
  const auto add = [](const Shape& shape, const MaskShape& masking, Dtype dtype) {
    const std::string name = std::string(name_of(dtype)) + "/" + masking.name + "/" + shape.name;
    benchmark::RegisterBenchmark(name.c_str(), attend, shape, masking, dtype);
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64}) {
    for (const Shape& shape : kShapes) add(shape, kMaskShapes[0], dtype);
  }
  for (const MaskShape& masking : std::span(kMaskShapes).subspan(1)) {
    for (const Shape& shape : kShapes) {
      if (shape.q_len == shape.k_len) add(shape, masking, Dtype::f32);
    }
  }
  for (const MaskShape& masking : kSmallMaskShapes) add(kMasked, masking, Dtype::f32);
  for (const char* name :
       {"log_sum_exp", "row_maximum", "entropy", "top_keys", "received", "block_weights", "weights", "row_weights"}) {
    for (const MaskShape& masking :
         {MaskShape{"none", Masking::none}, MaskShape{"window256", Masking::window, 256},
          MaskShape{"squares64", Masking::squares, 64}, MaskShape{"documents256", Masking::documents, 256}}) {
      const std::string row = std::string(name) + "/" + masking.name + "/" + kMasked.name;
      benchmark::RegisterBenchmark(row.c_str(), request, kMasked, masking, std::string(name));
    }
  }
  for (const bool forward_mode : {false, true}) {
    for (const std::int64_t length : {16, 64, 256, 1024, 4096}) {
      const std::string row = (forward_mode ? "tangents/" : "backward/") + std::to_string(length);
      benchmark::RegisterBenchmark(row.c_str(), differentiate, length, forward_mode);
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
