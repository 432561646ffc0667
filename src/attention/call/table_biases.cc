// Lays tables of relative positions out per head, as the kernels read them.
#include "attention/call/table_biases.h"

#include <algorithm>
#include <cstring>

#include "attention/call/view_checks.h"
#include "core/mathematics.h"

namespace qkv::inline attending {
namespace {

constexpr std::int64_t kLine = 16;  // numbers that rows are padded to: a whole vector of every target

// Number of a cell of the window such that the difference of two of them names the bucket.
std::int64_t coordinate(const RelativeTable& table, std::int64_t cell) {
  return cell / table.width() * (2 * table.width() - 1) + cell % table.width();
}

}  // namespace

TableBiases::TableBiases(const AttentionInputs& inputs, const std::vector<RelativeTable>& tables, MemoryCount& memory) {
  if (tables.size() > kMaxPlanes) fail("at most {} tables can be combined, got {}", kMaxPlanes, tables.size());
  const auto element = static_cast<std::int64_t>(size_of(inputs.accumulation));
  tables_.reserve(tables.size());
  for (const RelativeTable& table : tables) {
    if (table.kind() == RelativeTable::Kind::shaw) {
      add_rows(inputs, table, memory);
      continue;
    }
    if (table.values().size(1) != inputs.heads) {
      fail("a relative table {} must have a column for each of the {} heads", to_string(table.values().shape()),
           inputs.heads);
    }
    Compiled& compiled = tables_.emplace_back(Compiled{.table = table, .values = {}, .coordinates = {}});
    const auto copy_bytes = static_cast<std::size_t>(table.values().element_count() * element);
    memory.borrow(copy_bytes);
    const Tensor values = convert(table.values(), inputs.accumulation);
    if (table.kind() == RelativeTable::Kind::swin) {
      const std::int64_t cells = table.height() * table.width();
      const auto numbers = static_cast<std::size_t>(cells + kTablePadding);
      memory.keep(copy_bytes + numbers * static_cast<std::size_t>(element));
      memory.borrow(copy_bytes + numbers * sizeof(std::int64_t));
      compiled.values = Tensor::copy(values.view().transpose(0, 1));
      Tensor coordinates = Tensor::uninitialized({cells + kTablePadding}, Dtype::i64);
      for (std::int64_t cell = 0; cell < cells + kTablePadding; ++cell) {
        coordinates.data<std::int64_t>()[cell] = coordinate(table, std::min(cell, cells - 1));
      }
      // Integers of the width of the accumulation.
      compiled.coordinates = convert(coordinates, inputs.accumulation == Dtype::f64 ? Dtype::i64 : Dtype::i32);
      continue;
    }
    compiled.reach = std::min(table.max_distance(), inputs.q_len + inputs.k_len);
    const std::int64_t numbers = 2 * compiled.reach + 1 + 2 * kTablePadding;
    memory.keep(static_cast<std::size_t>(inputs.heads * numbers * element));
    memory.borrow(copy_bytes);
    compiled.values = Tensor::uninitialized({inputs.heads, numbers}, inputs.accumulation);
    for (std::int64_t at = 0; at < numbers; ++at) {
      const std::int64_t back = std::clamp(at - kTablePadding - compiled.reach, -compiled.reach, compiled.reach);
      const std::int64_t row = table.bucket(back, 0);
      for (std::int64_t h = 0; h < inputs.heads; ++h) {
        std::memcpy(compiled.values.view().bytes() + (h * numbers + at) * element,
                    values.view().bytes() + (row * inputs.heads + h) * element, static_cast<std::size_t>(element));
      }
    }
  }
}

void TableBiases::add_rows(const AttentionInputs& inputs, const RelativeTable& table, MemoryCount& memory) {
  for (const Compiled& other : tables_) {
    if (other.table.kind() == RelativeTable::Kind::shaw) fail("at most one table of Shaw's can be added");
  }
  if (inputs.query_dim != table.values().size(1)) {
    fail("Shaw's table {} must have rows of head_dim {}", to_string(table.values().shape()), inputs.query_dim);
  }
  Compiled& compiled = tables_.emplace_back(Compiled{.table = table, .values = {}, .coordinates = {}});
  compiled.reach = std::min(table.max_distance(), inputs.q_len + inputs.k_len);
  const std::int64_t rows = 2 * compiled.reach + 1, row_length = divide_up(inputs.query_dim, kLine) * kLine;
  memory.keep(static_cast<std::size_t>(rows * row_length) * size_of(inputs.accumulation));
  compiled.values = Tensor::zeros({rows, row_length}, inputs.accumulation);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t bucket = table.bucket(row - compiled.reach, 0);
    convert(table.values().select(0, bucket), compiled.values.view().select(0, row).slice(0, 0, inputs.query_dim));
  }
}

std::int64_t row_of_number(const RelativeTable& table, const TableBias& bias, std::int64_t number) {
  if (table.kind() == RelativeTable::Kind::swin) return number;
  return table.bucket(std::clamp(number - kTablePadding - bias.reach, -bias.reach, bias.reach), 0);
}

void TableBiases::set(AttentionTask& task, std::int64_t h) const {
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const auto& [table, values, coordinates, reach] = tables_[t];
    TableBias& bias = task.tables[t];
    if (table.kind() == RelativeTable::Kind::shaw) {
      bias.values = values.view().bytes();
      bias.row_length = values.size(1);
      bias.numbers = values.element_count();
      bias.reach = reach;
      continue;
    }
    bias.values = values.view().select(0, h).bytes();
    bias.numbers = values.size(1);
    if (table.kind() != RelativeTable::Kind::swin) {
      bias.values += kTablePadding * static_cast<std::int64_t>(size_of(values.dtype()));
      bias.reach = reach;
      continue;
    }
    const std::int64_t cells = table.height() * table.width();
    if (task.q_len > 0 && task.k_len > 0 &&
        (task.offset < 0 || task.q_len + task.offset > cells || task.k_len > cells)) {
      fail("queries at positions {} to {} and {} keys do not fit a window of {} x {}", task.offset,
           task.offset + task.q_len - 1, task.k_len, table.height(), table.width());
    }
    bias.coordinates = coordinates.view().bytes();
    bias.center = (table.height() - 1) * (2 * table.width() - 1) + table.width() - 1;
  }
}

}  // namespace qkv::inline attending
