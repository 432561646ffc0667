// y = x W^T + b on the rows of x, as torch.nn.Linear.
#pragma once

#include <cstdint>
#include <string>

#include "qkv/matmul.h"
#include "qkv/weights.h"

namespace qkv {

struct LinearConfig {
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool bias = true;
};

// Immutable after construction: any number of threads may call forward.
class Linear {
 public:
  // Takes weight [out, in] and bias [out].
  Linear(const LinearConfig& config, Weights& weights, const std::string& scope = "");

  // x [..., in] -> [..., out]. threads as in MatmulOptions.
  Tensor forward(const TensorView& x, int threads = 0) const;
  // The same for rows x [n, in] into out [n, out].
  void forward(const TensorView& x, const MutableTensorView& out, int threads = 0) const;

  void visit(const ParameterVisitor& visitor, const std::string& scope = "") const;

 private:
  LinearConfig config_;
  Tensor weight_;
  Tensor bias_;
  PackedMatrix packed_;
};

}  // namespace qkv
