// Tables of relative positions after they were checked, in the form the kernels read: contiguous numbers per head, in
// the accumulation's type.
#pragma once

#include <vector>

#include "attention/call/attention_inputs.h"
#include "attention/call/memory_count.h"
#include "attention/tile/attention_task.h"
#include "qkv/attention/relative_table.h"
#include "qkv/tensor.h"

namespace qkv::inline attending {

class TableBiases {
 public:
  TableBiases() = default;
  // std::invalid_argument, naming sizes, for tables that do not fit the inputs. Memory: a few times the tables', at
  // most a few times the lengths.
  TableBiases(const AttentionInputs& inputs, const std::vector<RelativeTable>& tables, MemoryCount& memory);

  // The tables of head h, whose lengths and offset the task already holds. std::invalid_argument if a position lies
  // outside a window.
  void set(AttentionTask& task, std::int64_t h) const;

  int count() const { return static_cast<int>(tables_.size()); }
  bool empty() const { return tables_.empty(); }

 private:
  struct Compiled {
    RelativeTable table;
    Tensor values;       // [heads, numbers]; Shaw's: rows by distance, [2 reach + 1, row_length]
    Tensor coordinates;  // swin
    std::int64_t reach = 0;
  };
  void add_rows(const AttentionInputs& inputs, const RelativeTable& table, MemoryCount& memory);  // Shaw's

  std::vector<Compiled> tables_;
};

// The row of the table that a number of the task's form is for; of all but Shaw's.
std::int64_t row_of_number(const RelativeTable& table, const TableBias& bias, std::int64_t number);

}  // namespace qkv::inline attending
