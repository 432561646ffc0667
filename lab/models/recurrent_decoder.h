// The decoder of a recurrent encoder-decoder: steps, attention to the memory before or after each, and what is read out
// of both.
#pragma once

#include <optional>
#include <vector>

#include "lab/layers/recurrent.h"
#include "lab/layers/scored_attention.h"
#include "lab/models/recurrent_encoder_decoder.h"
#include "qkv/attention/dropout.h"
#include "qkv/layers/linear.h"

namespace qkv::inline models {

// The encoder's outputs, and the initial states of the decoder.
struct RecurrentMemory {
  Tensor rows{}, offsets{};
  RecurrentStates<Tensor> states{};  // [layers, batch, model_dim]
  Mask mask{};                       // of the attention to its rows
};

class RecurrentDecoder : public Parameterized {
 public:
  struct Step {
    Tensor offsets{}, query{}, in{};
    RecurrentStates<Tensor> before{};
    ScoredAttentionSaved attention{};
    RecurrentSaved recurrent{};
  };
  // Saved by a forward pass.
  struct Saved {
    Tensor states{};            // [tokens, model_dim]
    Tensor joined{};            // [tokens, 2 * model_dim]: states and contexts
    Tensor read{};              // [tokens, model_dim]: what is read out of them
    std::vector<Step> steps{};  // of all sequences together, if attention comes before the step
    RecurrentSaved recurrent{};
    ScoredAttentionSaved attention{};
  };
  struct Gradients {
    Tensor target{};  // of the target rows
    Tensor memory{};  // of the memory's rows
    RecurrentStates<Tensor> states{};
  };

  RecurrentDecoder(const RecurrentEncoderDecoderConfig& config, Weights& weights);

  // Ragged target rows [tokens, model_dim] -> what is projected to the vocabulary, of the same shape. The observer
  // receives what seq2seq.h names.
  Tensor forward(const Sequences& target, const RecurrentMemory& memory, const Dropout& dropout, Saved& saved,
                 int threads, Observer* observer = nullptr) const;
  // With the same input; grad_out is used up. The observer receives decoder.attention.0.heads_gradient, of the
  // contexts.
  Gradients backward(const Sequences& target, const RecurrentMemory& memory, const Dropout& dropout, const Saved& saved,
                     Tensor& grad_out, Observer* observer = nullptr);

  // One more token of each row [rows, model_dim], whose states go on; `offsets` say which rows belong to which
  // sequence of the memory.
  Tensor step(const Tensor& rows, const Tensor& offsets, const RecurrentMemory& memory, RecurrentStates<Tensor>& states,
              int threads) const;

  Recurrent& recurrent() { return recurrent_; }

 private:
  void walk_parameters(const ParameterWalk& walk, const std::string& scope) override;
  bool attends_first() const { return config_.kind == RecurrentAttentionKind::additive; }
  RecurrentStates<TensorView> views(const RecurrentStates<Tensor>& states) const;
  Tensor top(const RecurrentStates<Tensor>& states, const std::vector<std::int64_t>& sequences) const;
  // Fills states, and contexts [tokens, model_dim] if there are any.
  Tensor run_steps(const Sequences& target, const RecurrentMemory& memory, const Dropout& dropout, Saved& saved,
                   int threads) const;
  // grad_context becomes the gradient of the contexts in all that they are used for.
  RecurrentStates<Tensor> run_steps_backward(const Sequences& target, const RecurrentMemory& memory,
                                             const Dropout& dropout, const Saved& saved, const TensorView& grad_states,
                                             Tensor& grad_context, Gradients& to);
  void observe(const Sequences& target, const RecurrentMemory& memory, const Saved& saved, int threads,
               Observer& observer) const;
  Tensor read_out(const Tensor& joined, int threads) const;

  RecurrentEncoderDecoderConfig config_;
  Recurrent recurrent_;
  std::optional<ScoredAttention> attention_;
  std::optional<Linear> readout_;
};

}  // namespace qkv::inline models
