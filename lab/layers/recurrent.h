// Recurrent layers one above the other, in one or both directions, as torch.nn.RNN, LSTM and GRU: forward, and backward
// through time. The formulas are in qkv/recurrent_cell.h.
//
//   Recurrent lstm({.cell = RecurrentCell::lstm, .in = 64, .hidden = 256, .directions = 2}, weights, "encoder.");
//   RecurrentOutput result = lstm.forward({rows, offsets});     // nothing is padded
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/layers/recurrent_cell.h"
#include "qkv/attention/dropout.h"
#include "qkv/layers/packed_parameter.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/weights.h"

namespace qkv {

struct RecurrentConfig {
  RecurrentCell cell = RecurrentCell::lstm;
  std::int64_t in = 0;
  std::int64_t hidden = 0;
  int layers = 1;
  int directions = 1;  // 2: a second one from the end of each sequence to its start
  bool bias = true;
};

// States of every layer and direction, in torch's order: [layers * directions, batch, hidden].
template <class View>
struct RecurrentStates {
  View hidden{};
  View cell{};  // LSTM only
};

struct RecurrentOutput {
  Tensor out{};                      // [..., directions * hidden], in the rows of the input
  RecurrentStates<Tensor> states{};  // after the last step of each sequence, in its direction
};

// Saved by forward for backward.
struct RecurrentSaved {
  struct Direction {
    Tensor gates{};  // [tokens, gates * hidden], after their functions; none for rnn
    Tensor kept{};   // [tokens, hidden]; lstm: c'; gru: W_hn h + b_hn
  };
  std::vector<Direction> directions{};  // layer by layer
  std::vector<Tensor> out{};            // of each layer, before dropout
};

// Gradients of what forward returned; a state's may be left out: zero.
struct RecurrentGradientsIn {
  TensorView out{};
  RecurrentStates<TensorView> states{};
};

// Outputs that are added to; one that is not given is not wanted.
struct RecurrentGradientsOut {
  MutableTensorView x{};
  RecurrentStates<MutableTensorView> initial{};
};

// Safe for concurrent forward(); only update() and backward() modify it. The states and outputs of a sequence have the
// same bits for any other sequences in the batch and any number of threads.
class Recurrent : public Parameterized {
 public:
  // Takes, for every layer L, weight_ih_lL [gates * hidden, in of the layer], weight_hh_lL [gates * hidden, hidden],
  // bias_ih_lL and bias_hh_lL [gates * hidden], and for the second direction the same with _reverse behind the name.
  Recurrent(const RecurrentConfig& config, Weights& weights, const std::string& scope = "");

  // x [batch, length, in], [length, in] or ragged. An initial state that is not given is zero; a sequence of length 0
  // ends in its initial state. std::invalid_argument if shapes or types do not fit.
  RecurrentOutput forward(const Sequences& x, const RecurrentStates<TensorView>& initial = {}, int threads = 0) const;

  // The same for training: dropout applies to the output of every layer but the last. What is dropped depends on the
  // seed, the layer, the number of the sequence in the batch, the step and the element.
  RecurrentOutput forward(const Sequences& x, const RecurrentStates<TensorView>& initial, const Dropout& dropout,
                          RecurrentSaved& saved, int threads = 0) const;
  // With the same input, initial states and dropout: adds to the gradients of the parameters that want them, and to
  // `to`.
  void backward(const Sequences& x, const RecurrentStates<TensorView>& initial, const Dropout& dropout,
                const RecurrentSaved& saved, const RecurrentGradientsIn& from, const RecurrentGradientsOut& to = {},
                int threads = 0);

  const RecurrentConfig& config() const { return config_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;

  struct Direction {
    PackedParameter weight_ih, weight_hh;
    Parameter bias_ih, bias_hh;
  };

  RecurrentOutput run(const Sequences& x, const RecurrentStates<TensorView>& initial, const Dropout& dropout,
                      RecurrentSaved* saved, int threads) const;
  // The index of a layer and a direction.
  std::size_t index(int layer, int direction) const {
    return static_cast<std::size_t>(layer * config_.directions + direction);
  }

  std::string name_;
  RecurrentConfig config_;
  std::vector<Direction> directions_;  // layer by layer
};

// Draws all weights and biases of a recurrent layer as torch does, uniform within 1/sqrt(hidden), and adds
// `forget_bias` to those of an LSTM's forget gate: 1 keeps gradients longer. Source: Gers, Schmidhuber, Cummins,
// "Learning to forget" (2000); Jozefowicz, Zaremba, Sutskever (2015).
void draw_recurrent(Recurrent& layer, std::uint64_t seed, double forget_bias = 0);

}  // namespace qkv
