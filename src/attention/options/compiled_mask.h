// What a compiled mask keeps: blocks of its boolean views, and what the last call made of its documents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "qkv/tensor.h"

namespace qkv {

inline namespace attending {
class Documents;
}

// What a boolean mask says of 16 queries and 8 keys at a time: whether some pair of them is visible, and whether every
// one is. Made once from a view, so that kernels need not read the bytes of a block that is all hidden or all visible.
class BooleanBlocks {
 public:
  static constexpr std::int64_t kQueries = 16, kKeys = 8;
  static constexpr std::int64_t kWordKeys = 64 * kKeys;  // that one word of bits tells of

  // Of a bool or u8 view [..., q_len, k_len] or [k_len]; nothing is known where all keys share one element. Stopped if
  // the token asks for it.
  BooleanBlocks(const TensorView& visible, int threads);

  // What such blocks take in memory.
  static std::size_t bytes(const TensorView& visible);

  bool are_known() const { return some_.element_count() > 0; }
  // i64 [..., groups of queries, words]: bit k of a word is that of its k-th block of keys.
  TensorView some() const { return some_; }
  TensorView every() const { return every_; }

 private:
  // That of either; empty where nothing is known.
  static Dims shape(const TensorView& visible);

  Tensor some_, every_;
};

// What the last call made of the documents. Calls may share it across threads.
class KeptDocuments {
 public:
  // nullptr before the first call.
  std::shared_ptr<const attending::Documents> get() const {
    const std::lock_guard lock(mutex_);
    return documents_;
  }
  void set(std::shared_ptr<const attending::Documents> documents) {
    const std::lock_guard lock(mutex_);
    documents_.swap(documents);  // the old ones are freed after the lock
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const attending::Documents> documents_;
};

}  // namespace qkv
