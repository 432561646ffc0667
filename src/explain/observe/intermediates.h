// Every intermediate of one self-attention, computed by the production kernels, with or without substitutions; and what
// their calls cost.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "qkv/attention/attention_plan.h"
#include "qkv/explain/explain.h"
#include "qkv/explain/explain_model.h"
#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

struct Intermediates {
  Tensor inputs;    // [n, dim]
  Tensor embedded;  // [n, size]; equal to inputs without w_embed
  Tensor query, key, value;
  Tensor scores;  // [n, n], before the scale
  Tensor logits;  // [n, n], scale * scores, -infinity where masked
  Tensor log_sum_exp;
  Tensor weights;
  Tensor output;
  double scale = 1;
  double one_at_a_time_difference = 0;  // projections: one vector at a time against one product
  double reference_difference = 0;      // kernel against src/reference
  std::optional<AttentionPlan> cost{};  // of the call; none: weights were put in
};

// std::invalid_argument if shapes do not fit.
Intermediates compute_intermediates(const ExplainInput& input, const std::map<std::string, Tensor>& substitutes);

// The look-ahead mask and the boolean one over n inputs, with the elements that the latter borrows.
struct OwnedMask {
  Tensor visible, prefix;
  Mask mask;
};
OwnedMask mask_of(const ExplainInput& input, std::int64_t n);

// The names that can be substituted, in the order of computation.
std::vector<std::string> intermediate_names(const ExplainInput& input);

// Whether a tensor of ExplainInput was given.
bool given(const Tensor& tensor);

// std::invalid_argument unless every matrix given is a matrix, in f64, with at least one element.
void check_matrices(const ExplainInput& input);

// One vector [n] times a matrix [n, m], plus `bias` if given: scaled rows of the matrix, added up one after the other.
std::vector<double> project_one(const TensorView& vector, const Tensor& matrix, const Tensor& bias);

// Largest difference between two tensors of equal element count; equal infinities agree. NaN if one holds NaN.
double largest_difference(const Tensor& a, const Tensor& b);

// The larger one; NaN if one is NaN.
double larger(double a, double b);

// A call by a layer of a model: a sequence of queries [heads, queries, head_dim] and its keys.
struct HeadsCall {
  std::int64_t heads = 0, kv_heads = 0, queries = 0, keys = 0;
  std::int64_t head_dim = 0, value_dim = 0;
  double soft_cap = 0;
  Dtype dtype = Dtype::f32;
};

// The plan of the call that also writes weights and logits, for an observer.
AttentionPlan plan_of(const HeadsCall& call, const Mask& mask, const Bias& bias = {});

// The plan of a model's layer; none: its scores are not dot products.
std::optional<AttentionPlan> plan_of_layer(const Attentions& attentions, const HeadIndex& layer, std::int64_t head_dim,
                                           std::int64_t value_dim);

// The part of a head's trace that is derived from what the kernel computed, its scale and its cap.
void complete(HeadTrace& trace);

// The kind of a head, by its weights.
HeadSummary summary_of(const TensorView& weights, const Attentions& attentions, std::size_t site);

}  // namespace qkv::inline explaining
