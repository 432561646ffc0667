// A sequence model's body of Transformer layers that see no later position.
#include "lab/models/sequence_body.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kHeads = 2, kLayers = 2;

MultiHeadAttentionOptions causal() { return {.mask = Mask::causal()}; }

class TransformerSteps : public BodySteps {
 public:
  explicit TransformerSteps(const Encoder& encoder) : encoder_(encoder), cache_(encoder.make_cache(1)) {}

  Tensor step(const Tensor& row) override {
    const Tensor out = encoder_.forward(row.view().reshape({1, 1, row.size(1)}), cache_);
    return Tensor::copy(out.view().reshape(row.shape()));
  }

 private:
  const Encoder& encoder_;
  StackCache cache_;
};

class TransformerBody : public SequenceBody {
 public:
  TransformerBody(const BodySize& size, Weights& weights, const std::string& scope)
      : dim_(size.in),
        encoder_({.layer = {.model_dim = size.in,
                            .heads = kHeads,
                            .ff_dim = size.width,
                            .norm_order = NormOrder::pre,
                            .rotary = RotaryConfig()},
                  .layers = kLayers},
                 weights, scope) {}

  std::int64_t out() const override { return dim_; }
  Tensor forward(const Sequences& x, BodySaved* saved) const override {
    return saved == nullptr ? encoder_.forward(x, causal()) : encoder_.forward(x, causal(), {}, saved->encoder);
  }
  Tensor backward(const Sequences& x, const BodySaved& saved, const Tensor& grad_out) override {
    return encoder_.backward(x, causal(), {}, saved.encoder, grad_out);
  }
  std::unique_ptr<BodySteps> steps() const override { return std::make_unique<TransformerSteps>(encoder_); }

  // Two steps per layer: attention and feed-forward, including norms and sums.
  std::vector<DependencyGraph::Node> connect(DependencyGraph& graph,
                                             const std::vector<DependencyGraph::Node>& inputs) const override {
    std::vector<DependencyGraph::Node> nodes = inputs;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      std::vector<DependencyGraph::Node> next;
      for (std::size_t t = 0; t < nodes.size(); ++t) {
        const auto end = nodes.begin() + static_cast<std::ptrdiff_t>(t) + 1;
        next.push_back(graph.add_step({graph.add_step({nodes.begin(), end})}));
      }
      nodes = std::move(next);
    }
    return nodes;
  }
  double attention_operations(std::int64_t length) const override { return operations(length * (length + 1) / 2); }
  double attention_step_operations(std::int64_t length) const override { return operations(length + 1); }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(encoder_, scope); }
  // Per pair of a query and a key: each number of the key, and each of the value, is multiplied and added.
  double operations(std::int64_t pairs) const { return static_cast<double>(kLayers * 2 * 2 * dim_ * pairs); }

  std::int64_t dim_;
  Encoder encoder_;
};

}  // namespace

std::unique_ptr<SequenceBody> make_transformer_body(const BodySize& size, Weights& weights, const std::string& scope) {
  return std::make_unique<TransformerBody>(size, weights, scope);
}

}  // namespace qkv::comparison
