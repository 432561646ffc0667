// The options of attention on a command line: who sees whom, what is added, how it is computed. `attend` and `plan`
// have the same ones.
#pragma once

#include <optional>
#include <vector>

#include "attention/options/mask_kinds.h"
#include "inputs/array_files.h"
#include "inputs/options.h"
#include "qkv/attention.h"

namespace qkv::app {

// --score and the files of its parameters.
class ScoreOptions {
 public:
  ScoreOptions(Command& command, ArrayFiles& files,
               const char* help = "Score of a query and a key (default: scaled-dot)");

  // UsageError if a parameter is given that the chosen score has not.
  void refuse_surplus() const;
  // UsageError unless exactly the parameters of the chosen score are given.
  void check() const;
  // Borrows what was read.
  Score score() const;

  Score::Kind kind = Score::Kind::scaled_dot;
  std::vector<InputArray*> parameters{};  // w_query, w_key, v, w
};

class CallOptions {
 public:
  CallOptions(Command& command, ArrayFiles& files);
  // Packed and paged rows, which take arrays that have a form.
  void add_layouts(ArrayFiles& files);

  // UsageError for options that do not go together.
  void check() const;
  void read(Dtype accumulation);
  // Borrows what was read.
  AttentionOptions options() const;

  // The length of a row of weights over these keys: all of them, or those of the longest sequence.
  std::int64_t row_length(const TensorView& key) const;

  // Parameters that have gradients.
  InputArray &bias, &alibi, &sinks;
  std::vector<InputArray*> tables{};  // of relative positions: clipped distances, T5, Swin and Shaw
  std::optional<ScoreOptions> score{};
  // Where queries and keys belong; not there without layouts.
  InputArray *offsets_query = nullptr, *offsets_key = nullptr, *block_table = nullptr;

 private:
  // The options of a kind of mask that takes arrays, one for each.
  struct MaskArrays {
    const MaskDescription* kind;
    std::vector<InputArray*> inputs;
  };
  const InputArray& input_of(MaskKind kind) const;
  void add_tables(Command& command, ArrayFiles& files);
  Mask mask() const;
  Bias bias_of_tables() const;

  std::vector<MaskArrays> mask_arrays_{};
  std::optional<Align> causal_{}, align_{};
  Mask numbers_{};  // of kinds that take numbers
  RelativeTable::T5Buckets t5_buckets_{};
  std::vector<std::int64_t> swin_window_{};  // height, width
  std::optional<double> scale_{};
  double soft_cap_ = 0;
  Precision precision_ = Precision::exact;
  Dropout dropout_{};
  EmptyRows empty_rows_ = EmptyRows::zero;
  std::int64_t memory_limit_ = 0;
};

}  // namespace qkv::app
