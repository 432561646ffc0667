// Memory of freed tensors serves the next ones, within its bound, in threads, after fork() and until the process ends.
#include "core/kept_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include "core/core_for_test.h"
#include "memory_for_test.h"
#include "qkv/attention.h"
#include "qkv/memory.h"
#include "qkv/random.h"
#include "qkv/tensor.h"
#include "sanitizers.h"

namespace qkv {
namespace {

constexpr std::int64_t kElements = 1 << 18;  // 1 MiB of floats

#ifndef QKV_SANITIZED  // which keep nothing, or need memory of their own

const float* address_of_freed(std::int64_t elements) { return Tensor::uninitialized({elements}).data<float>(); }

TEST(KeptMemory, ServesTheNextTensor) {
  trim_memory();
  for (const std::int64_t small : {0, 1 << 13}) address_of_freed(small);  // are the C library's
  EXPECT_EQ(kept_bytes(), 0u);
  const float* freed = address_of_freed(kElements);
  const std::size_t kept = kept_bytes();
  EXPECT_GE(kept, kElements * sizeof(float));
  EXPECT_LE(kept, kElements * sizeof(float) + 128);
  EXPECT_EQ(address_of_freed(kElements - 100), freed);
  EXPECT_EQ(address_of_freed(kElements), freed);
  EXPECT_NE(address_of_freed(kElements + 1000), freed);
  trim_memory();
  EXPECT_EQ(kept_bytes(), 0u);
}

TEST(KeptMemory, JoinsNeighbours) {
  for (const bool first_is_freed_first : {false, true}) {
    trim_memory();
    Tensor first = Tensor::uninitialized({kElements}), second = Tensor::uninitialized({kElements});
    const Tensor end = Tensor::uninitialized({kElements});
    const float* begin = first.data<float>();
    (first_is_freed_first ? first : second) = {};
    (first_is_freed_first ? second : first) = {};
    EXPECT_EQ(address_of_freed(2 * kElements), begin);
  }
}

// Regions have 32 MiB: what is left of the first one begins 64 KiB before a large page, of the second one 1.5 MiB.
TEST(KeptMemory, TakesTheRestOfALargePage) {
  trim_memory();
  const Tensor first = Tensor::uninitialized({28 * kElements - (1 << 14)}),
               second = Tensor::uninitialized({26 * kElements + kElements / 2});
  const float* end = second.data<float>() + second.element_count();
  const float* small = address_of_freed(kElements);
  EXPECT_GT(small, end);
  EXPECT_LT(small, end + 256);
}

// What attention() takes for its tiles, of a call that needs more than the C library keeps.
TEST(KeptMemory, ServesTheNextCallOfAttention) {
  const Tensor x = Tensor::zeros({1, 1, 1000, 256}, Dtype::bf16);
  Tensor out = Tensor::zeros(x.shape());
  trim_memory();
  attention(x, x, x, out, {.threads = 1});
  const std::size_t kept = kept_bytes();
  EXPECT_GT(kept, std::size_t{64} << 10);
  attention(x, x, x, out, {.threads = 1});
  EXPECT_EQ(kept_bytes(), kept);
}

TEST(KeptMemory, KeepsItsBound) {
  trim_memory();
  std::size_t most = 0;
  std::vector<Tensor> tensors(39);
  for (std::int64_t i = 0; auto& tensor : tensors) tensor = Tensor::uninitialized({++i * kElements});  // 780 MiB
  for (Tensor& tensor : tensors) {
    tensor = {};
    most = std::max(most, kept_bytes());
  }
  EXPECT_LE(most, kMostKeptBytes);
  EXPECT_GT(most, kMostKeptBytes / 2);
  address_of_freed(static_cast<std::int64_t>(kMostKeptBytes / sizeof(float)) + 1);
  EXPECT_GT(kept_bytes(), 0u);  // a block beyond the bound takes no other's place
  EXPECT_LE(kept_bytes(), kMostKeptBytes);
}

TEST(KeptMemory, TrimGivesItBack) {
  const test::Memory added = test::cost([] {
    std::vector<Tensor> tensors(100);
    for (Tensor& tensor : tensors) tensor = Tensor::zeros({kElements});
    for (int i = 0; auto& tensor : tensors) {
      if (i++ % 10 != 0) tensor = {};
    }
    trim_memory();
    return tensors;  // ten of them, with holes between
  });
  EXPECT_GT(added.peak, 90 * test::kMebibyte);
  EXPECT_LT(added.resident, 20 * test::kMebibyte);
}

// What tensors hold does not change while others come and go, whose elements it would be if they overlapped.
TEST(KeptMemory, TensorsNeverOverlap) {
  Random random(1);
  std::vector<Tensor> held(40, Tensor::zeros({0}, Dtype::u8));
  for (int i = 0; i < 4000; ++i) {
    Tensor& tensor = held[random.below(held.size())];
    const std::uint8_t* data = tensor.data<std::uint8_t>();
    for (std::int64_t at = tensor.element_count(); at > 0; at -= 512) ASSERT_EQ(data[at - 1], data[0]);
    if (random.below(100) == 0) trim_memory();
    const std::int64_t size = random.below(3) == 0 ? 0 : 1 << (10 + random.below(11));
    tensor = Tensor::uninitialized({size}, Dtype::u8);
    std::memset(tensor.data<std::uint8_t>(), i % 256, static_cast<std::size_t>(size));
  }
}

TEST(KeptMemory, IsGivenBackWhereMemoryIsScarce) {
  const auto run = [] {
    trim_memory();
    address_of_freed(200 * kElements);
    const rlim_t pages = std::stoull(test::slurp("/proc/self/statm"));  // of addresses
    const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + 100 * test::kMebibyte;
    const rlimit limit{most, most};
    setrlimit(RLIMIT_AS, &limit);
    address_of_freed(250 * kElements);  // in the place of what is kept
    try {
      address_of_freed(1000 * kElements);
    } catch (const std::bad_alloc&) {
      return 0;
    }
    return 1;
  };
  EXPECT_EQ(test::exit_code_of_child(run), 0);
}

Tensor& tensor_until_the_end() {
  static Tensor tensor;
  return tensor;
}

TEST(KeptMemory, TensorsMayEndWithTheProcess) {
  const auto run = []() -> int {
    tensor_until_the_end();
    std::atexit([] { address_of_freed(kElements); });  // runs before the tensor ends
    tensor_until_the_end() = Tensor::zeros({kElements});
    std::exit(0);
  };
  EXPECT_EQ(test::exit_code_of_child(run), 0);
}

#endif

// As the first of a process, where a sanitizer's malloc serves it: no earlier call has made glibc's ready.
TEST(KeptMemory, ThreadsMayTrimAtOnce) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer forbids new threads in a child of a process with several";
#endif
  const auto run = [] {
    std::atomic<int> ready{0};
    const auto trim = [&] {
      test::meet(ready, 2);
      trim_memory();
    };
    std::thread other(trim);
    trim();
    other.join();
    std::jthread{trim};
    return 0;
  };
  for (int i = 0; i < 50; ++i) ASSERT_EQ(test::exit_code_of_child(run), 0);
}

TEST(KeptMemory, ThreadsAndForks) {
#ifdef QKV_SANITIZED
  GTEST_SKIP() << "a child may wait for ever for a lock of the sanitizer's own memory, which another thread held";
#endif
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t](const std::stop_token& ending) {
      for (std::int64_t n = 0; !ending.stop_requested(); ++n) {
        Tensor tensor = Tensor::zeros({kElements / 8 + 1000 * (n % 7)});
        tensor.data<float>()[n % 1000] = static_cast<float>(t + 1);
        std::this_thread::yield();
        if (tensor.data<float>()[n % 1000] != static_cast<float>(t + 1)) ++wrong;
        if (n % 50 == 0) trim_memory();
      }
    });
  }
  const auto run = [] { return Tensor::zeros({kElements}).data<float>()[0] == 0 ? 0 : 1; };
  for (int i = 0; i < 50; ++i) EXPECT_EQ(test::exit_code_of_child(run), 0);
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace qkv
