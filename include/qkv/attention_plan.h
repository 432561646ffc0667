// What a call of attention() would do, before anything runs. Decided by the code that attention() itself follows.
//
//   AttentionPlan p = plan(q, k, v, {.mask = Mask::causal(), .threads = 8});
//
// Views need no elements, only types, shapes and strides; the arrays of masks are read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "qkv/attention.h"

namespace qkv {

struct AttentionPlan {
  std::string kernel;  // "prefill", "decode", "prefill and decode", or "none" where there is nothing to do
  std::string target;  // of CPU instructions
  Precision precision = Precision::exact;  // that several queries of a sequence are multiplied in
  int threads = 1;                         // that have something to do
  std::int64_t workspace = 0;              // bytes for tiles and partial results, of all threads together

  // Prefill: tiles of block_queries x tile_keys pairs; decode: one query and up to chunk_keys keys.
  std::int64_t block_queries = 0, tile_keys = 0, chunk_keys = 0;
  std::int64_t tiles = 0;  // of all heads
  // Of these: never computed, because no query sees a key in them. Boolean masks tell by 16 queries and 8 keys at a
  // time; documents whose keys are scattered, and functions, skip more than is counted.
  std::int64_t skipped_tiles = 0;

  double operations = 0;  // multiplications and additions of the two products, in the tiles that are computed
  double bytes = 0;       // of q, k, v and out, each once

  std::vector<std::string> remarks{};  // why this is not the fastest path there is; a line each
};

// std::invalid_argument for what attention() would refuse.
AttentionPlan plan(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options = {},
                   const AttentionExtras& extras = {});

}  // namespace qkv
