// What a call takes in memory besides its inputs and outputs: what plan() says, as counted by operator new, within the
// limit, and below the bounds that docs/semantics.md states.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <new>

#include "attention/tangent/attention_tangents_testing.h"
#include "core/kept_memory.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/threads.h"
#include "sanitizers.h"

// A sanitizer has operators of its own, and finds more with them than this test does.
#ifndef QKV_SANITIZED
#define QKV_COUNTS_MEMORY
#endif

namespace {

std::atomic<std::size_t> live_bytes{0}, most_bytes{0};  // of the whole program, now and at most

}  // namespace

#ifdef QKV_COUNTS_MEMORY
namespace {

// In front of each block lies its size.
std::size_t header(std::size_t alignment) { return std::max<std::size_t>(alignment, 64); }

void* allocate(std::size_t size, std::size_t alignment) {
  const std::size_t step = header(alignment);
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(step, (size + 2 * step - 1) / step * step));
  if (memory == nullptr) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(memory) = size;
  const std::size_t live = live_bytes += size;
  for (std::size_t most = most_bytes; most < live && !most_bytes.compare_exchange_weak(most, live);) continue;
  return memory + step;
}

// Out of line, or the compiler takes free() for the wrong partner of operator new.
[[gnu::noinline]] void release(void* memory, std::size_t alignment) {
  if (memory == nullptr) return;
  std::byte* block = static_cast<std::byte*>(memory) - header(alignment);
  live_bytes -= *reinterpret_cast<std::size_t*>(block);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new[](std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t to) { return allocate(size, static_cast<std::size_t>(to)); }
void* operator new[](std::size_t size, std::align_val_t to) { return allocate(size, static_cast<std::size_t>(to)); }
void operator delete(void* memory) noexcept { release(memory, 0); }
void operator delete[](void* memory) noexcept { release(memory, 0); }
void operator delete(void* memory, std::size_t) noexcept { release(memory, 0); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory, 0); }
void operator delete(void* memory, std::align_val_t to) noexcept { release(memory, static_cast<std::size_t>(to)); }
void operator delete[](void* memory, std::align_val_t to) noexcept { release(memory, static_cast<std::size_t>(to)); }
void operator delete(void* memory, std::size_t, std::align_val_t to) noexcept {
  release(memory, static_cast<std::size_t>(to));
}
void operator delete[](void* memory, std::size_t, std::align_val_t to) noexcept {
  release(memory, static_cast<std::size_t>(to));
}
#endif

namespace qkv {
namespace {

using testing::filled;
using testing::normal;

template <class Call>
std::int64_t most_of(const Call& call) {
  const std::size_t before = live_bytes;
  most_bytes = before;
  call();
  return static_cast<std::int64_t>(most_bytes - before);
}

// A caller's pool of one thread that gives every worker something to do.
void in_turns(std::int64_t tasks, int workers, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = 0; index < tasks; ++index) task(context, index, static_cast<int>(index % workers));
}

class AttentionMemory : public testing::OnEachTarget {
 protected:
  void SetUp() override {
#ifndef QKV_COUNTS_MEMORY
    GTEST_SKIP() << "a sanitizer counts memory itself";
#endif
    testing::OnEachTarget::SetUp();
    set_keeping(false);
    set_parallel_runner(in_turns);
  }
  void TearDown() override {
    set_parallel_runner(nullptr);
    set_keeping(true);
    testing::OnEachTarget::TearDown();
  }
};
INSTANTIATE_TEST_SUITE_P(Target, AttentionMemory, ::testing::ValuesIn(testing::usable_targets()),
                         testing::test_name_of_target);

using Plan = std::function<AttentionPlan(const AttentionOptions&)>;
using Run = std::function<void(const AttentionOptions&)>;

// The plan is never below what is allocated, and not far above. The bytes of one thread are enough as a limit; one byte
// less is not.
void expect_plan(AttentionOptions options, const Plan& plan, const Run& run, bool is_close = true) {
  std::int64_t least = 0;
  for (const int threads : {3, 1}) {
    options.threads = threads, options.memory_limit = 0;
    const std::int64_t planned = plan(options).workspace, taken = most_of([&] { run(options); });
    EXPECT_LE(taken, planned) << threads << " threads";
    if (is_close) {
      EXPECT_GE(taken, planned * 9 / 10 - 4096 * (threads + 1)) << threads << " threads";
    }
    least = planned;
  }
  options.threads = 3, options.memory_limit = least;
  EXPECT_LE(plan(options).workspace, least);
  EXPECT_LE(most_of([&] { run(options); }), least);
  for (const std::int64_t limit : {least - 1, std::int64_t{1}, std::int64_t{-1}}) {
    options.memory_limit = limit;
    EXPECT_THROW(run(options), std::invalid_argument) << limit;
    EXPECT_THROW(plan(options), std::invalid_argument) << limit;
  }
}

void expect_forward(const TensorView& q, const TensorView& k, const AttentionOptions& options,
                    const AttentionExtras& extras = {}, bool is_close = true) {
  Tensor out = Tensor::zeros(q.shape(), q.dtype());
  expect_plan(
      options, [&](const AttentionOptions& with) { return plan(q, k, k, with, extras); },
      [&](const AttentionOptions& with) { attention(q, k, k, out, with, extras); }, is_close);
}

TEST_P(AttentionMemory, OfBlocksOfQueries) {
  Random random(1);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    const Tensor q = normal(random, {4, 300, 64}, dtype), k = normal(random, {4, 1300, 64}, dtype);
    const Dtype wide = testing::accumulation_of(dtype);
    for (const Precision precision : {Precision::exact, Precision::reduced}) {
      AttentionOptions options{.mask = Mask::causal()};
      options.precision = precision;
      expect_forward(q, k, options);
      Tensor entropy = filled({4, 300}, 0, wide), weights = filled({4, 300, 1300}, 0, wide);
      expect_forward(q, k, options, {.weights = weights, .entropy = entropy});
      // More blocks of queries than eight, of rows that lie apart: of one tensor with others.
      const Tensor all = normal(random, {1300, 2 * 4, 64}, dtype);
      const TensorView apart = all.view().slice(1, 4, 8).transpose(0, 1);
      expect_forward(all.view().slice(1, 0, 4).transpose(0, 1).slice(1, 0, 700), apart, options);
    }
  }
}

TEST_P(AttentionMemory, OfEmptyRows) {
  Random random(11);
  const Tensor q = normal(random, {64, 3000, 8});
  expect_forward(q, q.view().slice(1, 0, 5), {.empty_rows = EmptyRows::nan});
}

// Scratch of blocks of one sequence's queries, that of chosen rows, partial results, and decoding.
TEST_P(AttentionMemory, OfChosenRows) {
  Random random(2);
  const Tensor rows = Tensor::of<std::int64_t>({4, 3}, {0, 0, 3, 0, 0, 5, 0, 0, 0, 0, 0, 2});
  const Tensor one_query = Tensor::of<std::int64_t>({4, 3}, {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0});
  const Tensor k = normal(random, {2, 400, 64});
  Tensor weights = Tensor::zeros({4, 400});
  expect_forward(normal(random, {1, 8, 64}), k.view().slice(0, 0, 1), {}, {.rows = rows, .row_weights = weights});
  expect_forward(normal(random, {2, 1, 64}), k, {}, {.rows = one_query, .row_weights = weights});
  // Some to a block, on all threads.
  Tensor many = Tensor::zeros({900, 3}, Dtype::i64), of_many = Tensor::zeros({900, 400});
  for (std::int64_t n = 0; n < 900; ++n) many.data<std::int64_t>()[3 * n + 2] = n * 7 % 600;
  expect_forward(normal(random, {2, 600, 64}), k, {}, {.rows = many, .row_weights = of_many});
}

// Of three threads' heads, or as many as there are.
TEST_P(AttentionMemory, OfWeightSums) {
  Random random(12);
  for (const std::int64_t heads : {1, 2, 7}) {
    const Tensor q = normal(random, {heads, 130, 16}), k = normal(random, {heads, 5000, 16});
    Tensor received = Tensor::zeros({heads, 5000}), blocks = Tensor::zeros({heads, 9, 900});
    expect_forward(q, k, {}, {.received = received});
    expect_forward(q, k, {}, {.block_weights = blocks});
    expect_forward(q, k, {}, {.received = received, .block_weights = blocks});
  }
}

TEST_P(AttentionMemory, OfSplitKeys) {
  Random random(3);
  const Tensor k = normal(random, {2, 9000, 96});
  for (const Dims& queries : {Dims{2, 8, 96}, Dims{8, 2, 96}, Dims{2, 1, 96}, Dims{16, 1, 96}}) {
    const Tensor q = normal(random, queries);
    expect_forward(q, k, {});
    expect_forward(q.view().slice(0, 0, q.size(0) / 2), k.view().slice(0, 0, 1), {});
  }
}

TEST_P(AttentionMemory, OfPackedSequences) {
  Random random(4);
  const Tensor offsets_query = Tensor::of<std::int32_t>({6}, {0, 3, 4, 64, 64, 65});
  const Tensor offsets_key = Tensor::of<std::int32_t>({6}, {0, 2500, 5600, 8000, 8010, 8011});
  AttentionOptions options{.mask = Mask::causal(Align::bottom_right)};
  options.offsets_query = offsets_query, options.offsets_key = offsets_key;
  expect_forward(normal(random, {65, 6, 32}), normal(random, {8011, 2, 32}), options);
}

TEST_P(AttentionMemory, OfMasksAndTables) {
  constexpr std::int64_t kLength = 3000;
  Random random(5);
  const Tensor q = normal(random, {2, kLength, 16});
  const Tensor visible = testing::coin_flips(random, {2, kLength, kLength}, 0.9);
  std::vector<std::int32_t> ids, others;
  for (std::int64_t i = 0; i < kLength; ++i) {
    ids.push_back(static_cast<std::int32_t>(i % 3)), others.push_back(static_cast<std::int32_t>(i / 100));
  }
  const Tensor scattered = Tensor::of({kLength}, ids), in_runs = Tensor::of({kLength}, others);
  const Tensor buckets = normal(random, {32, 2}), clipped = normal(random, {4001, 2}, Dtype::bf16);
  const Tensor rows = normal(random, {401, 16}), places = normal(random, {(2 * 60 - 1) * (2 * 50 - 1), 2});
  const Mask window = Mask::window(64, 0);
  for (const Mask& mask : {Mask::boolean(visible), Mask::boolean(visible).compiled(), Mask::documents(scattered),
                           Mask::documents(in_runs), Mask::documents(in_runs) & Mask::documents(scattered)}) {
    // How many pairs of two ids there are is not known before.
    expect_forward(q, q, {.mask = mask & window}, {}, mask.document_ids().size() < 2);
  }
  // A call that finds its documents takes nothing for them.
  const Mask compiled = Mask::documents(in_runs).compiled() & window;
  const std::int64_t first = plan(q, q, q, {.mask = compiled, .threads = 1}).workspace;
  expect_forward(q, q, {.mask = compiled});
  EXPECT_LE(plan(q, q, q, {.mask = compiled, .threads = 1}).workspace, first - 20 * kLength);
  for (const RelativeTable& table : {RelativeTable::t5(buckets), RelativeTable::clipped(clipped),
                                     RelativeTable::shaw(rows), RelativeTable::swin(places, 60, 50)}) {
    expect_forward(q, q, {.mask = window, .bias = Bias::table(table)});
  }
}

// PlannedArrays for all passes, and places for all gradients.
struct PlannedArrays {
  PlannedArrays(Dims q_shape, Dims k_shape, Dtype dtype = Dtype::f32, Dtype of_gradients = Dtype::f32) {
    Random random(6);
    q = normal(random, q_shape, dtype), k = normal(random, k_shape, dtype);
    Dims rows;
    for (int i = 0; i + 1 < q.rank(); ++i) rows.push_back(q.size(i));
    log_sum_exp = Tensor::zeros(rows, testing::accumulation_of(dtype));
    grad_query = Tensor::zeros(q_shape, of_gradients);
    grad_key = Tensor::zeros(k_shape, of_gradients), grad_value = Tensor::zeros(k_shape, of_gradients);
  }
  AttentionGradients gradients() { return {.query = grad_query, .key = grad_key, .value = grad_value}; }

  void expect_backward(const AttentionOptions& options, const AttentionGradients& gradients) const {
    expect_plan(
        options, [&](const AttentionOptions& with) { return plan_backward(q, k, k, with, gradients); },
        [&](const AttentionOptions& with) { attention_backward(q, k, k, q, log_sum_exp, q, with, gradients); });
  }

  Tensor q, k, log_sum_exp, grad_query, grad_key, grad_value;
};

TEST_P(AttentionMemory, OfGradients) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16}) {
    PlannedArrays arrays({4, 300, 80}, {2, 2100, 80}, dtype, dtype);
    arrays.expect_backward({.mask = Mask::causal(), .dropout = {.p = 0.1, .seed = 1}}, arrays.gradients());
  }
  PlannedArrays wide({2, 100, 256}, {2, 3100, 256}, Dtype::bf16);
  wide.expect_backward({}, wide.gradients());
}

TEST_P(AttentionMemory, OfGradientsOfBiasesAndTables) {
  Random random(7);
  PlannedArrays arrays({4, 200, 16}, {4, 3200, 16});
  const Tensor bias = normal(random, {200, 3200}), of_keys = normal(random, {4, 1, 3200}), slopes = filled({4}, 0.1);
  const Tensor buckets = normal(random, {4001, 4}), rows = normal(random, {401, 16}), sinks = filled({4}, 0.1);
  Tensor of_bias = Tensor::zeros(bias.shape()), of_of_keys = Tensor::zeros(of_keys.shape());
  Tensor of_slopes = Tensor::zeros({4}), of_buckets = Tensor::zeros(buckets.shape());
  Tensor of_rows = Tensor::zeros(rows.shape()), of_sinks = Tensor::zeros({4});
  AttentionGradients gradients = arrays.gradients();
  gradients.bias = {of_bias, of_of_keys};
  arrays.expect_backward({.bias = Bias::view(bias) + Bias::view(of_keys)}, gradients);
  gradients = arrays.gradients();
  gradients.tables = {of_buckets, of_rows};
  gradients.alibi_slopes = {of_slopes};
  gradients.sinks = of_sinks;
  AttentionOptions options{.bias = Bias::table(RelativeTable::clipped(buckets)) +
                                   Bias::table(RelativeTable::shaw(rows)) + Bias::alibi(slopes)};
  options.sinks = sinks;
  arrays.expect_backward(options, gradients);
  // A table that is larger than what the threads take.
  PlannedArrays small({1, 20, 16}, {1, 60, 16});
  const Tensor large = normal(random, {200001, 1});
  Tensor of_large = Tensor::zeros(large.shape());
  gradients = small.gradients();
  gradients.tables = {of_large};
  small.expect_backward({.bias = Bias::table(RelativeTable::clipped(large))}, gradients);
}

TEST_P(AttentionMemory, OfGradientsOfScores) {
  const Mask window = Mask::window(20, 20);
  Random random(8);
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::int64_t q_len : {40, 3000}) {
      PlannedArrays arrays({2, q_len, 40}, {2, 1500, 40}, dtype);
      const Tensor w = normal(random, {48, 40}), joined = normal(random, {48, 80}), factor = normal(random, {48});
      const Tensor square = normal(random, {40, 40});
      Tensor of_w = Tensor::zeros(w.shape()), of_w_key = Tensor::zeros(w.shape());
      Tensor of_joined = Tensor::zeros(joined.shape()), of_factor = Tensor::zeros(factor.shape());
      Tensor of_square = Tensor::zeros(square.shape());
      AttentionGradients gradients = arrays.gradients();
      gradients.score = {.w_query = of_w, .w_key = of_w_key, .v = of_factor};
      arrays.expect_backward({.mask = window, .score = Score::additive(w, w, factor)}, gradients);
      gradients.score = {.w_query = of_joined, .v = of_factor};
      arrays.expect_backward({.mask = window, .score = Score::concat(joined, factor)}, gradients);
      gradients.score = {.w_query = of_square};
      arrays.expect_backward({.mask = window, .score = Score::bilinear(square)}, gradients);
    }
  }
}

// Lists of masks and biases take more than these arrays do, and some passes copy them.
TEST_P(AttentionMemory, OfLists) {
  Random random(12);
  PlannedArrays arrays({2, 3, 8}, {2, 5, 8});
  const Tensor visible = filled({3, 5}, 1, Dtype::u8), bias = filled({5}, 0.5), slopes = filled({2}, 0.1);
  const Tensor clipped = normal(random, {10001, 2}), w = normal(random, {8, 8}), factor = normal(random, {8});
  const Mask mask = Mask::boolean(visible) & Mask::boolean(visible) & Mask::boolean(visible);
  const Bias views = Bias::view(bias) + Bias::view(bias) + Bias::view(bias);
  const Bias alibi = Bias::alibi(slopes) + Bias::alibi(slopes) + Bias::alibi(slopes);
  AttentionOptions options{.mask = mask, .bias = views + alibi};
  expect_forward(arrays.q, arrays.k, options);
  Tensor of_bias[3], of_slopes[3];
  AttentionGradients gradients = arrays.gradients();
  for (int n = 0; n < 3; ++n) {
    gradients.bias.push_back(of_bias[n] = Tensor::zeros({5}));
    gradients.alibi_slopes.push_back(of_slopes[n] = Tensor::zeros({2}));
  }
  for (const Score& score : {Score::dot(), Score::additive(w, w, factor), Score::bilinear(w)}) {
    options.score = score;
    arrays.expect_backward(options, gradients);
  }
  options.bias = Bias::table(RelativeTable::clipped(clipped));  // whose copy is the most that is taken
  expect_forward(arrays.q, arrays.k, options);
}

// Bilinear scores make a problem of projected queries, which reads the documents once more.
TEST_P(AttentionMemory, OfDocumentsOfProjectedQueries) {
  constexpr std::int64_t kLength = 20000;
  std::vector<std::int32_t> ids(kLength);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i % 2);
  const Tensor documents = Tensor::of({kLength}, ids), w = filled({4, 4}, 0.1);
  PlannedArrays arrays({1, kLength, 4}, {1, kLength, 4});
  arrays.expect_backward({.mask = Mask::documents(documents) & Mask::window(2, 2), .score = Score::bilinear(w)},
                         arrays.gradients());
}

TEST_P(AttentionMemory, OfCallsWithoutAPair) {
  for (const auto& [q_len, k_len] : {std::pair(0, 500), {500, 0}, {0, 0}}) {
    PlannedArrays arrays({2, q_len, 64}, {2, k_len, 64});
    const TensorView &q = arrays.q, &k = arrays.k;
    const AttentionGradients gradients = arrays.gradients();
    const AttentionTangents tangents{.query = q, .key = k, .value = k};
    Tensor moved = Tensor::zeros(q.shape());
    const AttentionSecondGradients second{.query = arrays.grad_query, .key = arrays.grad_key};
    const AttentionOptions options{.threads = 3};
    EXPECT_LE(most_of([&] { attention_backward(q, k, k, q, arrays.log_sum_exp, q, options, gradients); }),
              plan_backward(q, k, k, options, gradients).workspace);
    EXPECT_LE(most_of([&] { attention_jvp(q, k, k, q, arrays.log_sum_exp, tangents, options, {.out = moved}); }),
              plan_jvp(q, k, k, tangents, options, {.out = moved}).workspace);
    EXPECT_LE(most_of([&] { attention_double_backward(q, k, k, q, arrays.log_sum_exp, q, tangents, options, second); }),
              plan_double_backward(q, k, k, tangents, options, second).workspace);
  }
}

TEST_P(AttentionMemory, OfTangentsAndOfADoubleBackward) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    PlannedArrays arrays({4, 300, 80}, {2, 2100, 80}, dtype, dtype);
    const AttentionTangents tangents{.query = arrays.q, .key = arrays.k, .value = arrays.k};
    Tensor moved = Tensor::zeros(arrays.q.shape(), dtype);
    const AttentionOutputTangents outputs{.out = moved};
    expect_plan(
        {.mask = Mask::causal()},
        [&](const AttentionOptions& with) { return plan_jvp(arrays.q, arrays.k, arrays.k, tangents, with, outputs); },
        [&](const AttentionOptions& with) {
          attention_jvp(arrays.q, arrays.k, arrays.k, arrays.q, arrays.log_sum_exp, tangents, with, outputs);
        });
    for (const bool has_place : {false, true}) {
      AttentionSecondGradients second{.query = arrays.grad_query, .key = arrays.grad_key, .value = arrays.grad_value};
      if (has_place) second.grad_out = moved;
      expect_plan(
          {.mask = Mask::causal()},
          [&](const AttentionOptions& with) {
            return plan_double_backward(arrays.q, arrays.k, arrays.k, tangents, with, second);
          },
          [&](const AttentionOptions& with) {
            attention_double_backward(arrays.q, arrays.k, arrays.k, arrays.q, arrays.log_sum_exp, arrays.q, tangents,
                                      with, second);
          });
    }
  }
}

// The bounds that docs/semantics.md states, at any length: of what is planned, which is never below what is taken.
TEST_P(AttentionMemory, OfAThreadAtAnyLength) {
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {300});
  for (const std::int64_t size : {16, 64, 1024}) {
    const Tensor w = Tensor::zeros({4, size}), joined = Tensor::zeros({4, 2 * size}), factor = Tensor::zeros({4});
    const Tensor square = Tensor::zeros({size, size});
    for (const std::int64_t length : {2, 8192, 1 << 20}) {
      const MutableTensorView q(nullptr, Dtype::f32, {1, 1, length, size}),
          k(nullptr, Dtype::f32, {1, 1, 1 << 20, size});
      for (const Mask& mask : {Mask(), Mask::lengths(lengths), Mask::causal() & Mask::window(500, 0)}) {
        for (const int threads : {1, 4}) {
          AttentionOptions options{.mask = mask, .threads = threads};
          const std::int64_t mebibytes = std::int64_t{threads} << 20;
          EXPECT_LE(plan_jvp(q, k, k, {.query = q}, options, {.out = q}).workspace, mebibytes * 5 / 4);
          EXPECT_LE(plan_backward(q, k, k, options, {.query = q, .key = k, .value = k}).workspace,
                    mebibytes / 2 + threads * 6 * 1024 * 2 * size + 8 * length);
          for (const Score& score : {Score::scaled_dot(), Score::additive(w, w, factor), Score::concat(joined, factor),
                                     Score::bilinear(square)}) {
            options.score = score;
            EXPECT_LE(plan(q, k, k, options).workspace, mebibytes) << size << " " << length;
          }
        }
      }
    }
  }
}

#ifdef QKV_COUNTS_MEMORY
// A matrix of weights would take 4 GiB.
TEST(AttentionMemorySlow, UnderOneMebibyteAThreadAtLength32768) {
  constexpr std::int64_t kLength = 32768, kSize = 16;
  Random random(2);
  const Tensor q = normal(random, {1, 1, kLength, kSize});
  Tensor out = Tensor::zeros({1, 1, kLength, kSize});
  const AttentionOptions options{.threads = 2, .memory_limit = 2 << 20};
  attention(q.view().slice(2, 0, 100), q, q, out.view().slice(2, 0, 100), options);  // makes the threads
  EXPECT_LE(most_of([&] { attention(q, q, q, out, options); }), plan(q, q, q, options).workspace);
  EXPECT_LE(plan(q, q, q, options).workspace, 2 << 20);
  // The last query alone gives what it gave among all of them.
  EXPECT_LE(testing::difference(out.view().slice(2, kLength - 1, kLength),
                                attention(q.view().slice(2, kLength - 1, kLength), q, q)),
            4 * 0x1p-23 * testing::largest(q));
}

TEST(AttentionMemoryCount, SeesTensors) {
  const std::int64_t most = most_of([] {
    {
      const Tensor tensor = Tensor::zeros({1000});
    }
    {
      const Tensor tensor = Tensor::zeros({2000});
    }
  });
  EXPECT_EQ(most, 8000);
}
#endif

}  // namespace
}  // namespace qkv
