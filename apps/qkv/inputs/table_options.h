// Tables of relative positions on the command line.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "command_line.h"
#include "inputs/options.h"
#include "qkv/attention/bias.h"

namespace qkv::app {

// The files of the tables and of their gradients, one each for clipped distances, T5, Swin and Shaw, and what belongs
// to them.
struct TableOptions {
  std::array<NamedFile, 4> tables{{{"--clipped-table"}, {"--t5-table"}, {"--swin-table"}, {"--shaw-table"}}};
  std::array<NamedFile, 4> gradients{
      {{"--grad-clipped-table"}, {"--grad-t5-table"}, {"--grad-swin-table"}, {"--grad-shaw-table"}}};
  RelativeTable::T5Buckets t5_buckets{};
  std::vector<std::int64_t> swin_window{};  // height, width
};
std::vector<Option> table_options(TableOptions& options);
std::vector<Option> table_gradient_options(TableOptions& options);

// The tables in memory; bias() borrows them.
struct Tables {
  std::array<Tensor, 4> arrays{};

  Bias bias(const TableOptions& options) const;
};
Tables read_tables(const TableOptions& options, Dtype accumulation);

}  // namespace qkv::app
