// A vector in memory that is kept when it is freed (kept_memory.h): for what a call makes of its arguments. The C
// library gives blocks of 128 KiB and more back to the system, which clears their pages for the next call.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

#include "core/kept_memory.h"

namespace qkv::inline core {

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
