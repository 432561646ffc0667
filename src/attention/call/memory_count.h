// What a call allocates besides its inputs and outputs. What is made of masks, tables and offsets is counted where it
// is made, before that, so that a limit is kept; what threads take by the schedule of each pass, which chooses them;
// and tensors by the arena that they come from, of which plan() makes a dry run. Lists of views, a few bytes each, are
// not counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attention/call/view_checks.h"

namespace qkv::inline attending {

// The memory limit of a call is too low for one thread.
struct MemoryLimitError : Refusal {
  using Refusal::Refusal;
};

class MemoryCount {
 public:
  // What a thread takes at most beside tiles and sums: copies of tasks, and lists of a few entries.
  static constexpr std::size_t kSmallBytes = 4096;

  MemoryCount() = default;
  // 0: no limit. std::invalid_argument below 0.
  explicit MemoryCount(std::int64_t limit) : limit_(static_cast<std::size_t>(limit)) {
    if (limit < 0) fail("memory_limit must be 0 (none) or more bytes, got {}", limit);
  }

  // Bytes that are kept until the call ends, and bytes that are needed for a while beside those kept so far.
  // MemoryLimitError if the limit does not allow them.
  void keep(std::size_t bytes) {
    kept_ += bytes;
    borrow(0);
  }
  void borrow(std::size_t bytes) {
    most_ = most_with(bytes);
    if (exceeds(most_)) refuse(most_);
  }

  // What another count has, beside those kept so far.
  void keep(const MemoryCount& other) {
    borrow(other.most_);
    keep(other.kept_);
  }

  std::size_t kept() const { return kept_; }

  // The most at a time of a call that takes so many bytes beside those kept.
  std::size_t most_with(std::size_t bytes) const { return std::max(most_, kept_ + bytes); }

  // As many of the threads as keep the limit, where workspace(n) are the bytes of n of them. MemoryLimitError if one
  // thread needs more.
  template <class Workspace>
  int threads_within(int threads, const Workspace& workspace) const {
    while (threads > 1 && exceeds(most_with(workspace(threads)))) --threads;
    if (exceeds(most_with(workspace(threads)))) refuse(most_with(workspace(threads)));
    return threads;
  }

 protected:
  void keep_only(std::size_t bytes) { kept_ = bytes; }

 private:
  bool exceeds(std::size_t bytes) const { return limit_ > 0 && bytes > limit_; }
  [[noreturn]] void refuse(std::size_t bytes) const {
    throw MemoryLimitError(
        "attention",
        fmt::format("one thread needs {} bytes besides inputs and outputs, memory_limit is {}", bytes, limit_));
  }

  std::size_t limit_ = 0, kept_ = 0, most_ = 0;
};

// Tensors of a pass. A dry run counts them and takes none: whoever works on them asks is_dry() first.
class Arena : public MemoryCount {
 public:
  // Beside what was made of the arguments.
  explicit Arena(const MemoryCount& arguments) : MemoryCount(arguments) {}
  static Arena dry(const MemoryCount& arguments) {
    Arena arena(arguments);
    arena.is_dry_ = true;
    return arena;
  }
  bool is_dry() const { return is_dry_; }

  // Uninitialized. MemoryLimitError if the limit does not allow it.
  MutableTensorView take(const Dims& shape, Dtype dtype) {
    keep(static_cast<std::size_t>(element_count(shape)) * size_of(dtype));
    if (is_dry_) return {unallocated(), dtype, shape};
    return tensors_.emplace_back(Tensor::uninitialized(shape, dtype));
  }
  MutableTensorView copy(const TensorView& view, Dtype dtype) {
    const MutableTensorView to = take(view.shape(), dtype);
    if (!is_dry_) convert(view, to);
    return to;
  }

  // What is taken during its life ends with it.
  class Frame {
   public:
    explicit Frame(Arena& arena) : arena_(arena), kept_(arena.kept()), tensors_(arena.tensors_.size()) {}
    ~Frame() {
      arena_.keep_only(kept_);
      arena_.tensors_.resize(tensors_);
    }
    Frame(const Frame&) = delete;

   private:
    Arena& arena_;
    const std::size_t kept_, tensors_;
  };

 private:
  bool is_dry_ = false;
  std::vector<Tensor> tensors_{};
};

}  // namespace qkv::inline attending
