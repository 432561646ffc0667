// Decides which heads share a block of queries, and gathers and scatters their rows.
#include "attention/forward/folded_heads.h"

#include <algorithm>
#include <cstring>

#include "core/mathematics.h"
#include "simd/scratch.h"

namespace qkv::inline attending {
namespace {

std::int64_t bytes_of(Dtype type, std::int64_t elements) { return static_cast<std::int64_t>(size_of(type)) * elements; }

std::int64_t whole_lines(std::int64_t bytes) { return divide_up(bytes, 64) * 64; }

}  // namespace

FoldedHeads::FoldedHeads(const AttentionCall& call, const AttentionTask& longest, std::int64_t block_queries,
                         std::int64_t threads) {
  const std::int64_t group = call.heads / call.kv_heads;
  if (group == 1 || !call.may_fold_heads()) return;
  std::int64_t rows = 0;
  for (const std::int64_t row : {bytes_of(call.storage, call.query_dim), bytes_of(call.accumulation, call.value_dim),
                                 bytes_of(call.accumulation, 1)}) {
    rows += whole_lines(block_queries * row);
  }
  AttentionTask block = longest;
  block.q_len = block_queries;
  const auto row_bytes = static_cast<std::size_t>(rows);
  const auto block_bytes =
      static_cast<std::size_t>(whole_lines(static_cast<std::int64_t>(plan_forward(block).scratch_bytes)));
  if (block_bytes + row_bytes > Scratch::kMostBytes) return;
  group_ = group;
  most_ = divide_up(group, std::min(group, divide_up(threads, call.batch * call.kv_heads)));
  block_queries_ = block_queries;
  block_bytes_ = block_bytes;
  row_bytes_ = row_bytes;
}

std::int64_t FoldedHeads::together(std::int64_t q_len) const {
  if (group_ == 1 || q_len < 2 || 2 * q_len > block_queries_) return 1;
  const std::int64_t most = std::min(most_, block_queries_ / q_len);
  return divide_up(group_, divide_up(group_, most));
}

std::int64_t FoldedHeads::led_by(const AttentionTask& task) const {
  return std::min(together(task.q_len), group_ - task.head % group_);
}

void FoldedHeads::attend(const AttentionCall& call, const AttentionTask& first, const QueryBlock& next,
                         ScratchRoom scratch, const KeyPart& keys) const {
  const std::int64_t heads = led_by(first);
  if (heads == 1) return attend_forward({&first, 0, first.q_len}, next, scratch, keys);
  // The heads' rows lie equally far apart.
  const AttentionTask second = call.task(first.sequence, first.head + 1);
  // visit(head's offset in bytes, query, row of the block)
  const auto for_rows = [&](const std::byte* of_first, const std::byte* of_second, const auto& visit) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < first.q_len; ++i) visit(h * (of_second - of_first), i, h * first.q_len + i);
    }
  };
  const auto copy = [](std::byte* to, const std::byte* from, std::int64_t bytes) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  };

  const ScratchRoom of_block = scratch.take_room(block_bytes_);
  std::byte* rows = scratch.take_bytes(row_bytes_);
  AttentionTask folded = first;
  folded.q_len = heads * first.q_len;
  folded.period = first.q_len;
  const std::int64_t query_row = bytes_of(first.query.type, first.common->query_dim);
  folded.query.data = rows;
  folded.query.step = first.common->query_dim;
  for_rows(first.query.data, second.query.data, [&](std::int64_t head, std::int64_t i, std::int64_t row) {
    copy(rows + row * query_row, first.query.data + head + i * bytes_of(first.query.type, first.query.step), query_row);
  });
  const std::int64_t out_row = bytes_of(first.common->out_type, first.common->value_dim);
  folded.out.data = rows + whole_lines(folded.q_len * query_row);
  folded.out.step = first.common->value_dim;
  const std::int64_t number = bytes_of(call.accumulation, 1);
  if (first.log_sum_exp.data != nullptr)
    folded.log_sum_exp.data = folded.out.data + whole_lines(folded.q_len * out_row);
  folded.log_sum_exp.step = 1;

  attend_forward({&folded, 0, folded.q_len}, next, of_block, keys);
  if (keys.to != nullptr) return;

  for_rows(first.out.data, second.out.data, [&](std::int64_t head, std::int64_t i, std::int64_t row) {
    copy(first.out.data + head + i * bytes_of(first.common->out_type, first.out.step), folded.out.data + row * out_row,
         out_row);
  });
  if (first.log_sum_exp.data == nullptr) return;
  for_rows(first.log_sum_exp.data, second.log_sum_exp.data, [&](std::int64_t head, std::int64_t i, std::int64_t row) {
    copy(first.log_sum_exp.data + head + i * first.log_sum_exp.step * number, folded.log_sum_exp.data + row * number,
         number);
  });
}

}  // namespace qkv::inline attending
