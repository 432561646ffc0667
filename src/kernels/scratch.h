// Memory for one thread's tiles.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace qkv {

// Allocated at first use, aligned to 64 bytes, kept until destruction. Its first kFreshBytes, if there are as many, are
// 0 then: what is kept there from one use to the next begins empty.
class Scratch {
 public:
  static constexpr std::size_t kFreshBytes = 512;
  static constexpr std::size_t kMostBytes = 1 << 20;  // of a thread of attention's, where it has a choice

  std::byte* get(std::size_t bytes) {
    if (!data_) {
      data_.reset(static_cast<std::byte*>(::operator new[](bytes, kAlignment)));
      std::memset(data_.get(), 0, std::min(bytes, kFreshBytes));
    }
    return data_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::byte* data) const { ::operator delete[](data, kAlignment); }
  };
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace qkv
