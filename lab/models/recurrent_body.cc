// A sequence model's body of one recurrent layer.
#include <utility>

#include "lab/models/sequence_body.h"
#include "qkv/layers/initial_weights.h"

namespace qkv::comparison {
namespace {

RecurrentCell cell_of(SequenceKind kind) {
  if (kind == SequenceKind::rnn) return RecurrentCell::rnn_tanh;
  return kind == SequenceKind::gru ? RecurrentCell::gru : RecurrentCell::lstm;
}

class RecurrentSteps : public BodySteps {
 public:
  explicit RecurrentSteps(const Recurrent& layer) : layer_(layer) {}

  Tensor step(const Tensor& row) override {
    RecurrentStates<TensorView> initial;
    if (states_.hidden.element_count() > 0) initial.hidden = states_.hidden;
    if (states_.cell.element_count() > 0) initial.cell = states_.cell;
    RecurrentOutput output = layer_.forward(row, initial);
    states_ = std::move(output.states);
    return std::move(output.out);
  }

 private:
  const Recurrent& layer_;
  RecurrentStates<Tensor> states_{};
};

class RecurrentBody : public SequenceBody {
 public:
  RecurrentBody(SequenceKind kind, const BodySize& size, Weights& weights, const std::string& scope)
      : kind_(kind), layer_({.cell = cell_of(kind), .in = size.in, .hidden = size.width}, weights, scope) {}

  void draw(std::uint64_t seed) override { draw_recurrent(layer_, seed, kind_ == SequenceKind::lstm_open ? 1 : 0); }

  std::int64_t out() const override { return layer_.config().hidden; }
  Tensor forward(const Sequences& x, BodySaved* saved) const override {
    return (saved == nullptr ? layer_.forward(x) : layer_.forward(x, {}, {}, saved->recurrent)).out;
  }
  Tensor backward(const Sequences& x, const BodySaved& saved, const Tensor& grad_out) override {
    Tensor grad = Tensor::zeros(x.rows.shape(), grad_out.dtype());
    layer_.backward(x, {}, {}, saved.recurrent, {.out = grad_out}, {.x = grad});
    return grad;
  }
  std::unique_ptr<BodySteps> steps() const override { return std::make_unique<RecurrentSteps>(layer_); }

  std::vector<DependencyGraph::Node> connect(DependencyGraph& graph,
                                             const std::vector<DependencyGraph::Node>& inputs) const override {
    std::vector<DependencyGraph::Node> nodes = inputs;
    for (int layer = 0; layer < layer_.config().layers; ++layer) {
      for (std::size_t t = 0; t < nodes.size(); ++t) {
        nodes[t] = t == 0 ? graph.add_step({nodes[t]}) : graph.add_step({nodes[t], nodes[t - 1]});
      }
    }
    return nodes;
  }
  double attention_operations(std::int64_t) const override { return 0; }
  double attention_step_operations(std::int64_t) const override { return 0; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override { walk(layer_, scope); }

  SequenceKind kind_;
  Recurrent layer_;
};

}  // namespace

std::unique_ptr<SequenceBody> make_recurrent_body(SequenceKind kind, const BodySize& size, Weights& weights,
                                                  const std::string& scope) {
  return std::make_unique<RecurrentBody>(kind, size, weights, scope);
}

}  // namespace qkv::comparison
