// Tables of relative positions on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "qkv/bias.h"
#include "qkv/named_files.h"

namespace qkv::app {

// --clipped-table, --t5-table and --swin-table, and what belongs to them.
struct TableOptions {
  NamedFile clipped{"--clipped-table"};
  NamedFile t5{"--t5-table"};
  NamedFile swin{"--swin-table"};
  RelativeTable::T5Buckets t5_buckets{};
  std::vector<std::int64_t> swin_window{};  // height, width
};
void add_table_options(CLI::App& command, TableOptions& options);

// The tables in memory; bias() borrows them.
struct Tables {
  Tensor clipped, t5, swin;

  Bias bias(const TableOptions& options) const;
};
Tables read_tables(const TableOptions& options, Dtype accumulation);

}  // namespace qkv::app
