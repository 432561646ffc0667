// The options of attention on a command line: who sees whom, what is added, how it is computed. `attend` and `plan`
// have the same ones.
#pragma once

#include <array>
#include <vector>

#include "attention/options/mask_kinds.h"
#include "inputs/array_files.h"
#include "inputs/options.h"
#include "qkv/attention.h"

namespace qkv::app {

// The files of tables of relative positions and of their gradients, one each for clipped distances, T5, Swin and Shaw,
// and what belongs to them.
struct TableOptions {
  std::array<NamedFile, 4> tables{{{"--clipped-table"}, {"--t5-table"}, {"--swin-table"}, {"--shaw-table"}}};
  std::array<NamedFile, 4> gradients{
      {{"--grad-clipped-table"}, {"--grad-t5-table"}, {"--grad-swin-table"}, {"--grad-shaw-table"}}};
  RelativeTable::T5Buckets t5_buckets{};
  std::vector<std::int64_t> swin_window{};  // height, width
};
std::vector<Option> table_gradient_options(TableOptions& options);

// Tables of relative positions in memory; bias() borrows them.
struct Tables {
  std::array<Tensor, 4> arrays{};

  Bias bias(const TableOptions& options) const;
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

  // What has gradients.
  InputArray &bias, &alibi, &sinks;
  TableOptions tables{};
  ScoreOptions score{};
  Tables table_values{};
  ScoreParameters score_values{};
  // Where queries and keys belong; not there without layouts.
  InputArray *offsets_query = nullptr, *offsets_key = nullptr, *block_table = nullptr;

 private:
  // The options of a kind of mask that takes arrays, one for each.
  struct MaskArrays {
    const MaskDescription* kind;
    std::vector<InputArray*> inputs;
  };
  const InputArray& input_of(MaskKind kind) const;
  Mask mask() const;

  std::vector<MaskArrays> mask_arrays_{};
  std::optional<Align> causal_{}, align_{};
  Mask numbers_{};  // of kinds that take numbers
  std::optional<double> scale_{};
  double soft_cap_ = 0;
  Precision precision_ = Precision::exact;
  Dropout dropout_{};
  EmptyRows empty_rows_ = EmptyRows::zero;
  std::int64_t memory_limit_ = 0;
};

}  // namespace qkv::app
