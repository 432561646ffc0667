// Memory for one thread's tiles, and how kernels divide it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/kept_memory.h"

namespace qkv::inline simd {

// What is left of memory whose size was planned. Kernels take from it piece by piece, never by an address alone, so
// that one that needs more than its plan said fails and writes nowhere else.
class ScratchRoom {
 public:
  ScratchRoom(std::byte* data, std::size_t bytes) : data_(data), left_(bytes) {}

  // std::logic_error if there is less.
  std::byte* take_bytes(std::size_t bytes) {
    if (bytes > left_) refuse(bytes, left_);
    std::byte* taken = data_;
    data_ += bytes;
    left_ -= bytes;
    return taken;
  }
  template <class T>
  [[gnu::always_inline]] T* take(std::int64_t count) {
    return reinterpret_cast<T*>(take_bytes(sizeof(T) * static_cast<std::size_t>(count)));
  }
  ScratchRoom take_room(std::size_t bytes) { return {take_bytes(bytes), bytes}; }

  [[noreturn]] static void refuse(std::size_t bytes, std::size_t left);

 private:
  std::byte* data_;
  std::size_t left_;
};

// Allocated at first use, aligned to 64 bytes, kept until destruction. Its first kFreshBytes, if there are as many, are
// 0 then: what is kept there from one use to the next begins empty.
class Scratch {
 public:
  static constexpr std::size_t kFreshBytes = 512;
  static constexpr std::size_t kMostBytes = 1 << 20;  // of a thread of attention's, where it has a choice

  // Later uses need no more than the first one.
  ScratchRoom get(std::size_t bytes) {
    if (!data_) {
      data_.reset(take_block(bytes));
      bytes_ = bytes;
      renew();
    }
    if (bytes > bytes_) ScratchRoom::refuse(bytes, bytes_);
    return {data_.get(), bytes};
  }

  // Nothing is kept.
  void renew() { std::memset(data_.get(), 0, std::min(bytes_, kFreshBytes)); }

 private:
  struct Free {
    void operator()(std::byte* data) const { free_block(data); }
  };
  std::unique_ptr<std::byte[], Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace qkv::inline simd
