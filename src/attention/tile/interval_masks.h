// The masks that leave each query an interval of keys: causal, window, chunks, prefix, lengths and documents. Every
// pass and plan() ask here; what hides single pairs inside an interval is in element_masks-inl.h.
#pragma once

#include <algorithm>

#include "attention/tile/attention_task.h"

namespace qkv::inline attending {

// What causal, window, chunks, prefix, length and documents leave for the query in row i.
inline KeyRange keys_of_query(const AttentionTask& task, std::int64_t i) {
  const std::int64_t query = query_of_row(task, i);
  const std::int64_t position = query + task.offset;
  std::int64_t begin = 0, end = std::clamp<std::int64_t>(task.length, 0, task.k_len);
  end = std::min(end, std::max(task.prefix, position + 1));
  if (task.document_keys != nullptr) {
    end = std::min(end, task.document_keys[query].last);
    begin = std::min(end, task.document_keys[query].first);
  }
  KeyRange near{position - task.common->left, position + task.common->right + 1};
  for (const std::int64_t size : task.common->chunks) {
    const std::int64_t place = position % size, chunk = position - (place < 0 ? place + size : place);
    near = {std::max(near.first, chunk), std::min(near.last, chunk + size)};
  }
  const std::int64_t first = std::clamp(near.first, begin, end);
  return {first, std::max(first, std::clamp(near.last, begin, end))};
}

// From the first to the last key that one of the queries begin <= i < end sees.
inline KeyRange keys_of_queries(const AttentionTask& task, std::int64_t begin, std::int64_t end) {
  KeyRange range{task.k_len, 0};
  for (std::int64_t i = begin; i < end; ++i) {
    const KeyRange keys = keys_of_query(task, i);
    if (keys.first == keys.last) continue;
    range = {std::min(range.first, keys.first), std::max(range.last, keys.last)};
  }
  return {std::min(range.first, range.last), range.last};
}

}  // namespace qkv::inline attending
