// What a call takes in memory besides its inputs and outputs: what plan() says, as counted by operator new, within the
// limit, and below the bounds that docs/semantics.md states.
#include "attention/tangent/attention_tangents_testing.h"
#include "core/kept_memory.h"
#include "core/thread_pool.h"
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

// Those of arrays call these.
void* operator new(std::size_t size) { return allocate(size, 0); }
void* operator new(std::size_t size, std::align_val_t to) { return allocate(size, static_cast<std::size_t>(to)); }
void operator delete(void* memory) noexcept { release(memory, 0); }
void operator delete(void* memory, std::size_t) noexcept { release(memory, 0); }
void operator delete(void* memory, std::align_val_t to) noexcept { release(memory, static_cast<std::size_t>(to)); }
void operator delete(void* memory, std::size_t, std::align_val_t to) noexcept {
  release(memory, static_cast<std::size_t>(to));
}
#endif

namespace qkv {
namespace {

using testing::filled;

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
    core::process_pool();  // made once in a process
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

// Targets whose code for f32 and f64 is their own: those that multiply 16 bits in their own way have that of avx512.
std::vector<std::string> targets_of_floats() {
  std::vector<std::string> names = testing::usable_targets();
  std::erase_if(names, [](const std::string& name) { return name == "avx512-bf16" || name == "amx"; });
  return names;
}
class AttentionMemoryOfFloats : public AttentionMemory {};
INSTANTIATE_TEST_SUITE_P(Target, AttentionMemoryOfFloats, ::testing::ValuesIn(targets_of_floats()),
                         testing::test_name_of_target);

// What lists of views may take a thread beside what is planned.
constexpr std::int64_t kSlack = 64 << 10;

// The plan is below what is allocated by no more than this, and not far above. The bytes of one thread are enough as a
// limit; one byte less is not.
void expect_plan(AttentionOptions options, const std::function<AttentionPlan(const AttentionOptions&)>& plan,
                 const std::function<void(const AttentionOptions&)>& run, bool is_close = true) {
  std::int64_t least = 0;
  for (const int threads : {3, 1}) {
    options.threads = threads, options.memory_limit = 0;
    const std::int64_t planned = plan(options).workspace, taken = most_of([&] { run(options); });
    EXPECT_LE(taken, planned + kSlack * threads) << threads << " threads";
    if (is_close) {
      EXPECT_GE(taken, planned * 9 / 10 - 4096 * (threads + 1)) << threads << " threads";
    }
    least = planned;
  }
  options.threads = 3, options.memory_limit = least;
  EXPECT_LE(plan(options).workspace, least);
  EXPECT_LE(most_of([&] { run(options); }), least + kSlack);
  for (const std::int64_t limit : {least - 1, std::int64_t{1}, std::int64_t{-1}}) {
    options.memory_limit = limit;
    EXPECT_THROW(run(options), std::invalid_argument) << limit;
    EXPECT_THROW(plan(options), std::invalid_argument) << limit;
  }
}

// Queries and keys for all passes, whose numbers do not matter, and places for what is given.
struct PlannedArrays {
  PlannedArrays(const Dims& q_shape, const Dims& k_shape, Dtype dtype = Dtype::f32,
                std::optional<Dtype> of_gradients = std::nullopt)
      : q_(Tensor::zeros(q_shape, dtype)), k_(Tensor::zeros(k_shape, dtype)), q(q_), k(k_), gradient(of_gradients) {
    Dims rows;
    for (int i = 0; i + 1 < q.rank(); ++i) rows.push_back(q.size(i));
    log_sum_exp = zeros(rows, wide());
    out = zeros(q.shape(), dtype);
  }
  Dtype wide() const { return testing::accumulation_of(q.dtype()); }
  MutableTensorView zeros(const Dims& shape, Dtype dtype = Dtype::f32) {
    return kept_.emplace_back(std::make_unique<Tensor>(Tensor::zeros(shape, dtype)))->view();
  }

  void expect_forward(const AttentionOptions& options, const AttentionExtras& extras = {}, bool is_close = true) const {
    expect_plan(
        options, [&](const AttentionOptions& with) { return plan(q, k, k, with, extras); },
        [&](const AttentionOptions& with) { attention(q, k, k, out, with, extras); }, is_close);
  }
  // With gradients of all that has one.
  void expect_backward(const AttentionOptions& options) {
    const Dtype type = gradient.value_or(Dtype::f32);
    AttentionGradients gradients{
        .query = zeros(q.shape(), type), .key = zeros(k.shape(), type), .value = zeros(k.shape(), type)};
    const auto place = [&](const TensorView& of) { return of ? zeros(of.shape(), wide()) : MutableTensorView(); };
    for (const TensorView& view : options.bias.views()) gradients.bias.push_back(place(view));
    for (const TensorView& slopes : options.bias.alibi_slopes()) gradients.alibi_slopes.push_back(place(slopes));
    for (const RelativeTable& table : options.bias.tables()) gradients.tables.push_back(place(table.values()));
    gradients.sinks = place(options.sinks);
    const Score& score = options.score;
    gradients.score = {.w_query = place(score.w_query()), .w_key = place(score.w_key()), .v = place(score.v())};
    expect_plan(
        options, [&](const AttentionOptions& with) { return plan_backward(q, k, k, with, gradients); },
        [&](const AttentionOptions& with) { attention_backward(q, k, k, q, log_sum_exp, q, with, gradients); });
  }
  void expect_tangents(const AttentionOptions& options) {
    const AttentionTangents tangents{.query = q, .key = k, .value = k};
    const AttentionOutputTangents outputs{.out = out};
    expect_plan(
        options, [&](const AttentionOptions& with) { return plan_jvp(q, k, k, tangents, with, outputs); },
        [&](const AttentionOptions& with) { attention_jvp(q, k, k, q, log_sum_exp, tangents, with, outputs); });
    for (const bool has_place : {false, true}) {
      AttentionSecondGradients second{.query = zeros(q.shape(), wide()), .key = zeros(k.shape(), wide())};
      if (has_place) second.grad_out = out;
      expect_plan(
          options, [&](const AttentionOptions& with) { return plan_double_backward(q, k, k, tangents, with, second); },
          [&](const AttentionOptions& with) {
            attention_double_backward(q, k, k, q, log_sum_exp, q, tangents, with, second);
          });
    }
  }

 private:
  Tensor q_, k_;
  std::vector<std::unique_ptr<Tensor>> kept_;

 public:
  TensorView q, k;  // may become parts of others
  std::optional<Dtype> gradient;
  MutableTensorView log_sum_exp, out;
};

TEST_P(AttentionMemory, OfBlocksOfQueries) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
    for (const Precision precision : {Precision::exact, Precision::reduced}) {
      const AttentionOptions options{.mask = Mask::causal(), .precision = precision};
      PlannedArrays a({4, 300, 64}, {4, 1300, 64}, dtype), apart({4, 700, 64}, {1, 1, 64}, dtype);
      a.expect_forward(options);
      a.expect_forward(options, {.weights = a.zeros({4, 300, 1300}, a.wide()), .entropy = a.zeros({4, 300}, a.wide())});
      // More blocks of queries than eight, of rows that lie apart: of one tensor with others.
      const TensorView all = apart.zeros({1300, 2 * 4, 64}, dtype);
      apart.q = all.slice(1, 0, 4).transpose(0, 1).slice(1, 0, 700), apart.k = all.slice(1, 4, 8).transpose(0, 1);
      apart.expect_forward(options);
    }
  }
}

TEST_P(AttentionMemoryOfFloats, OfEmptyRows) {
  PlannedArrays({64, 3000, 8}, {64, 5, 8}).expect_forward({.empty_rows = EmptyRows::nan});
}

// Scratch of blocks of one sequence's queries, that of chosen rows, partial results, and decoding; some to a block, on
// all threads.
TEST_P(AttentionMemoryOfFloats, OfChosenRows) {
  for (const auto& [heads, q_len, count] : {std::tuple(1, 8, 4), {2, 1, 4}, {2, 600, 900}}) {
    PlannedArrays a({heads, q_len, 64}, {heads, 400, 64});
    const MutableTensorView rows = a.zeros({count, 3}, Dtype::i64);
    for (std::int64_t n = 0; n < count; ++n) {
      rows.at<std::int64_t>({n, 1}) = n % 2 % heads;
      rows.at<std::int64_t>({n, 2}) = n * 7 % q_len;
    }
    a.expect_forward({}, {.rows = rows, .row_weights = a.zeros({count, 400})});
  }
}

// Of three threads' heads, or as many as there are.
TEST_P(AttentionMemoryOfFloats, OfWeightSums) {
  for (const std::int64_t heads : {1, 2, 7}) {
    PlannedArrays a({heads, 130, 16}, {heads, 5000, 16});
    const MutableTensorView received = a.zeros({heads, 5000}), blocks = a.zeros({heads, 9, 900});
    a.expect_forward({}, {.received = received});
    a.expect_forward({}, {.block_weights = blocks});
    a.expect_forward({}, {.received = received, .block_weights = blocks});
  }
}

TEST_P(AttentionMemoryOfFloats, OfSplitKeys) {
  for (const auto& [heads, q_len] : {std::pair(2, 8), {8, 2}, {2, 1}, {16, 1}}) {
    PlannedArrays({heads, q_len, 96}, {2, 9000, 96}).expect_forward({});
    PlannedArrays({heads / 2, q_len, 96}, {1, 9000, 96}).expect_forward({});
  }
}

TEST_P(AttentionMemoryOfFloats, OfPackedSequences) {
  const Tensor offsets_query = Tensor::of<std::int32_t>({6}, {0, 3, 4, 64, 64, 65});
  const Tensor offsets_key = Tensor::of<std::int32_t>({6}, {0, 2500, 5600, 8000, 8010, 8011});
  PlannedArrays({65, 6, 32}, {8011, 2, 32})
      .expect_forward(
          {.mask = Mask::causal(Align::bottom_right), .offsets_query = offsets_query, .offsets_key = offsets_key});
}

// Of `count` rows, in runs, or one after the other.
Tensor document_ids(std::int64_t count, std::int64_t run, std::int64_t documents) {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<std::int32_t>(i / run % documents));
  return Tensor::of({count}, ids);
}

TEST_P(AttentionMemoryOfFloats, OfMasksAndTables) {
  constexpr std::int64_t kLength = 3000;
  Random random(5);
  PlannedArrays a({2, kLength, 16}, {2, kLength, 16});
  const Tensor visible = testing::coin_flips(random, {kLength, kLength}, 0.9);
  const Tensor scattered = document_ids(kLength, 1, 3), in_runs = document_ids(kLength, 100, 30);
  const Mask window = Mask::window(64, 0);
  for (const Mask& mask : {Mask::boolean(visible), Mask::boolean(visible).compiled(), Mask::documents(scattered),
                           Mask::documents(in_runs), Mask::documents(in_runs) & Mask::documents(scattered)}) {
    // How many pairs of two ids there are is not known before.
    a.expect_forward({.mask = mask & window}, {},
                     std::ranges::count(mask.parts(), MaskKind::documents, &Mask::Part::kind) < 2);
  }
  // A call that finds its documents takes nothing for them.
  const Mask compiled = Mask::documents(in_runs).compiled() & window;
  const std::int64_t first = plan(a.q, a.k, a.k, {.mask = compiled, .threads = 1}).workspace;
  a.expect_forward({.mask = compiled});
  EXPECT_LE(plan(a.q, a.k, a.k, {.mask = compiled, .threads = 1}).workspace, first - 20 * kLength);
  for (const RelativeTable& table :
       {RelativeTable::t5(a.zeros({32, 2})), RelativeTable::clipped(a.zeros({4001, 2}, Dtype::bf16)),
        RelativeTable::shaw(a.zeros({401, 16})),
        RelativeTable::swin(a.zeros({(2 * 60 - 1) * (2 * 50 - 1), 2}), 60, 50)}) {
    a.expect_forward({.mask = window, .bias = Bias::table(table)});
  }
}

TEST_P(AttentionMemory, OfGradients) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16}) {
    PlannedArrays({4, 300, 80}, {2, 2100, 80}, dtype, dtype)
        .expect_backward({.mask = Mask::causal(), .dropout = {.p = 0.1, .seed = 1}});
  }
  PlannedArrays({2, 100, 256}, {2, 3100, 256}, Dtype::bf16).expect_backward({});
}

TEST_P(AttentionMemoryOfFloats, OfGradientsOfBiasesAndTables) {
  PlannedArrays a({4, 200, 16}, {4, 3200, 16}), small({1, 20, 16}, {1, 60, 16});
  a.expect_backward({.bias = Bias::view(a.zeros({200, 3200})) + Bias::view(a.zeros({4, 1, 3200}))});
  a.expect_backward(
      {.bias = Bias::clipped(a.zeros({4001, 4})) + Bias::shaw(a.zeros({401, 16})) + Bias::alibi(a.zeros({4})),
       .sinks = a.zeros({4})});
  // A table that is larger than what the threads take.
  small.expect_backward({.bias = Bias::clipped(small.zeros({200001, 1}))});
}

TEST_P(AttentionMemory, OfGradientsOfScores) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    for (const std::int64_t q_len : {40, 3000}) {
      PlannedArrays a({2, q_len, 40}, {2, 1500, 40}, dtype);
      const TensorView w = a.zeros({48, 40}), factor = a.zeros({48});
      for (const Score& score : {Score::additive(w, w, factor), Score::concat(a.zeros({48, 80}), factor),
                                 Score::bilinear(a.zeros({40, 40}))}) {
        a.expect_backward({.mask = Mask::window(20, 20), .score = score});
      }
    }
  }
}

// Lists of masks and biases take more than these arrays do, and some passes copy them: within the slack.
TEST_P(AttentionMemoryOfFloats, OfLists) {
  PlannedArrays a({2, 3, 8}, {2, 5, 8});
  const TensorView bias = a.zeros({5}), slopes = a.zeros({2}), w = a.zeros({8, 8});
  const Tensor seen = filled({3, 5}, 1, Dtype::u8);
  const Mask mask = Mask::boolean(seen) & Mask::boolean(seen) & Mask::boolean(seen);
  AttentionOptions options{.mask = mask,
                           .bias = Bias::view(bias) + Bias::view(bias) + Bias::view(bias) + Bias::alibi(slopes) +
                                   Bias::alibi(slopes) + Bias::alibi(slopes)};
  a.expect_forward(options);
  for (const Score& score : {Score::dot(), Score::additive(w, w, a.zeros({8})), Score::bilinear(w)}) {
    options.score = score;
    a.expect_backward(options);
  }
  options.bias = Bias::clipped(a.zeros({10001, 2}));  // whose copy is the most that is taken
  a.expect_forward(options);
}

// Bilinear scores make a call of projected queries, which reads the documents once more.
TEST_P(AttentionMemoryOfFloats, OfDocumentsOfProjectedQueries) {
  const Tensor documents = document_ids(20000, 1, 2);
  PlannedArrays a({1, 20000, 4}, {1, 20000, 4});
  a.expect_backward(
      {.mask = Mask::documents(documents) & Mask::window(2, 2), .score = Score::bilinear(a.zeros({4, 4}))});
}

TEST_P(AttentionMemoryOfFloats, OfTangentsAndOfADoubleBackward) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    PlannedArrays({4, 300, 80}, {2, 2100, 80}, dtype).expect_tangents({.mask = Mask::causal()});
  }
}

TEST_P(AttentionMemoryOfFloats, OfCallsWithoutAPair) {
  for (const auto& [q_len, k_len] : {std::pair(0, 500), {500, 0}, {0, 0}}) {
    PlannedArrays a({2, q_len, 64}, {2, k_len, 64});
    const AttentionGradients gradients{.query = a.zeros(a.q.shape()), .key = a.zeros(a.k.shape())};
    const AttentionTangents tangents{.query = a.q, .key = a.k, .value = a.k};
    const AttentionSecondGradients second{.query = gradients.query, .key = gradients.key};
    const AttentionOptions options{.threads = 3};
    EXPECT_LE(most_of([&] { attention_backward(a.q, a.k, a.k, a.q, a.log_sum_exp, a.q, options, gradients); }),
              plan_backward(a.q, a.k, a.k, options, gradients).workspace);
    EXPECT_LE(most_of([&] { attention_jvp(a.q, a.k, a.k, a.q, a.log_sum_exp, tangents, options, {.out = a.out}); }),
              plan_jvp(a.q, a.k, a.k, tangents, options, {.out = a.out}).workspace);
    EXPECT_LE(
        most_of([&] { attention_double_backward(a.q, a.k, a.k, a.q, a.log_sum_exp, a.q, tangents, options, second); }),
        plan_double_backward(a.q, a.k, a.k, tangents, options, second).workspace);
  }
}

#ifdef QKV_COUNTS_MEMORY
// A matrix of weights would take 4 GiB.
TEST(AttentionMemorySlow, UnderOneMebibyteAThreadAtLength32768) {
  constexpr std::int64_t kLength = 32768, kSize = 16;
  Random random(2);
  const Tensor q = testing::normal(random, {1, 1, kLength, kSize});
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
