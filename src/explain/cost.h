// The plan of an explained call, and its JSON.
#pragma once

#include <cstdint>
#include <optional>

#include "explain/json_object.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

// What a layer of a model calls: a sequence of queries [heads, queries, head_dim] and its keys.
struct HeadsCall {
  std::int64_t heads = 0, queries = 0, keys = 0;
  std::int64_t head_dim = 0, value_dim = 0;
  Dtype dtype = Dtype::f32;
};

// Of the call that also writes weights and logits, as an observer asks for.
AttentionPlan plan_of(const HeadsCall& call, const Mask& mask, const Bias& bias = {});

// Of a layer of a model; none: its scores are no dot products.
std::optional<AttentionPlan> plan_of_layer(const Attentions& attentions, const HeadIndex& layer, std::int64_t head_dim,
                                           std::int64_t value_dim);

OrderedJson to_object(const AttentionPlan& plan);
OrderedJson to_object(const std::optional<AttentionPlan>& plan);  // null: there is none

}  // namespace qkv::inline explaining
