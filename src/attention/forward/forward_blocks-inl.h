// Runs the blocks of queries of one head on one thread: several interleaved where converted keys do not all fit the
// cache, so that each conversion serves more queries; else one after the other. No bit depends on which. Included
// once per CPU target.

#if defined(QKV_ATTENTION_FORWARD_FORWARD_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QKV_ATTENTION_FORWARD_FORWARD_BLOCKS_INL_H_
#undef QKV_ATTENTION_FORWARD_FORWARD_BLOCKS_INL_H_
#else
#define QKV_ATTENTION_FORWARD_FORWARD_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <optional>

#include "attention/forward/forward_block-inl.h"
#include "attention/forward/forward_part-inl.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::HWY_NAMESPACE {

template <class T, class Product>
class ForwardBlocks {
 public:
  ForwardBlocks(const AttentionTask& task, ScratchRoom scratch)
      : task_(task),
        together_(together(task)),
        product_(task, bytes_of(task, together_), scratch.take_bytes(Product::bytes(task, bytes_of(task, together_)))),
        weights_(scratch.take<T>(ForwardScratch<T, kTileVectors, Product>(task).weights)),
        own_(scratch) {}

  // For tasks with at most so many queries and keys.
  static ForwardPlan plan(const AttentionTask& task) {
    const int most = together(task);
    return {.blocks = kBlocks,
            .tile_keys = kTileRows,
            .blocks_together = most,
            .scratch_bytes = std::max(scratch_bytes(task, 1), scratch_bytes(task, most)),
            .part_bytes = ForwardPart<T, kTileVectors>::bytes(task)};
  }

  static void merge(const AttentionTask& task, std::int64_t queries, std::byte* part, const std::byte* next) {
    with_vectors<T>(queries, [&]<int kVectors>() { ForwardPart<T, kVectors>::merge(task, part, next); });
  }

  void run(std::int64_t begin, std::int64_t end, const QueryBlock& next, const KeyPart& keys) {
    // Sums are of whole blocks, whichever of them one thread has together.
    const QueryBlocks blocks{kColumns, wants_sums(task_) ? 0 : kBlocks.rest};
    while (begin < end) {
      std::int64_t full = 0, present = begin;
      while (full < together_ && blocks.end_of(present, end) == present + kColumns) ++full, present += kColumns;
      if (full == 0) present = blocks.end_of(begin, end);
      const QueryBlock then = present < end ? QueryBlock{&task_, present, std::min(end, present + kColumns)} : next;
      if (full > 1) {
        run_together(begin, full, then);
      } else {
        with_vectors<T>(present - begin, [&]<int kVectors>() { run_one<kVectors>(begin, present, then, keys); });
      }
      begin = present;
    }
  }

 private:
  static constexpr std::int64_t kColumns = kTileColumns<T>;
  // A tile of four rows and one vector has too few sums for a core to be busy.
  static constexpr QueryBlocks kBlocks{kColumns, kTileRows == 4 && sizeof(T) == 4 ? kLanes<T> : 0};
  static constexpr int kMostTogether = 4;
  static constexpr std::size_t kMostBytes = 640 * 1024;  // of blocks in turns

  static std::size_t bytes_of(const AttentionTask& task, int blocks) {
    const ForwardScratch<T, kTileVectors, Product> sizes(task);
    return static_cast<std::size_t>(sizes.weights + blocks * sizes.of_block()) * sizeof(T);
  }

  static std::size_t scratch_bytes(const AttentionTask& task, int blocks) {
    const std::size_t own = bytes_of(task, blocks);
    return Product::bytes(task, own) + own;
  }

  static int together(const AttentionTask& task) {
    if (task.q_len < 2 * kColumns || Product::keys_held(task, bytes_of(task, 1)) >= task.k_len) return 1;
    int blocks = kMostTogether;
    while (blocks > 1 && bytes_of(task, blocks) > kMostBytes) blocks /= 2;
    return blocks;
  }

  template <int kVectors>
  void run_one(std::int64_t begin, std::int64_t end, const QueryBlock& next, const KeyPart& keys) {
    ScratchRoom own = own_;
    ForwardBlock<T, kVectors, Product> block(task_, begin, end, product_, weights_, own);
    if (next.task != nullptr) block.announce(next);
    if (keys.from != nullptr) block.load(keys.from);
    block.attend(keys.first, std::min(keys.last, task_.k_len));
    keys.to != nullptr ? block.store(keys.to) : block.finish();
  }

  void run_together(std::int64_t begin, std::int64_t count, const QueryBlock& next) {
    ScratchRoom own = own_;
    std::optional<ForwardBlock<T, kTileVectors, Product>> blocks[kMostTogether];
    for (std::int64_t b = 0; b < count; ++b, begin += kColumns) {
      blocks[b].emplace(task_, begin, begin + kColumns, product_, weights_, own);
    }
    if (next.task != nullptr) blocks[count - 1]->announce(next);
    const std::int64_t keys = Product::keys_held(task_, bytes_of(task_, together_));
    for (std::int64_t first = 0; first < task_.k_len; first += keys) {
      for (std::int64_t b = 0; b < count; ++b) blocks[b]->attend(first, first + keys);
    }
    for (std::int64_t b = 0; b < count; ++b) blocks[b]->finish();
  }

  const AttentionTask& task_;
  const int together_;
  const Product product_;
  T* weights_;
  const ScratchRoom own_;  // what each block has for itself
};

}  // namespace qkv::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
