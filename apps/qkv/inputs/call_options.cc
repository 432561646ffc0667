#include "inputs/call_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "inputs/options.h"
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

bool given(const InputArray* input) { return input != nullptr && input->given(); }
TensorView view_of(const InputArray* input) { return input == nullptr ? TensorView() : input->view(); }

std::vector<Option> table_options(TableOptions& options) {
  auto& [clipped, t5, swin, shaw] = options.tables;
  const Names<bool> yes_or_no = {{"yes", true}, {"no", false}};
  const Value window{
      .target = &options.swin_window, .type = "H,W", .check = whole_number(1, 1024), .delimiter = ',', .count = 2};
  return {{clipped.option, file(clipped.path), "f32 [2 n + 1, heads]: added by key minus query position, clipped to n"},
          {t5.option, file(t5.path), "f32 [buckets, heads]: added by the buckets of T5"},
          {"--t5-max-distance", size(options.t5_buckets.max_distance, std::int64_t{1} << 24),
           "distances from here on share one bucket (default 128)", needs(t5.option)},
          {"--t5-bidirectional", choice(options.t5_buckets.bidirectional, yes_or_no),
           "separate buckets for keys after the query (default yes)", needs(t5.option)},
          {swin.option, file(swin.path), "f32 [(2 H - 1) (2 W - 1), heads]: added by the cells of a window, as in Swin",
           needs("--swin-window")},
          {"--swin-window", window, "height and width of the window", needs(swin.option)},
          {shaw.option, file(shaw.path),
           "f32 [2 n + 1, head_dim]: scale q . row is added, by key minus query position, clipped to n (Shaw)"}};
}

Tables read_tables(const TableOptions& options, Dtype accumulation) {
  Tables tables;
  for (std::size_t i = 0; i < tables.arrays.size(); ++i) {
    const NamedFile& file = options.tables[i];
    if (file.given()) tables.arrays[i] = read_parameter(file.option, file.path, accumulation);
  }
  return tables;
}

}  // namespace

std::vector<Option> table_gradient_options(TableOptions& options) {
  std::vector<Option> list;
  for (std::size_t i = 0; i < options.tables.size(); ++i) {
    list.push_back({options.gradients[i].option, file(options.gradients[i].path), "output: gradient of that table",
                    needs(options.tables[i].option, "--grad-out")});
  }
  return list;
}

Bias Tables::bias(const TableOptions& options) const {
  const auto& [clipped, t5, swin, shaw] = arrays;
  const auto& given = options.tables;
  Bias bias;
  if (given[0].given()) bias = bias + Bias::table(RelativeTable::clipped(clipped));
  if (given[1].given()) bias = bias + Bias::table(RelativeTable::t5(t5, options.t5_buckets));
  if (given[2].given()) {
    bias = bias + Bias::table(RelativeTable::swin(swin, options.swin_window[0], options.swin_window[1]));
  }
  if (given[3].given()) bias = bias + Bias::table(RelativeTable::shaw(shaw));
  return bias;
}

CallOptions::CallOptions(Command& command, ArrayFiles& files)
    : bias(files.input("--bias",
                       "f32, added to the logits, broadcastable to [batch, heads, q_len, k_len]; may be repeated",
                       repeated())),
      alibi(files.input("--alibi", "f32 [heads] or [batch, heads]: slopes of ALiBi")),
      sinks(files.input("--sinks", "f32 [heads]: each head's logit of one more key, without a value")) {
  command.add({causal_option(causal_), align_option(align_)});
  command.add(mask_number_options(numbers_));
  for (const MaskDescription& kind : mask_kinds()) {
    if (kind.arrays.empty()) continue;
    MaskArrays& mask = mask_arrays_.emplace_back(&kind);
    const std::string option = kind.kind == MaskKind::boolean ? "--mask" : "--" + std::string(kind.name);
    for (const MaskArray& array : kind.arrays) {
      const bool is_first = mask.inputs.empty();
      const std::string help =
          is_first ? fmt::format("{}: {}", array.form, kind.rule) : "the same for the keys, where they differ";
      Rules rules = is_first ? Rules() : needs(option);
      if (kind.kind == MaskKind::boolean) rules = repeated();
      if (kind.kind == MaskKind::prefix) rules = excludes("--causal");
      mask.inputs.push_back(array.of == MaskArrayOf::sequences
                                ? &files.numbers(option, help, rules)
                                : &files.input(is_first ? option : option + "-key", help, rules));
    }
  }
  command.add(table_options(tables));
  command.add(score_options(score));
  command.add(
      {{"--scale", finite(scale_, "X"), "factor of the scores (default: 1/sqrt(head_dim) for scaled-dot, else 1)"},
       soft_cap_option(soft_cap_),
       precision_option(precision_)});
  command.add(dropout_options(dropout_));
  command.add({empty_rows_option(empty_rows_),
               {"--memory-limit", size(memory_limit_),
                "most bytes to allocate besides inputs and outputs: fewer threads, or a refusal (default: no limit)"}});
}

void CallOptions::add_layouts(ArrayFiles& files) {
  offsets_query = &files.numbers("--offsets-query", "i32 or i64 [batch + 1]: where packed queries begin");
  offsets_key =
      &files.numbers("--offsets-key", "i32 or i64 [batch + 1]: where packed keys begin", needs("--offsets-query"));
  block_table =
      &files.input("--block-table", "i32 [batch, blocks]: pages of each sequence; --lengths says how many keys it has",
                   excludes("--offsets-key"));
}

void CallOptions::check() const {
  check_score_options(score);
  if (given(offsets_query) && !given(offsets_key) && !given(block_table)) {
    throw UsageError("--offsets-query", "requires --offsets-key, or --block-table");
  }
  const MaskBounds bounds = bounds_of(numbers_);
  const bool has_bounds = bounds.left >= 0 || bounds.right >= 0 || bounds.step > 1 || !bounds.chunks.empty();
  const bool has_positions =
      has_bounds || input_of(MaskKind::prefix).given() || any_given(tables.tables) || alibi.given();
  if (align_ && !has_positions) {
    throw UsageError(
        "--align",
        "has no effect without --window, --dilated, --chunks, --prefix, --alibi or a table of relative positions");
  }
}

void CallOptions::read(Dtype accumulation) {
  for (const MaskArrays& mask : mask_arrays_) {
    for (InputArray* input : mask.inputs) input->read();
  }
  for (InputArray* input : {offsets_query, offsets_key, block_table}) {
    if (input != nullptr) input->read();
  }
  for (InputArray* input : {&bias, &alibi, &sinks}) input->read_as(accumulation);
  table_values = read_tables(tables, accumulation);
  score_values = read_score_parameters(score, accumulation);
}

const InputArray& CallOptions::input_of(MaskKind kind) const {
  return *std::ranges::find(mask_arrays_, kind, [](const MaskArrays& mask) { return mask.kind->kind; })->inputs[0];
}

Mask CallOptions::mask() const {
  Mask mask = numbers_;
  if (causal_) mask = mask & Mask::causal(*causal_);
  if (align_) mask = mask & Mask::window(-1, -1, *align_);
  for (const MaskArrays& arrays : mask_arrays_) {
    for (const Tensor& first : arrays.inputs[0]->arrays) {
      Mask::Part part{.kind = arrays.kind->kind, .arrays = {first}};
      if (arrays.inputs.size() > 1) part.arrays[1] = arrays.inputs[1]->view();
      mask = mask & Mask(std::move(part));
    }
  }
  return mask;
}

AttentionOptions CallOptions::options() const {
  AttentionOptions options{.mask = mask(),
                           .bias = {},
                           .scale = scale_,
                           .soft_cap = soft_cap_,
                           .score = score_values.score(),
                           .precision = precision_,
                           .dropout = dropout_,
                           .empty_rows = empty_rows_,
                           .sinks = sinks.view(),
                           .offsets_query = view_of(offsets_query),
                           .offsets_key = view_of(offsets_key),
                           .block_table = view_of(block_table),
                           .memory_limit = memory_limit_,
                           .stop = interruption()};
  for (const Tensor& added : bias.arrays) options.bias = options.bias + Bias::view(added);
  if (alibi.given()) options.bias = options.bias + Bias::alibi(alibi.view());
  options.bias = options.bias + table_values.bias(tables);
  return options;
}

// Offsets, tables and lengths that break the rules only need a bounded answer here; attention() refuses them.
std::int64_t CallOptions::row_length(const TensorView& key) const {
  if (given(block_table)) {
    const TensorView table = block_table->view();
    if (table.rank() != 2 || key.rank() != 4) return 0;
    const std::int64_t capacity = std::min(table.size(1), table.element_count()) * key.size(1);
    const InputArray& lengths = input_of(MaskKind::lengths);
    return lengths.given() ? longest_of(lengths.view(), capacity) : capacity;
  }
  if (!given(offsets_key)) return key.size(-2);
  const TensorView given = offsets_key->view();
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
