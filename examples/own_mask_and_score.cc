// A mask and a score of one's own: strided attention with a soft preference for what is near. Prints one row of
// weights.
//
//   c++ -std=c++20 -O3 own_mask_and_score.cc -lqkv        (the build compiles it too)
#include <cmath>
#include <cstdio>

#include "qkv/attention.h"

int main() {
  // Every third key, counted from the query; and a logit that falls with the square root of the distance.
  const qkv::MaskFunction strided =
      qkv::mask_function([](const qkv::Pair& at) { return (at.position - at.key) % 3 == 0; });
  const qkv::LogitFunction nearer = qkv::logit_function([](auto logit, const qkv::Pair& at) {
    return logit - std::sqrt(static_cast<decltype(logit)>(std::abs(at.position - at.key)));
  });

  const qkv::Tensor q = qkv::Tensor::zeros({10, 4}), k = qkv::Tensor::zeros({10, 4}), v = qkv::Tensor::zeros({10, 4});
  qkv::Tensor out = qkv::Tensor::zeros({10, 4}), weights = qkv::Tensor::zeros({10, 10});
  qkv::attention(q, k, v, out, {.mask = qkv::Mask::causal() & qkv::Mask::function(strided), .logit_function = nearer},
                 {.weights = weights});
  for (std::int64_t key = 0; key < 10; ++key) std::printf("%.3f ", weights.view().at<float>({9, key}));
  std::printf("\n");
}
