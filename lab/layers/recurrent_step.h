// The kernel of recurrent layers: gates and states, behind its dispatch.
#pragma once

#include <cstdint>

#include "lab/layers/recurrent_cell.h"

namespace qkv::inline ops {

// What a step of a recurrent layer does between its matrix products, for some sequences, forward and backward.
// One row per sequence; `tokens` says which token of the batch is at the step. Arrays are row-major unless a stride is
// given.
template <class T>
struct RecurrentStep {
  using Element = T;

  std::int64_t rows = 0, size = 0;
  const std::int64_t* tokens = nullptr;
  T* gates = nullptr;           // [tokens, gates * size]: in the input's products; out, after their functions
  const T* products = nullptr;  // [rows, columns of the state's product]
  T* hidden = nullptr;          // [rows, size]: in h, out h'
  T* cell = nullptr;            // [rows, size]: in c, out c' (lstm)
  T* reset = nullptr;           // [rows, size]: r * h (gru_reset_first)
  T* out = nullptr;             // [tokens, out_stride]: out, h'
  std::int64_t out_stride = 0;
  T* kept = nullptr;         // [tokens, size]: as in RecurrentSaved; null: not kept
  bool resets_only = false;  // gru_reset_first: r, z and r * h alone, from products of r and z
};

// products: of all gates; gru_reset_first: of n, from r * h.
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
  T* grad_gates = nullptr;        // [tokens, gates * size]: out, at the input's products
  T* grad_kept = nullptr;         // [tokens, size]: out, at W_hn h + b_hn (gru)
  T* grad_products = nullptr;     // [rows, columns of the state's product]: out
  T* grad_hidden = nullptr;       // [rows, size]: in, at h' from later steps; out, what reaches h beside the products
  T* grad_cell = nullptr;         // [rows, size]: in at c', out at c (lstm)
  const T* grad_reset = nullptr;  // [rows, size]: at r * h (gru_reset_first)
  bool resets_only = false;       // gru_reset_first, after the others: through r * h; grad_products of r and z
};

// grad_hidden is left out where products alone lead to h (rnn, lstm). gru_reset_first: grad_products of n alone.
void recurrent_step_back(RecurrentCell cell, const RecurrentStepBack<float>& step);
void recurrent_step_back(RecurrentCell cell, const RecurrentStepBack<double>& step);

}  // namespace qkv::inline ops
