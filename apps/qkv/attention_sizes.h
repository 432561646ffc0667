// The sizes of a call of attention on the command line, for commands that generate its arrays or need none.
#pragma once

#include <optional>

#include "options.h"

namespace qkv::app {

struct AttentionSizes {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t q_len = 0;
  std::int64_t k_len = 0;
  std::int64_t head_dim = 64;
  std::int64_t value_dim = 0;  // 0: head_dim
  std::optional<Align> causal{};
  std::optional<Dtype> dtype{};
  Precision precision = Precision::exact;

  // To call once the command line is read: the defaults put in. UsageError if kv_heads do not divide heads.
  void complete();

  Dims query() const { return {batch, heads, q_len, head_dim}; }
  Dims key() const { return {batch, kv_heads, k_len, head_dim}; }
  Dims value() const { return {batch, kv_heads, k_len, value_dim}; }
  Dims out() const { return {batch, heads, q_len, value_dim}; }
};

// --batch, --heads, ..., --causal, --dtype, --precision and --threads.
std::vector<Option> size_options(AttentionSizes& sizes);

}  // namespace qkv::app
