// One direction of one recurrent layer through time, for a group of sequences: forward and backward.
#pragma once

#include <span>

#include "lab/layers/recurrent_batch.h"
#include "lab/layers/recurrent_cell.h"
#include "qkv/matmul.h"

namespace qkv::inline layers {

// Blocks of rows in the weights and in the gates.
inline std::int64_t gates_of(RecurrentCell cell) {
  switch (cell) {
    case RecurrentCell::lstm:
      return 4;
    case RecurrentCell::gru:
      return 3;
    case RecurrentCell::rnn_tanh:
    case RecurrentCell::rnn_relu:
      break;
  }
  return 1;
}

struct RecurrentForward {
  RecurrentCell cell = RecurrentCell::lstm;
  bool reverse = false;
  const PackedMatrix* weight = nullptr;  // W_hh
  TensorView bias{};                     // [gates * hidden], or none
  MutableTensorView gates{};             // [tokens, gates * hidden]: the input's products; then as in RecurrentSaved
  MutableTensorView kept{};              // [tokens, hidden], as in RecurrentSaved; not given: not kept
  MutableTensorView out{};               // [tokens, hidden], row stride
  MutableTensorView hidden{}, cell_state{};  // [batch, hidden]: the initial states; then the last ones
};

void recurrent_forward(const RecurrentForward& pass, const RecurrentBatch& batch,
                       std::span<const std::int64_t> sequences, int threads);

struct RecurrentBackward {
  RecurrentCell cell = RecurrentCell::lstm;
  bool reverse = false;
  PackedMatrix weight{};                               // W_hh: [gates * hidden, hidden]
  TensorView gates{}, kept{};                          // of forward
  TensorView out{}, grad_out{};                        // [tokens, hidden], row stride
  TensorView initial_hidden{}, initial_cell{};         // [batch, hidden]
  MutableTensorView grad_gates{};                      // [tokens, gates * hidden]
  MutableTensorView grad_kept{};                       // [tokens, hidden], at W_hn h + b_hn (gru)
  MutableTensorView grad_hidden{}, grad_cell_state{};  // [batch, hidden]: at the last states; then at the initial ones
};

void recurrent_backward(const RecurrentBackward& pass, const RecurrentBatch& batch,
                        std::span<const std::int64_t> sequences, int threads);

// The token of a sequence at a step.
inline std::int64_t token_at(const RecurrentBatch& batch, std::int64_t sequence, std::int64_t step, bool reverse) {
  return reverse ? batch.begin(sequence + 1) - 1 - step : batch.begin(sequence) + step;
}

}  // namespace qkv::inline layers
