// Tables of relative positions on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "named_files.h"
#include "qkv/attention/bias.h"

namespace qkv::app {

// --clipped-table, --t5-table, --swin-table and --shaw-table, what belongs to them, and the files of their gradients.
struct TableOptions {
  NamedFile clipped{"--clipped-table"};
  NamedFile t5{"--t5-table"};
  NamedFile swin{"--swin-table"};
  NamedFile shaw{"--shaw-table"};
  NamedFile grad_clipped{"--grad-clipped-table"};
  NamedFile grad_t5{"--grad-t5-table"};
  NamedFile grad_swin{"--grad-swin-table"};
  NamedFile grad_shaw{"--grad-shaw-table"};
  RelativeTable::T5Buckets t5_buckets{};
  std::vector<std::int64_t> swin_window{};  // height, width
};
void add_table_options(CLI::App& command, TableOptions& options);
void add_table_gradients(CLI::App& command, TableOptions& options, CLI::Option* grad_out);

// The tables in memory; bias() borrows them.
struct Tables {
  Tensor clipped, t5, swin, shaw;

  Bias bias(const TableOptions& options) const;
  // Each table with the file of its gradient, in the order of bias().
  std::vector<std::pair<const Tensor*, NamedFile>> gradients(const TableOptions& options) const;
};
Tables read_tables(const TableOptions& options, Dtype accumulation);

}  // namespace qkv::app
