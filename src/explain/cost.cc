// The members of a plan, under the names that plan() has for them.
#include "qkv/explain/cost.h"

#include "explain/cost.h"
#include "explain/left_out_masks.h"

namespace qkv {
inline namespace explaining {

AttentionPlan plan_of(const HeadsCall& call, const Mask& mask, const Bias& bias) {
  const auto without_elements = [&](std::int64_t rows, std::int64_t size) {
    return MutableTensorView(nullptr, call.dtype, {1, call.heads, rows, size});
  };
  static std::byte nowhere{};  // optional outputs are asked for by not being empty
  const MutableTensorView planes(&nowhere, call.dtype, {1, call.heads, call.queries, call.keys});
  return plan(without_elements(call.queries, call.head_dim), without_elements(call.keys, call.head_dim),
              without_elements(call.keys, call.value_dim), {.mask = mask, .bias = bias},
              {.weights = planes, .logits = planes});
}

std::optional<AttentionPlan> plan_of_layer(const Attentions& attentions, const HeadIndex& layer, std::int64_t head_dim,
                                           std::int64_t value_dim) {
  const AttentionSite& site = attentions.sites[layer.site];
  if (!is_dot_product(site.score)) return {};
  const LeftOutMasks masks(attentions);
  const std::span<const Mask> of_layers = masks.of(layer.site);
  Mask mask = of_layers.empty() ? Mask() : of_layers[static_cast<std::size_t>(layer.layer)];
  if (site.causal) mask = mask & Mask::causal(Align::top_left);
  return plan_of({.heads = site.heads,
                  .queries = std::ssize(attentions.sequences[site.queries].tokens),
                  .keys = std::ssize(attentions.sequences[site.keys].tokens),
                  .head_dim = head_dim,
                  .value_dim = value_dim},
                 mask, site.bias ? Bias::table(*site.bias) : Bias());
}

OrderedJson to_object(const AttentionPlan& plan) {
  return {{"kernel", plan.kernel},
          {"target", plan.target},
          {"precision", plan.precision == Precision::reduced ? "reduced" : "exact"},
          {"threads", plan.threads},
          {"block_queries", plan.block_queries},
          {"tile_keys", plan.tile_keys},
          {"chunk_keys", plan.chunk_keys},
          {"tiles", plan.tiles},
          {"skipped_tiles", plan.skipped_tiles},
          {"operations", plan.operations},
          {"bytes", plan.bytes},
          {"workspace", plan.workspace},
          {"remarks", plan.remarks}};
}

OrderedJson to_object(const std::optional<AttentionPlan>& plan) {
  return plan ? to_object(*plan) : OrderedJson(nullptr);
}

}  // namespace explaining

std::string to_json(const AttentionPlan& plan) { return json_text(to_object(plan)); }

}  // namespace qkv
