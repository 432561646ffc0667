// The layers between the embeddings and the logits of a sequence model: recurrent layers, convolutions, or a
// Transformer. No output of any depends on later inputs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lab/layers/recurrent.h"
#include "lab/models/dependencies.h"
#include "qkv/layers/parameter.h"
#include "qkv/layers/sequences.h"
#include "qkv/layers/transformer.h"
#include "qkv/layers/weights.h"

namespace qkv::comparison {

enum class SequenceKind {
  rnn,
  lstm,
  lstm_open,  // the forget gate has a bias of 1 at the start
  gru,
  cnn,
  transformer,
};

// Saved by forward for backward; each body uses its own parts.
struct BodySaved {
  RecurrentSaved recurrent{};
  std::vector<Tensor> between{}, convolved{};  // inputs and products of each convolution
  EncoderSaved encoder{};
};

// A sequence computed token by token.
class BodySteps {
 public:
  virtual ~BodySteps() = default;
  // The rows of the next token, [1, in] -> [1, out].
  virtual Tensor step(const Tensor& row) = 0;
};

class SequenceBody : public Parameterized {
 public:
  // Draws the weights that initial_weights.h has no rule for.
  virtual void draw(std::uint64_t) {}

  virtual std::int64_t out() const = 0;  // size of the rows that come out
  // `saved`: nullptr where no backward pass follows.
  virtual Tensor forward(const Sequences& x, BodySaved* saved) const = 0;
  // Adds to the gradients of the parameters that want them; returns that of x.
  virtual Tensor backward(const Sequences& x, const BodySaved& saved, const Tensor& grad_out) = 0;
  virtual std::unique_ptr<BodySteps> steps() const = 0;

  // Adds what one sequence computes to the graph; returns the last step of each position.
  virtual std::vector<DependencyGraph::Node> connect(DependencyGraph& graph,
                                                     const std::vector<DependencyGraph::Node>& inputs) const = 0;
  // Multiplications and additions of attention alone, in one sequence forward.
  virtual double attention_operations(std::int64_t length) const = 0;
  virtual double attention_step_operations(std::int64_t length) const = 0;  // of a token after so many
};

// `in` is the size of an embedding, `width` what gives the body its size: hidden states, channels, or the inner size of
// the feed-forward layers.
struct BodySize {
  std::int64_t in = 0, width = 0;
};

std::unique_ptr<SequenceBody> make_recurrent_body(SequenceKind kind, const BodySize& size, Weights& weights,
                                                  const std::string& scope);
// Causal convolutions of width 3 and dilations 1, 2, 4 and 8.
std::unique_ptr<SequenceBody> make_convolution_body(const BodySize& size, Weights& weights, const std::string& scope);
// Two pre-norm layers of two heads, with rotary positions.
std::unique_ptr<SequenceBody> make_transformer_body(const BodySize& size, Weights& weights, const std::string& scope);

}  // namespace qkv::comparison
