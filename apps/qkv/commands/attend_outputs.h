// The outputs of `attend` besides the output itself, on its command line: optional ones of a forward pass, gradients,
// tangents and second gradients.
#pragma once

#include <functional>
#include <vector>

#include "attention/call/output_kinds.h"
#include "core/share.h"
#include "inputs/array_files.h"
#include "inputs/call_options.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"

namespace qkv::app {

// The sizes that determine the shapes of optional outputs.
struct RowShapes {
  Dims rows{};              // of log-sum-exp: the query's without its last dimension
  Dims received{};          // of the weight that keys receive
  Dims blocks{};            // of block averages, before the numbers of blocks
  std::int64_t length = 0;  // of a row of weights
  Dtype dtype = Dtype::f32;

  Dims with(std::int64_t last) const {
    Dims shape = rows;
    shape.push_back(last);
    return shape;
  }
};

// Its name on a command line: "log-sum-exp".
std::string output_word(const OutputDescription& kind);
// With so many chosen rows, keys of a row's largest weights, and blocks along queries and keys.
Dims output_shape(OutputOf of, const RowShapes& shapes, std::int64_t rows, std::int64_t top, std::int64_t blocks);

inline constexpr std::int64_t kUsualTop = 8, kUsualBlocks = 64;

class AttendOutputs {
 public:
  AttendOutputs(Command& command, ArrayFiles& files);

  void read();
  // Borrows what was read; the views are those of `files`.
  AttentionExtras allocate(ArrayFiles& files, const RowShapes& shapes) const;

 private:
  std::vector<const ArrayOption*> outputs_{};
  InputArray& rows_;
  std::int64_t top_ = kUsualTop, blocks_ = kUsualBlocks;
};

// A forward pass: its outputs are allocated before it runs, and filled after it.
struct ForwardPass {
  TensorView query{}, key{}, value{}, out{}, log_sum_exp{};
  AttentionOptions options{};
};

class AttendDerivatives {
 public:
  AttendDerivatives(ArrayFiles& files, const CallOptions& rules);

  // UsageError for options that do not go together.
  void check() const;
  bool asked_for() const { return grad_out_.given() || has_tangent(); }
  void read(Dtype accumulation);

  // To call before anything is computed.
  void allocate(ArrayFiles& files, const ForwardPass& forward);
  // How many calls compute() makes, a turn each.
  std::int64_t passes() const;
  void compute(const ForwardPass& forward, ShareTurns& turns) const;

 private:
  // An output, its view while it is computed, and the array whose shape it has.
  struct Output {
    const ArrayOption& option;
    MutableTensorView& view;
    std::function<TensorView(const ForwardPass&)> like;
  };
  static const ArrayOption* first_given(const std::vector<Output>& outputs);
  bool has_tangent() const { return tangent_query_.given() || tangent_key_.given() || tangent_value_.given(); }

  const CallOptions& rules_;
  AttentionGradients gradients_{};
  MutableTensorView alibi_slopes_{};
  std::vector<MutableTensorView> tables_{};
  AttentionOutputTangents output_tangents_{};
  AttentionSecondGradients second_gradients_{};
  // In the order of the help.
  InputArray& grad_out_;
  std::vector<Output> first_;
  ArrayOption& grad_bias_;
  std::vector<Output> parameters_{};
  std::vector<Output> tangents_;
  InputArray &tangent_query_, &tangent_key_, &tangent_value_;
  std::vector<Output> second_;
};

}  // namespace qkv::app
