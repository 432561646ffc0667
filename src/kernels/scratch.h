// Memory for one thread's tiles.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace qkv {

// Allocated at first use, aligned to 64 bytes, kept until destruction.
class Scratch {
 public:
  std::byte* get(std::size_t bytes) {
    if (!data_) data_.reset(static_cast<std::byte*>(::operator new[](bytes, kAlignment)));
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
