// Document masks after they were checked: for each query, the keys from the first to the last of its document; and the
// number of each one's document, for sequences in which the keys of a document are scattered.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "attention/call/attention_inputs.h"
#include "attention/call/memory_count.h"
#include "attention/tile/attention_task.h"
#include "core/kept_memory.h"
#include "qkv/attention/mask.h"

namespace qkv::inline attending {

class Documents {
 public:
  // Those of the mask, or nullptr if it has none: what a compiled mask kept of a call of the same sizes, or made anew.
  // std::invalid_argument, naming sizes, for ids that do not fit the inputs.
  static std::shared_ptr<const Documents> of(const AttentionInputs& inputs, const Mask& mask, MemoryCount& memory);

  // The documents of sequence b.
  void set(AttentionTask& task, std::int64_t b) const;

 private:
  // What ids must broadcast to, and where each sequence begins in it (and the last ends).
  struct Sizes {
    explicit Sizes(const AttentionInputs& inputs);
    bool operator==(const Sizes&) const = default;
    std::size_t bytes() const { return 2 * (query_starts.size() + 1) * sizeof(std::int64_t); }

    std::vector<std::int64_t> query_starts, key_starts;
    Dims query, key;
  };
  // One document per query and key of all sequences, equal where those of all masks are.
  struct Ids {
    KeptVector<std::int64_t> query, key;
  };

  // O(tokens) memory.
  Documents(Sizes sizes, const Mask& mask, MemoryCount& memory);
  void compile(const Ids& ids, std::int64_t b, MemoryCount& memory);

  Sizes sizes_;
  KeptVector<KeyRange> keys_;  // per query
  KeptVector<std::int32_t> query_numbers_, key_numbers_;
  std::vector<bool> scattered_;  // per sequence
};

}  // namespace qkv::inline attending
