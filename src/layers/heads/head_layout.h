// Where the projections of multi-head attention are among its parameters, in each scheme.
#pragma once

#include <string>
#include <vector>

#include "qkv/layers/multi_head_attention.h"

namespace qkv {

inline constexpr const char* kRoles[] = {"query", "key", "value"};

// What one projection has of a parameter.
struct ParameterShare {
  std::size_t parameter = 0;
  std::int64_t begin = 0, end = 0;  // of its first dimension
  std::size_t first_part = 0;       // of its matrices
};

// Of the projection of queries, keys or values. Those that the scheme lacks are not there.
struct ProjectionLayout {
  std::optional<ParameterShare> weight, bias, shared_weight, shared_bias;
};

struct HeadLayout {
  struct Entry {
    std::string name;
    Dims shape;
    std::vector<std::int64_t> part_rows;  // as in packed_parameter.h
  };
  // All but those of the output projection, in their order.
  std::vector<Entry> entries;
  ProjectionLayout roles[3];
  std::optional<std::size_t> bias_k, bias_v;
};

// Every 0 replaced by its default. std::invalid_argument for what does not fit together.
MultiHeadAttentionConfig checked_config(MultiHeadAttentionConfig config);

// Of a checked config.
HeadLayout head_layout(const MultiHeadAttentionConfig& config);

// Of a role (0 to 2): its heads, whether its projection has a bias, and the size of its inputs.
std::int64_t heads_of(const MultiHeadAttentionConfig& config, int role);
bool has_bias(const MultiHeadAttentionConfig& config, int role);
std::int64_t input_dim(const MultiHeadAttentionConfig& config, int role);

}  // namespace qkv
