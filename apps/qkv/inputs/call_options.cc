#include "inputs/call_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "explain/steps/explanation_context.h"
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

struct ScoreParameter {
  const char* option;
  std::vector<Score::Kind> kinds;
  const char* help;
};

const std::vector<ScoreParameter>& score_parameters() {
  using enum Score::Kind;
  static const std::vector<ScoreParameter> list = {
      {"--score-w-query", {additive}, "additive: [hidden, query size]"},
      {"--score-w-key", {additive}, "additive: [hidden, key size]"},
      {"--score-v", {additive, concat}, "additive, concat: [hidden]"},
      {"--score-w", {concat, bilinear}, "concat: [hidden, query size + key size]; bilinear: [query size, key size]"}};
  return list;
}

}  // namespace

ScoreOptions::ScoreOptions(Command& command, ArrayFiles& files, const char* help) {
  using enum Score::Kind;
  Names<Score::Kind> names;
  for (const Score::Kind one : {dot, scaled_dot, additive, concat, bilinear}) names.emplace_back(score_name(one), one);
  command.add({{"--score", choice(kind, names), help}});
  for (const auto& [option, kinds, about] : score_parameters()) parameters.push_back(&files.input(option, about));
}

void ScoreOptions::refuse_surplus() const {
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i]->given() || std::ranges::count(score_parameters()[i].kinds, kind) > 0) continue;
    throw UsageError(parameters[i]->name, fmt::format("--score {} has no such parameter", score_name(kind)));
  }
}

void ScoreOptions::check() const {
  refuse_surplus();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i]->given() || std::ranges::count(score_parameters()[i].kinds, kind) == 0) continue;
    throw UsageError("--score " + score_name(kind), fmt::format("{} is missing", parameters[i]->name));
  }
}

Score ScoreOptions::score() const {
  const TensorView w_query = parameters[0]->view(), w_key = parameters[1]->view(), v = parameters[2]->view(),
                   w = parameters[3]->view();
  switch (kind) {
    case Score::Kind::scaled_dot:
      return Score::scaled_dot();
    case Score::Kind::dot:
      return Score::dot();
    case Score::Kind::additive:
      return Score::additive(w_query, w_key, v);
    case Score::Kind::concat:
      return Score::concat(w, v);
    case Score::Kind::bilinear:
      return Score::bilinear(w);
  }
  throw std::logic_error("score of unknown kind");
}

void CallOptions::add_tables(Command& command, ArrayFiles& files) {
  const auto add = [&](const char* option, const char* help, const Rules& rules = {}) {
    tables.push_back(&files.input(option, help, rules));
  };
  const Names<bool> yes_or_no = {{"yes", true}, {"no", false}};
  const Value window{
      .variable = &swin_window_, .type = "H,W", .check = whole_number(1, 1024), .delimiter = ',', .count = 2};
  add("--clipped-table", "f32 [2 n + 1, heads]: added by key position minus query position, clipped to n");
  add("--t5-table", "f32 [buckets, heads]: added by T5's buckets of distances");
  command.add({{"--t5-max-distance", size(t5_buckets_.max_distance, std::int64_t{1} << 24),
                "Distances from here on share one bucket (default 128)", needs("--t5-table")},
               {"--t5-bidirectional", choice(t5_buckets_.bidirectional, yes_or_no),
                "Separate buckets for keys after the query (default yes)", needs("--t5-table")}});
  add("--swin-table", "f32 [(2 H - 1) (2 W - 1), heads]: added by relative position in a window, as in Swin",
      needs("--swin-window"));
  command.add({{"--swin-window", window, "Height and width of the window", needs("--swin-table")}});
  add("--shaw-table",
      "f32 [2 n + 1, head_dim]: adds scale q . row, by key position minus query position, clipped to n (Shaw)");
}

Bias CallOptions::bias_of_tables() const {
  Bias all;
  if (tables[0]->given()) all = all + Bias::clipped(tables[0]->view());
  if (tables[1]->given()) all = all + Bias::t5(tables[1]->view(), t5_buckets_);
  if (tables[2]->given()) all = all + Bias::swin(tables[2]->view(), swin_window_[0], swin_window_[1]);
  if (tables[3]->given()) all = all + Bias::shaw(tables[3]->view());
  return all;
}

CallOptions::CallOptions(Command& command, ArrayFiles& files)
    : bias(files.input("--bias",
                       "f32, added to the logits, broadcastable to [batch, heads, q_len, k_len]; may be repeated",
                       repeated())),
      alibi(files.input("--alibi", "f32 [heads] or [batch, heads]: slopes of ALiBi")),
      sinks(files.input("--sinks", "f32 [heads]: each head's logit of an extra key without a value")) {
  command.add({causal_option(causal_), align_option(align_)});
  command.add(mask_number_options(numbers_));
  for (const MaskDescription& kind : mask_kinds()) {
    if (kind.arrays.empty()) continue;
    MaskArrays& mask = mask_arrays_.emplace_back(&kind);
    const std::string option = kind.kind == MaskKind::boolean ? "--mask" : "--" + std::string(kind.name);
    for (const MaskArray& array : kind.arrays) {
      const bool is_first = mask.inputs.empty();
      const std::string help =
          is_first ? fmt::format("{}: {}", array.form, kind.rule) : "The same for the keys, if different";
      Rules rules = is_first ? Rules() : needs(option);
      if (kind.kind == MaskKind::boolean) rules = repeated();
      if (kind.kind == MaskKind::prefix) rules = excludes("--causal");
      mask.inputs.push_back(array.of == MaskArrayOf::sequences
                                ? &files.numbers(option, help, rules)
                                : &files.input(is_first ? option : option + "-key", help, rules));
    }
  }
  add_tables(command, files);
  score.emplace(command, files);
  command.add(
      {{"--scale", finite(scale_, "X"), "Factor of the scores (default: 1/sqrt(head_dim) for scaled-dot, else 1)"},
       soft_cap_option(soft_cap_),
       precision_option(precision_)});
  command.add(dropout_options(dropout_));
  command.add({empty_rows_option(empty_rows_),
               {"--memory-limit", size(memory_limit_),
                "Maximum bytes to allocate besides inputs and outputs; uses fewer threads, or fails (default: no "
                "limit)"}});
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
  score->check();
  if (given(offsets_query) && !given(offsets_key) && !given(block_table)) {
    throw UsageError("--offsets-query", "requires --offsets-key, or --block-table");
  }
  const MaskBounds bounds = bounds_of(numbers_);
  const bool has_bounds = bounds.left >= 0 || bounds.right >= 0 || bounds.step > 1 || !bounds.chunks.empty();
  const bool has_positions = has_bounds || input_of(MaskKind::prefix).given() ||
                             std::ranges::any_of(tables, &InputArray::given) || alibi.given();
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
  for (InputArray* table : tables) table->read_as(accumulation);
  for (InputArray* parameter : score->parameters) parameter->read_as(accumulation);
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
                           .score = score->score(),
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
  options.bias = options.bias + bias_of_tables();
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
