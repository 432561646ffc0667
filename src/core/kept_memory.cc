// Keeps freed blocks in regions of addresses, in lists by size.
#include "core/kept_memory.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#ifdef __linux__
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
#endif
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "qkv/memory.h"

// Elsewhere nothing is kept. Address sanitizers are to see every block end.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
#define QKV_KEEPS_MEMORY
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef QKV_KEEPS_MEMORY
#endif
#endif

namespace qkv {
namespace {

#ifdef QKV_KEEPS_MEMORY

constexpr std::size_t kUnit = 128;                          // of the addresses of headers, and of sizes
constexpr std::size_t kLeastBytes = std::size_t{64} << 10;  // the C library itself keeps smaller ones
constexpr std::size_t kLargePage = std::size_t{2} << 20, kUsualRegion = std::size_t{32} << 20;

struct Region;

// In front of each block.
struct alignas(64) Block {
  std::size_t size = 0;      // with this header; 0: there is none, the region ends
  Region* region = nullptr;  // that it is in
  Block* before = nullptr;   // what ends where this one begins
  Block* next = nullptr;     // free ones of about its size
  Block** link = nullptr;
  bool is_free = false;
  bool is_clean = false;  // free, and its pages are with the system
};

std::byte* address_of(void* header) { return static_cast<std::byte*>(header); }

// Addresses that the system gave at once. Behind this header are blocks without gaps, which one of size 0 ends.
struct alignas(kUnit) Region {
  std::size_t bytes = 0;
  std::size_t used = 0;  // blocks that are not free
  Region* next = nullptr;
  Region** link = nullptr;
};
constexpr std::size_t kAroundBlocks = sizeof(Region) + kUnit;

constexpr std::size_t round_down(std::size_t size, std::size_t unit) { return size / unit * unit; }
constexpr std::size_t round_up(std::size_t size, std::size_t unit) { return round_down(size + unit - 1, unit); }

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

Block* first_of(Region* region) { return reinterpret_cast<Block*>(region + 1); }
Block* after(Block* block) { return reinterpret_cast<Block*>(address_of(block) + block->size); }

template <class Node>
void add_to(Node*& list, Node* node) {
  node->next = list;
  node->link = &list;
  if (list != nullptr) list->link = &node->next;
  list = node;
}

template <class Node>
void take_out(Node* node) {
  *node->link = node->next;
  if (node->next != nullptr) node->next->link = node->link;
}

// nullptr where the system refuses.
std::byte* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// At the beginning of a large page.
std::byte* map_aligned(std::size_t bytes) {
  std::byte* memory = map(bytes + kLargePage);
  if (memory == nullptr) return nullptr;
  const std::size_t skip = (kLargePage - reinterpret_cast<std::uintptr_t>(memory) % kLargePage) % kLargePage;
  if (skip > 0) munmap(memory, skip);
  if (skip < kLargePage) munmap(memory + skip + bytes, kLargePage - skip);
  madvise(memory + skip, kLargePage, MADV_HUGEPAGE);  // before the headers in it are there
  return memory + skip;
}

// Of addresses of a region.
void advise(const Region* region, std::uintptr_t begin, std::uintptr_t end, int advice) {
  const auto first = reinterpret_cast<std::uintptr_t>(region);
  begin = std::max(begin, first);
  end = std::min(end, first + region->bytes);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}

// Large pages for the first `size` bytes of a clean block, where the system has them: a model's tables are then read in
// a fraction of the page faults. Not the last one of many where the block goes on, which may never fill it.
void use_large_pages(const Block* clean, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(clean), end = begin + size;
  const bool leaves_last = size < clean->size && size >= 4 * kLargePage;
  advise(clean->region, round_down(begin, kLargePage),
         leaves_last ? round_down(end, kLargePage) : round_up(end, kLargePage), MADV_HUGEPAGE);
}

class KeptMemory {
 public:
  Block* take(std::size_t bytes) {
    const std::size_t size = round_up(sizeof(Block) + bytes, kUnit);
    const std::lock_guard lock(mutex_);
    Block* block = find(size);
    if (block == nullptr) block = add_region(size);
    const bool is_clean = block->is_clean;
    remove(block);
    const std::size_t left = block->size - size;
    const bool is_cut = left >= kLeastBytes;
    if (is_clean) use_large_pages(block, is_cut ? size : block->size);
    if (is_cut) {
      block->size = size;
      Block* rest = ::new (after(block)) Block{.size = left, .region = block->region, .before = block};
      after(rest)->before = rest;
      add(rest, is_clean);
    }
    ++block->region->used;
    return block;
  }

  void free(Block* block) {
    const std::lock_guard lock(mutex_);
    Region* region = block->region;
    if (block->size <= kMostKeptBytes) make_room(block->size);
    --region->used;
    add(block, false);
    if (kept_ > kMostKeptBytes) give_back(region);
  }

  void trim() {
    const std::lock_guard lock(mutex_);
    give_back_all();
  }

  std::size_t kept() {
    const std::lock_guard lock(mutex_);
    return kept_;
  }

  // A child of fork() must not find the lists in the hands of a thread that it does not have.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  static constexpr std::size_t kBins = 4 * std::numeric_limits<std::size_t>::digits;

  // Four to a power of two.
  static std::size_t bin_of(std::size_t size) {
    const int exponent = std::bit_width(size) - 1;
    return 4 * static_cast<std::size_t>(exponent) + (size >> (exponent - 2) & 3);
  }

  // Whether so much of a clean block lies in the large page that the block before it has begun.
  static bool is_begun(const Block* clean, std::size_t size) {
    const auto begin = reinterpret_cast<std::uintptr_t>(clean);
    return begin + size <= round_up(begin, kLargePage);
  }

  // One whose pages the process has, if there is any: others would be added to them.
  Block* find(std::size_t size) const {
    Block* clean = nullptr;
    for (std::size_t bin = bin_of(size); bin < kBins; ++bin) {
      for (Block* block = bins_[bin]; block != nullptr; block = block->next) {
        if (block->size < size) continue;
        if (!block->is_clean) return block;
        if (clean == nullptr || (is_begun(block, size) && !is_begun(clean, size))) clean = block;
      }
    }
    return clean;
  }

  // To the free ones, as one block with those beside it that are as clean.
  void add(Block* block, bool is_clean) {
    const auto joins = [&](const Block* other) { return other->is_free && other->is_clean == is_clean; };
    if (Block* behind = after(block); joins(behind)) {
      remove(behind);
      block->size += behind->size;
    }
    if (Block* before = block->before; before != nullptr && joins(before)) {
      remove(before);
      before->size += block->size;
      block = before;
    }
    after(block)->before = block;
    block->is_free = true;
    block->is_clean = is_clean;
    if (!is_clean) kept_ += block->size;
    add_to(bins_[bin_of(block->size)], block);
  }

  void remove(Block* block) {
    take_out(block);
    block->is_free = false;
    if (!block->is_clean) kept_ -= block->size;
  }

  // One free block of at least `size`.
  Block* add_region(std::size_t size) {
    std::size_t bytes = round_up(std::max(size + kAroundBlocks, kUsualRegion), kLargePage);
    std::byte* memory = map_aligned(bytes);
    if (memory == nullptr) {
      give_back_all();
      bytes = round_up(size + kAroundBlocks, page_bytes());
      memory = map(bytes);
    }
    if (memory == nullptr) throw std::bad_alloc();
    auto* region = ::new (memory) Region{.bytes = bytes};
    add_to(regions_, region);
    Block* block = ::new (first_of(region)) Block{.size = bytes - kAroundBlocks, .region = region};
    ::new (after(block)) Block{.region = region, .before = block};
    add(block, true);
    return block;
  }

  void give_back_all() {
    for (Region* region = regions_; region != nullptr;) {
      Region* next = region->next;
      give_back(region);
      region = next;
    }
  }

  void make_room(std::size_t size) {
    while (kept_ + size > kMostKeptBytes) give_back_turn();
  }

  // What is kept in one region, the next one at the next time.
  void give_back_turn() {
    Region* region = turn_ != nullptr ? turn_ : regions_;
    turn_ = region->next;
    give_back(region);
  }

  void give_back(Region* region) {
    for (Block* block = first_of(region); block->size > 0; block = after(block)) {
      if (!block->is_free || (block->is_clean && region->used > 0)) continue;
      remove(block);
      if (region->used == 0) continue;
      const std::uintptr_t begin = round_up(reinterpret_cast<std::uintptr_t>(block + 1), page_bytes());
      const std::uintptr_t end = round_down(reinterpret_cast<std::uintptr_t>(after(block)), page_bytes());
      advise(region, begin, end, MADV_DONTNEED);
      // Else the system would in time give a large page to what is left of one.
      advise(region, round_down(begin, kLargePage), round_up(end, kLargePage), MADV_NOHUGEPAGE);
      add(block, true);
    }
    if (region->used > 0) return;
    if (turn_ == region) turn_ = region->next;
    take_out(region);
    munmap(region, region->bytes);
  }

  std::mutex mutex_;
  std::size_t kept_ = 0;
  Region* regions_ = nullptr;
  Region* turn_ = nullptr;  // nullptr: the first of them
  Block* bins_[kBins] = {};
};

// Never destroyed: tensors of static duration may end after it would.
constinit KeptMemory kept;

[[maybe_unused]] const int watches_forks =
    pthread_atfork([] { kept.lock(); }, [] { kept.unlock(); }, [] { kept.unlock(); });

#endif

std::atomic<bool> keeps{true};

// Where the C library's blocks begin; ours lie half of that behind.
constexpr std::align_val_t kAlignment{128};

}  // namespace

inline namespace core {

std::byte* take_block(std::size_t bytes) {
  constexpr std::size_t kMostBytes = std::numeric_limits<std::size_t>::max() / 4;  // room for headers and rounding
  if (bytes > kMostBytes) throw std::bad_alloc();
#ifdef QKV_KEEPS_MEMORY
  if (bytes >= kLeastBytes && keeps) return address_of(kept.take(bytes) + 1);
#endif
  // Under address sanitizers the operator that throws would end the process instead.
  void* memory = ::operator new(std::max<std::size_t>(bytes, 1), kAlignment, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

void free_block(std::byte* memory) noexcept {
#ifdef QKV_KEEPS_MEMORY
  static_assert(sizeof(Block) == 64 && sizeof(Region) == kUnit);
  if (reinterpret_cast<std::uintptr_t>(memory) % kUnit == sizeof(Block)) {
    return kept.free(reinterpret_cast<Block*>(memory) - 1);
  }
#endif
  ::operator delete(memory, kAlignment);
}

void set_keeping(bool wanted) { keeps = wanted; }

std::size_t kept_bytes() {
#ifdef QKV_KEEPS_MEMORY
  return kept.kept();
#else
  return 0;
#endif
}

}  // namespace core

void trim_memory() {
#ifdef QKV_KEEPS_MEMORY
  kept.trim();
#endif
#ifdef __GLIBC__
  // All but the heap's end, by whose rule programs set it.
  constexpr auto trim = [] { return malloc_trim(std::numeric_limits<std::size_t>::max() / 2); };
  // Where another malloc serves the process, glibc's is made ready by this call, which two threads may not do at once.
  [[maybe_unused]] static const int made_ready = trim();
  trim();
#endif
}

}  // namespace qkv
