// The kernel of the cross-entropy of rows of logits.
#pragma once

#include <cstdint>

namespace qkv::inline ops {

// Takes rows [rows, classes], a stride apart, and leaves in them the gradients of
//   loss = (1 - smoothing) * nll[target] + smoothing * mean of nll over the classes,   nll[c] = log-sum-exp - logit[c]
// times `scale`, if `gradients` is set; else what is in them does not matter. A row with a negative target has loss and
// gradients 0. `excluded` is no class: its logit does not matter, its gradient is 0; -1: none.
template <class T>
struct CrossEntropyRows {
  T* logits;
  std::int64_t stride;
  std::int64_t rows;
  std::int64_t classes;
  const std::int32_t* targets;
  std::int64_t excluded;
  double smoothing;
  double scale;
  bool gradients;
  double* loss;  // [rows]
  double* nll;   // [rows], of the target
};

void cross_entropy_rows(const CrossEntropyRows<float>& rows);
void cross_entropy_rows(const CrossEntropyRows<double>& rows);

}  // namespace qkv::inline ops
