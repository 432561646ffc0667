// The options of attention on the command line of `attend`: who sees whom, what is added, how it is computed.
#pragma once

#include "array_files.h"
#include "options.h"
#include "qkv/attention.h"
#include "table_options.h"

namespace qkv::app {

class AttendRules {
 public:
  AttendRules(Command& command, ArrayFiles& files);

  // UsageError for options that do not go together.
  void check() const;
  void read(Dtype accumulation);
  // Borrows what was read.
  AttentionOptions options() const;

  // The length of a row of weights over these keys: all of them, or those of the longest sequence.
  std::int64_t row_length(const TensorView& key) const;

  // What has gradients, or says where queries belong.
  InputArray &bias, &alibi, &sinks, &offsets_query, &offsets_key, &block_table;
  TableOptions tables{};
  ScoreOptions score{};
  Tables table_values{};
  ScoreParameters score_values{};

 private:
  InputArray &mask_, &prefix_, &lengths_, &documents_, &documents_key_;
  std::optional<Align> causal_{}, align_{};
  Mask window_{};
  std::optional<double> scale_{};
  double soft_cap_ = 0;
  Precision precision_ = Precision::exact;
  Dropout dropout_{};
  EmptyRows empty_rows_ = EmptyRows::zero;
  std::int64_t memory_limit_ = 0;
};

}  // namespace qkv::app
