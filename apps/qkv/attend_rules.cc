#include "attend_rules.h"

#include <algorithm>

#include "options.h"
#include "signals.h"

namespace qkv::app {
namespace {

// The largest of some lengths, none above `capacity`.
std::int64_t longest_of(const TensorView& lengths, std::int64_t capacity) {
  const Tensor counts = convert(lengths, Dtype::i64);
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < counts.element_count(); ++i) {
    longest = std::clamp(counts.data<std::int64_t>()[i], longest, capacity);
  }
  return longest;
}

}  // namespace

AttendRules::AttendRules(Command& command, ArrayFiles& files)
    : bias(files.input("--bias",
                       "f32, added to the logits, broadcastable to [batch, heads, q_len, k_len]; may be repeated",
                       repeated())),
      alibi(files.input("--alibi", "f32 [heads] or [batch, heads]: slopes of ALiBi")),
      sinks(files.input("--sinks", "f32 [heads]: each head's logit of one more key, without a value")),
      offsets_query(files.input("--offsets-query", "i32 or i64 [batch + 1]: where packed queries begin")),
      offsets_key(
          files.input("--offsets-key", "i32 or i64 [batch + 1]: where packed keys begin", needs("--offsets-query"))),
      block_table(files.input("--block-table",
                              "i32 [batch, blocks]: pages of each sequence; --lengths says how many keys it has",
                              excludes("--offsets-key"))),
      mask_(files.input("--mask",
                        "bool or u8, 0 = hidden, broadcastable to [batch, heads, q_len, k_len]; may be repeated",
                        repeated())),
      prefix_(
          files.input("--prefix",
                      "i32 or i64 [batch]: so many keys of each sequence all queries see, and after them only those "
                      "up to their own position",
                      excludes("--causal"))),
      lengths_(files.input("--lengths", "i32 or i64 [batch]: keys of each sequence")),
      documents_(files.input("--documents",
                             "i32 or i64 [batch, length], packed [tokens]: a query sees keys of its own document")),
      documents_key_(
          files.input("--documents-key", "the same of the keys, if not that of the queries", needs("--documents"))) {
  command.add({causal_option(causal_), align_option(align_)});
  command.add(window_options(window_));
  command.add(table_options(tables));
  command.add(score_options(score));
  command.add(
      {{"--scale", finite(scale_, "X"), "factor of the scores (default: 1/sqrt(head_dim) for scaled-dot, else 1)"},
       soft_cap_option(soft_cap_),
       precision_option(precision_)});
  command.add(dropout_options(dropout_));
  command.add({empty_rows_option(empty_rows_),
               {"--memory-limit", size(memory_limit_),
                "bytes besides inputs and outputs, kept by fewer threads or refused (default: no limit)"}});
}

void AttendRules::check() const {
  check_score_options(score);
  if (offsets_query.given() && !offsets_key.given() && !block_table.given()) {
    throw UsageError("--offsets-query", "requires --offsets-key, or --block-table");
  }
  const bool has_window = !window_.parts().empty() || prefix_.given();
  if (align_ && !has_window && !any_given(tables.tables) && !alibi.given()) {
    throw UsageError("--align",
                     "has no effect without --window, --dilated, --prefix, --alibi or a table of relative positions");
  }
}

void AttendRules::read(Dtype accumulation) {
  for (InputArray* array :
       {&mask_, &prefix_, &lengths_, &documents_, &documents_key_, &offsets_query, &offsets_key, &block_table}) {
    array->read();
  }
  for (InputArray* array : {&bias, &alibi, &sinks}) array->read_as(accumulation);
  table_values = read_tables(tables, accumulation);
  score_values = read_score_parameters(score, accumulation);
}

AttentionOptions AttendRules::options() const {
  const MaskArrays masks{.window = window_,
                         .causal = causal_,
                         .align = align_,
                         .prefix = prefix_.view(),
                         .lengths = lengths_.view(),
                         .documents_query = documents_.view(),
                         .documents_key = documents_key_.view(),
                         .booleans = {mask_.arrays.begin(), mask_.arrays.end()}};
  AttentionOptions options{.mask = masks.combined(),
                           .bias = {},
                           .scale = scale_,
                           .soft_cap = soft_cap_,
                           .score = score_values.score(),
                           .precision = precision_,
                           .dropout = dropout_,
                           .empty_rows = empty_rows_,
                           .sinks = sinks.view(),
                           .offsets_query = offsets_query.view(),
                           .offsets_key = offsets_key.view(),
                           .block_table = block_table.view(),
                           .memory_limit = memory_limit_,
                           .stop = interruption()};
  for (const Tensor& added : bias.arrays) options.bias = options.bias + Bias::view(added);
  if (alibi.given()) options.bias = options.bias + Bias::alibi(alibi.view());
  options.bias = options.bias + table_values.bias(tables);
  return options;
}

// Offsets, tables and lengths that break the rules only need a bounded answer here; attention() refuses them.
std::int64_t AttendRules::row_length(const TensorView& key) const {
  if (block_table.given()) {
    const TensorView table = block_table.view();
    if (table.rank() != 2 || key.rank() != 4) return 0;
    const std::int64_t capacity = std::min(table.size(1), table.element_count()) * key.size(1);
    return lengths_.given() ? longest_of(lengths_.view(), capacity) : capacity;
  }
  if (!offsets_key.given()) return key.size(-2);
  const TensorView given = offsets_key.view();
  if (given.dtype() != Dtype::i32 && given.dtype() != Dtype::i64) return 0;
  const Tensor offsets = convert(given, Dtype::i64);
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i + 1 < offsets.element_count(); ++i) {
    const std::int64_t begin = std::clamp<std::int64_t>(offsets.data<std::int64_t>()[i], 0, key.size(0));
    const std::int64_t end = std::clamp<std::int64_t>(offsets.data<std::int64_t>()[i + 1], 0, key.size(0));
    longest = std::max(longest, end - begin);
  }
  return longest;
}

}  // namespace qkv::app
