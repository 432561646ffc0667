// What a call costs besides its inputs and outputs: memory by the thread, not by the length; and how it is ended early.
#include <atomic>
#include <cstdlib>
#include <new>
#include <stop_token>

#include "kernels/attention_testing.h"
#include "qkv/attention_backward.h"
#include "qkv/attention_double_backward.h"
#include "qkv/attention_plan.h"
#include "qkv/error.h"
#include "qkv/threads.h"
#include "sanitizers.h"

// A sanitizer has operators of its own, and finds more with them than this test does.
#ifndef QKV_SANITIZED
#define QKV_COUNTS_MEMORY
#endif

namespace {

// Bytes asked of operator new by the whole program; nothing is subtracted for deletes.
std::atomic<std::size_t> requested_bytes{0};

}  // namespace

#ifdef QKV_COUNTS_MEMORY
namespace {

void* counted(void* memory, std::size_t size) {
  if (memory == nullptr) throw std::bad_alloc();
  requested_bytes += size;
  return memory;
}

// Out of line, or the compiler takes free() for the wrong partner of operator new.
[[gnu::noinline]] void release(void* memory) { std::free(memory); }

std::size_t rounded_up(std::size_t size, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  return (size + step - 1) / step * step;
}

}  // namespace

void* operator new(std::size_t size) { return counted(std::malloc(size == 0 ? 1 : size), size); }
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(std::aligned_alloc(static_cast<std::size_t>(alignment), rounded_up(size, alignment)), size);
}
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
#endif

namespace qkv {
namespace {

class AttentionMemory : public testing::OnEachTarget {
 protected:
  void SetUp() override {
#ifndef QKV_COUNTS_MEMORY
    GTEST_SKIP() << "a sanitizer counts memory itself";
#endif
    testing::OnEachTarget::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Target, AttentionMemory, ::testing::ValuesIn(testing::usable_targets()),
                         [](const auto& target) { return target.param; });

TEST_P(AttentionMemory, UnderOneMebibyteAThreadAtAnyLength) {
  constexpr std::int64_t kLength = 8192, kSize = 16;
  Random random(1);
  const Tensor q = testing::normal(random, {1, 1, kLength, kSize}), k = testing::normal(random, {1, 1, kLength, kSize});
  const Tensor v = testing::normal(random, {1, 1, kLength, kSize});
  const Tensor lengths = Tensor::of<std::int32_t>({1}, {300});
  const Tensor w = testing::normal(random, {4, kSize}), joined = testing::normal(random, {4, 2 * kSize});
  const Tensor factor = testing::normal(random, {4}), square = testing::normal(random, {kSize, kSize});
  Tensor out = Tensor::zeros({1, 1, kLength, kSize}), log_sum_exp = Tensor::zeros({1, 1, kLength});
  for (const Mask& mask : {Mask::window(64, 64), Mask::lengths(lengths), Mask::causal() & Mask::window(500, 0)}) {
    for (const Score& score :
         {Score::scaled_dot(), Score::additive(w, w, factor), Score::concat(joined, factor), Score::bilinear(square)}) {
      for (const int threads : {1, 4}) {
        const AttentionOptions options{.mask = mask, .score = score, .threads = threads};
        const std::size_t before = requested_bytes;
        attention(q, k, v, out, options, {.log_sum_exp = log_sum_exp});
        EXPECT_LE(requested_bytes - before, static_cast<std::size_t>(threads) << 20);
      }
    }
  }
}

// Linear in the lengths at most: what is kept of a query or a key is named in the headers.
TEST_P(AttentionMemory, GradientsAndTheirDerivatives) {
  constexpr std::int64_t kLength = 8192, kSize = 16;
  Random random(4);
  const auto drawn = [&] { return testing::normal(random, {1, 1, kLength, kSize}); };
  const Tensor q = drawn(), k = drawn(), v = drawn(), tq = drawn(), tk = drawn(), tv = drawn(), grad_out = drawn();
  Tensor out = Tensor::zeros(q.shape()), log_sum_exp = Tensor::zeros({1, 1, kLength}), moved = Tensor::zeros(q.shape());
  Tensor dq = Tensor::zeros(q.shape()), dk = Tensor::zeros(k.shape()), dv = Tensor::zeros(v.shape());
  const AttentionTangents tangents{.query = tq, .key = tk, .value = tv};
  for (const int threads : {1, 4}) {
    const AttentionOptions options{.mask = Mask::causal() & Mask::window(64, 0), .threads = threads};
    attention(q, k, v, out, options, {.log_sum_exp = log_sum_exp});
    const auto expect_below = [&](std::size_t limit, const auto& call) {
      const std::size_t before = requested_bytes;
      call();
      EXPECT_LE(requested_bytes - before, limit);
    };
    const std::size_t tiles = static_cast<std::size_t>(threads) << 20, rows = kLength * sizeof(float);
    expect_below(tiles, [&] {
      attention_backward(q, k, v, out, log_sum_exp, grad_out, options, {.query = dq, .key = dk, .value = dv});
    });
    expect_below(tiles, [&] { attention_jvp(q, k, v, out, log_sum_exp, tangents, options, {.out = moved}); });
    expect_below(tiles + (kSize + 2) * rows, [&] {
      attention_double_backward(q, k, v, out, log_sum_exp, grad_out, tangents, options,
                                {.query = dq, .key = dk, .value = dv});
    });
  }
}

TEST_P(AttentionMemory, FewQueriesOverManyKeysAndLargeHeads) {
  Random random(2);
  for (const std::int64_t size : {64, 1024}) {
    for (const std::int64_t q_len : {1, 2}) {
      const Tensor q = testing::normal(random, {q_len, size}), k = testing::normal(random, {4096, size});
      Tensor out = Tensor::zeros({q_len, size});
      const std::size_t before = requested_bytes;
      attention(q, k, k, out, {.threads = 2});
      EXPECT_LE(requested_bytes - before, std::size_t{2} << 20);
    }
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
  const std::size_t before = requested_bytes;
  attention(q, q, q, out, options);
  EXPECT_LE(requested_bytes - before, std::size_t{2} << 20);
  EXPECT_LE(plan(q, q, q, options).workspace, 2 << 20);
  // The last query alone gives what it gave among all of them.
  EXPECT_LE(testing::difference(out.view().slice(2, kLength - 1, kLength),
                                attention(q.view().slice(2, kLength - 1, kLength), q, q)),
            4 * 0x1p-23 * testing::largest(q));
}

TEST(AttentionMemoryCount, SeesTensors) {
  const std::size_t before = requested_bytes;
  const Tensor tensor = Tensor::zeros({1000});
  EXPECT_GE(requested_bytes - before, 4000u);
}
#endif

QKV_ON_EACH_TARGET(AttentionStop);

TEST_P(AttentionStop, BeforeTheCall) {
  Random random(3);
  const Tensor q = testing::normal(random, {1, 2, 300, 16});
  std::stop_source source;
  const AttentionOptions options{.stop = source.get_token()};
  const Tensor out = attention(q, q, q, options);  // a token that asks for nothing changes nothing
  EXPECT_TRUE(testing::same_bits(out, attention(q, q, q)));
  source.request_stop();
  EXPECT_THROW(attention(q, q, q, options), Stopped);
  EXPECT_THROW(attention(q.view().slice(2, 0, 1), q, q, options), Stopped);
  EXPECT_TRUE(testing::same_bits(out, attention(q, q, q)));  // and the next call is untouched
}

// A caller's pool that asks for a stop once the first task is done.
std::stop_source* source_of_runner = nullptr;

void stopping_runner(std::int64_t tasks, int, void (*task)(void*, std::int64_t, int), void* context) {
  for (std::int64_t index = 0; index < tasks; ++index) {
    task(context, index, 0);
    source_of_runner->request_stop();
  }
}

void expect_stopped(const TensorView& q, const TensorView& k) {
  std::stop_source source;
  source_of_runner = &source;
  set_parallel_runner(stopping_runner);
  EXPECT_THROW(attention(q, k, k, {.threads = 2, .stop = source.get_token()}), Stopped);
  set_parallel_runner(nullptr);
  EXPECT_TRUE(source.stop_requested());
}

TEST_P(AttentionStop, DuringTheCall) {
  Random random(4);
  const Tensor q = testing::normal(random, {4, 2, 300, 16});
  expect_stopped(q, q);
}

TEST_P(AttentionStop, WhileThreadsShareKeys) {
  Random random(5);
  const Tensor q = testing::normal(random, {2, 16}), k = testing::normal(random, {5000, 16});
  expect_stopped(q, k);
}

}  // namespace
}  // namespace qkv
