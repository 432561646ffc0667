// Blocks of memory for tensors and scratch. What is freed is kept for the next blocks, on large pages, so that the
// system need not clear its pages again: that is a tenth of the time to a first embedding.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

namespace qkv::inline core {

// Kept at most, in all. A freed block that would exceed it is kept in the place of others.
inline constexpr std::size_t kMostKeptBytes = std::size_t{512} << 20;

// Aligned to 64 bytes; elements are unspecified. std::bad_alloc.
std::byte* take_block(std::size_t bytes);
// What take_block() returned, or nullptr.
void free_block(std::byte* block) noexcept;

// What is kept now.
std::size_t kept_bytes();

// Whether blocks are taken from here, rather than from operator new. For tests that count its calls.
void set_keeping(bool wanted);

// A vector in memory that is kept when it is freed (kept_memory.h): for what a call makes of its arguments. The C
// library gives blocks of 128 KiB and more back to the system, which clears their pages for the next call.
template <class T>
struct KeptAllocator {
  using value_type = T;

  KeptAllocator() = default;
  template <class Other>
  KeptAllocator(const KeptAllocator<Other>&) noexcept {}

  T* allocate(std::size_t count) {
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return reinterpret_cast<T*>(take_block(count * sizeof(T)));
  }
  void deallocate(T* data, std::size_t) noexcept { free_block(reinterpret_cast<std::byte*>(data)); }

  template <class Other>
  bool operator==(const KeptAllocator<Other>&) const noexcept {
    return true;
  }
};

template <class T>
using KeptVector = std::vector<T, KeptAllocator<T>>;

}  // namespace qkv::inline core
