// Document masks after they were checked: for each query, the keys from the first to the last of its document; and the
// number of each one's document, for sequences in which the keys of a document are scattered.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/call/attention_inputs.h"
#include "attention/call/memory_count.h"
#include "attention/tile/attention_task.h"
#include "core/kept_vector.h"
#include "qkv/attention/mask.h"

namespace qkv::inline attending {

class Documents {
 public:
  Documents() = default;
  // std::invalid_argument, naming sizes, for ids that do not fit the inputs. O(tokens) memory.
  Documents(const AttentionInputs& inputs, const std::vector<Mask::DocumentIds>& masks, MemoryCount& memory);

  // The documents of sequence b.
  void set(AttentionTask& task, std::int64_t b) const;

 private:
  // One document per query and key of all sequences, equal where those of all masks are.
  struct Ids {
    KeptVector<std::int64_t> query, key;
  };
  void compile(const Ids& ids, std::int64_t b, MemoryCount& memory);

  std::vector<std::int64_t> query_starts_, key_starts_;  // where each sequence begins in the vectors below
  KeptVector<KeyRange> keys_;                            // per query; empty: no documents
  KeptVector<std::int32_t> query_numbers_, key_numbers_;
  std::vector<bool> scattered_;  // per sequence
};

}  // namespace qkv::inline attending
