// One step of a recurrent layer: from the input x, the state h of the step before and, in an LSTM, its cell
// c. s is the logistic function, * is taken element by element. In f32 s(x) is within 1.25 |x| + 2 units in the
// last place, tanh within 1.2e-7 of the exact one, whatever its size.
#pragma once

namespace qkv {

enum class RecurrentCell {
  // h' = tanh(W_x x + b_x + W_h h + b_h). Elman, "Finding structure in time" (1990).
  rnn_tanh,
  // The same with max(0, .) for tanh.
  rnn_relu,
  // i, f, o = s(W_x x + b_x + W_h h + b_h), g = tanh(the same with weights of its own); c' = f * c + i * g,
  // h' = o * tanh(c'). Hochreiter and Schmidhuber (1997), with the forget gate of Gers (2000). Rows of the weights: i,
  // f, g, o.
  lstm,
  // r, z = s(W_x x + b_x + W_h h + b_h), n = tanh(W_xn x + b_xn + r * (W_hn h + b_hn)); h' = (1 - z) * n + z * h, as in
  // torch. Rows of the weights: r, z, n.
  gru,
};

}  // namespace qkv
