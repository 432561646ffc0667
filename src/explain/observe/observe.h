// A run of an input with a function for its observer, and what its sublayers pass on: shapes and lengths of their
// vectors.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "qkv/explain/explain_model.h"
#include "qkv/explain/explainable.h"

namespace qkv::inline explaining {

using Receiver = std::function<void(std::string_view, const TensorView&)>;

inline void observe(const Explainable& input, const Receiver& receive) {
  struct Caller : Observer {
    explicit Caller(const Receiver& f) : function(f) {}
    void receive(std::string_view name, const TensorView& value) override { function(name, value); }
    const Receiver& function;
  } caller(receive);
  input.run(caller);
}

// Intermediates of an attention layer, as an observer saw them.
struct SeenLayer {
  Tensor value{}, out_weight{};  // the latter where the outputs of heads are projected
  std::int64_t head_dim = 0;     // of queries and keys
  TensorView weights{};
};

// Calls f(site, layer, SeenLayer) for every layer of every attention, in the order of computation; and each(name,
// value) for whatever passes, if it is given.
template <class Function>
void observe_layers(const Explainable& input, const Function& f, const Receiver& each = {}) {
  const std::vector<AttentionSite>& sites = input.attentions().sites;
  std::vector<std::int64_t> layers(sites.size());  // that were seen
  SeenLayer seen;
  observe(input, [&](std::string_view name, const TensorView& value) {
    if (each) each(name, value);
    for (std::size_t s = 0; s < sites.size(); ++s) {
      const std::string scope = sites[s].scope(layers[s]);
      if (!name.starts_with(scope)) continue;
      const std::string_view part = name.substr(scope.size());
      if (part == "out_weight") seen.out_weight = Tensor::copy(value);
      if (part == "query") seen.head_dim = value.size(-1);
      if (part == "value") seen.value = Tensor::copy(value);
      if (part != "weights") continue;
      seen.weights = value;
      f(s, layers[s]++, seen);
      break;
    }
  });
}

// One head's part of an intermediate, [tokens, heads, size], as f64.
inline Tensor part_of(const TensorView& value, std::int64_t head) { return convert(value.select(1, head), Dtype::f64); }

// The part of a model whose output an observer receives under this name: "embedding", "positions", "attention",
// "feed_forward", "norm" or "recurrent"; "" for what is no vector for each token.
std::string_view part_of_model(std::string_view name);

// Adds an output, [tokens, size], of one of these sequences; nothing else.
void add_sublayer(std::vector<SublayerVectors>& sublayers, const std::vector<AttentionSequence>& sequences,
                  std::string_view name, const TensorView& value);

}  // namespace qkv::inline explaining
