// The kernel of recurrent layers: gates and states, behind its dispatch.
#pragma once

#include <cstdint>

#include "lab/layers/recurrent_cell.h"

namespace qkv::inline ops {

// The part of a recurrent step between its matrix products, for some sequences, forward and backward.
// One row per sequence; `tokens` says which token of the batch is at the step. Arrays are row-major unless a stride is
// given.
template <class T>
struct RecurrentStep {
  using Element = T;

  std::int64_t rows = 0, size = 0;
  const std::int64_t* tokens = nullptr;
  T* gates = nullptr;           // [tokens, gates * size]: in the input's products; out, after their functions
  const T* products = nullptr;  // [rows, gates * size]: of the state
  T* hidden = nullptr;          // [rows, size]: in h, out h'
  T* cell = nullptr;            // [rows, size]: in c, out c' (lstm)
  T* out = nullptr;             // [tokens, out_stride]: out, h'
  std::int64_t out_stride = 0;
  T* kept = nullptr;  // [tokens, size]: as in RecurrentSaved; null: not kept
};

void recurrent_step(RecurrentCell cell, const RecurrentStep<float>& step);
void recurrent_step(RecurrentCell cell, const RecurrentStep<double>& step);

template <class T>
struct RecurrentStepBack {
  using Element = T;

  std::int64_t rows = 0, size = 0;
  const std::int64_t* tokens = nullptr;
  const T* gates = nullptr;                   // as forward left them
  const T* kept = nullptr;                    // likewise
  const T* const* previous_hidden = nullptr;  // [rows]: h (gru)
  const T* const* previous_cell = nullptr;    // [rows]: c (lstm)
  const T* out = nullptr;                     // h' (rnn)
  std::int64_t out_stride = 0;
  const T* grad_out = nullptr;
  std::int64_t grad_out_stride = 0;
  T* grad_gates = nullptr;     // [tokens, gates * size]: out, at the input's products
  T* grad_kept = nullptr;      // [tokens, size]: out, at W_hn h + b_hn (gru)
  T* grad_products = nullptr;  // [rows, gates * size]: out, at the state's products
  T* grad_hidden = nullptr;    // [rows, size]: in, at h' from later steps; out, what reaches h beside the products
  T* grad_cell = nullptr;      // [rows, size]: in at c', out at c (lstm)
};

// grad_hidden is left out where products alone lead to h (rnn, lstm).
void recurrent_step_back(RecurrentCell cell, const RecurrentStepBack<float>& step);
void recurrent_step_back(RecurrentCell cell, const RecurrentStepBack<double>& step);

}  // namespace qkv::inline ops
