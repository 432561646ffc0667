// qkv plan: what a call of attention would do, without any array but masks, and without computing anything.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>

#include "attention/call/memory_count.h"
#include "commands.h"
#include "options.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/explain/cost.h"
#include "qkv/files.h"
#include "signals.h"
#include "table_options.h"

namespace qkv::app {
namespace {

enum class PlanPass { forward, backward, jvp, double_backward };

struct PlanRequest {
  AttentionSizes sizes{};
  PlanPass pass = PlanPass::forward;
  std::vector<std::string> outputs{};
  Mask window{};
  std::vector<std::int64_t> prefix{}, lengths{};
  NamedFile mask{"--mask"}, documents{"--documents"}, documents_key{"--documents-key"};
  NamedFile bias{"--bias"}, alibi{"--alibi"}, sinks{"--sinks"};
  TableOptions tables{};
  ScoreOptions score{};
  Dropout dropout{};
  EmptyRows empty_rows = EmptyRows::zero;
  double soft_cap = 0;
  std::int64_t memory_limit = 0;
  bool json = false;
};

void print(const AttentionPlan& plan) {
  fmt::print("kernel      {} on {}, {}{} thread{}\n", plan.kernel, plan.target,
             plan.precision == Precision::reduced ? "in bf16, " : "", plan.threads, plan.threads == 1 ? "" : "s");
  fmt::print("tiles       {}, {} of them skipped", plan.tiles, plan.skipped_tiles);
  if (plan.tile_keys > 0) fmt::print("; {} queries x {} keys", plan.block_queries, plan.tile_keys);
  fmt::print("{}\n", plan.chunk_keys > 0 ? fmt::format("; chunks of {} keys", plan.chunk_keys) : "");
  fmt::print("operations  {:.4g}\n", plan.operations);
  fmt::print("bytes       {:.4g} of inputs and outputs\n", plan.bytes);
  fmt::print("workspace   {} bytes\n", plan.workspace);
  for (const std::string& remark : plan.remarks) fmt::print("because     {}\n", remark);
}

// Arrays that masks, biases and scores borrow.
struct Inputs {
  explicit Inputs(const PlanRequest& request)
      : accumulation(accumulation_of(*request.sizes.dtype)),
        prefix(Tensor::of({static_cast<std::int64_t>(request.prefix.size())}, request.prefix)),
        lengths(Tensor::of({static_cast<std::int64_t>(request.lengths.size())}, request.lengths)),
        mask(read(request.mask)),
        documents(read(request.documents)),
        documents_key(read(request.documents_key)),
        bias(read_wide(request.bias)),
        alibi(read_wide(request.alibi)),
        sinks(read_wide(request.sinks)),
        tables(read_tables(request.tables, accumulation)),
        score(read_score_parameters(request.score, accumulation)) {}

  static Tensor read(const NamedFile& file) { return file.given() ? read_array(file.path) : Tensor(); }
  Tensor read_wide(const NamedFile& file) const {
    return file.given() ? read_parameter(file.option, file.path, accumulation) : Tensor();
  }

  Dtype accumulation;
  Tensor prefix, lengths, mask, documents, documents_key, bias, alibi, sinks;
  Tables tables;
  ScoreParameters score;
};

AttentionOptions options_of(const PlanRequest& request, const Inputs& inputs) {
  MaskArrays masks{.window = request.window, .causal = request.sizes.causal};
  if (!request.prefix.empty()) masks.prefix = inputs.prefix;
  if (!request.lengths.empty()) masks.lengths = inputs.lengths;
  if (request.documents.given()) masks.documents_query = inputs.documents;
  if (request.documents_key.given()) masks.documents_key = inputs.documents_key;
  if (request.mask.given()) masks.booleans.push_back(inputs.mask);
  AttentionOptions options{.mask = masks.combined(),
                           .bias = inputs.tables.bias(request.tables),
                           .soft_cap = request.soft_cap,
                           .score = inputs.score.score(),
                           .precision = request.sizes.precision,
                           .dropout = request.dropout,
                           .empty_rows = request.empty_rows,
                           .memory_limit = request.memory_limit,
                           .stop = interruption()};
  if (request.bias.given()) options.bias = options.bias + Bias::view(inputs.bias);
  if (request.alibi.given()) options.bias = options.bias + Bias::alibi(inputs.alibi);
  if (request.sinks.given()) options.sinks = inputs.sinks;
  return options;
}

// What `qkv attend` can be asked for besides the output, by the names of its options.
AttentionExtras extras_of(const AttentionSizes& sizes, const std::vector<std::string>& names) {
  AttentionExtras extras;
  const Dims rows{sizes.batch, sizes.heads, sizes.q_len}, planes{sizes.batch, sizes.heads, sizes.q_len, sizes.k_len};
  const auto view_of = [&](const Dims& shape) {
    static std::byte nowhere{};
    return MutableTensorView(&nowhere, accumulation_of(*sizes.dtype), shape);
  };
  const std::map<std::string, std::function<void()>> all = {
      {"log-sum-exp", [&] { extras.log_sum_exp = view_of(rows); }},
      {"weights", [&] { extras.weights = view_of(planes); }},
      {"logits", [&] { extras.logits = view_of(planes); }},
      {"row-maximum", [&] { extras.row_maximum = view_of(rows); }},
      {"entropy", [&] { extras.entropy = view_of(rows); }},
      {"top-keys",
       [&] {
         extras.top_weights = view_of({sizes.batch, sizes.heads, sizes.q_len, 8});
         extras.top_keys = {extras.top_weights.bytes(), Dtype::i64, extras.top_weights.shape()};
       }},
      {"received", [&] { extras.received = view_of({sizes.batch, sizes.heads, sizes.k_len}); }},
      {"block-weights", [&] { extras.block_weights = view_of({sizes.batch, sizes.heads, 64, 64}); }}};
  for (const std::string& name : names) {
    const auto found = all.find(name);
    if (found == all.end()) {
      std::string known;
      for (const auto& [each, ask] : all) known += (known.empty() ? "" : ", ") + each;
      throw UsageError("--outputs", fmt::format("\"{}\" must be one of {}", name, known));
    }
    found->second();
  }
  return extras;
}

AttentionPlan plan_of(const PlanRequest& request, const AttentionOptions& options) {
  const AttentionSizes& sizes = request.sizes;
  const auto without_elements = [&](const Dims& shape) { return MutableTensorView(nullptr, *sizes.dtype, shape); };
  const MutableTensorView q = without_elements(sizes.query()), k = without_elements(sizes.key());
  const MutableTensorView v = without_elements(sizes.value());
  switch (request.pass) {
    case PlanPass::forward:
      return plan(q, k, v, options, extras_of(sizes, request.outputs));
    case PlanPass::backward:
      return plan_backward(q, k, v, options, {.query = q, .key = k, .value = v});
    case PlanPass::jvp:
      return plan_jvp(q, k, v, {.query = q, .key = k, .value = v}, options, {.out = without_elements(sizes.out())});
    case PlanPass::double_backward:
      return plan_double_backward(q, k, v, {.query = q, .key = k, .value = v}, options,
                                  {.query = q, .key = k, .value = v, .grad_out = without_elements(sizes.out())});
  }
  throw std::logic_error("pass of unknown kind");
}

// Where no array is read, all that can be wrong stands on the command line.
AttentionPlan plan_of_words(const PlanRequest& request, const Inputs& inputs) {
  try {
    return plan_of(request, options_of(request, inputs));
  } catch (const MemoryLimitError&) {
    throw;
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string(without_function(error.what())));
  }
}

void run(const Command& command, PlanRequest& request) {
  request.sizes.complete();
  if (request.pass != PlanPass::forward && !request.outputs.empty()) {
    throw UsageError("--outputs", "needs --pass forward");
  }
  const Inputs inputs(request);
  const std::vector<OptionHelp> options = command.help().options;
  const bool reads = std::ranges::any_of(
      options, [&](const OptionHelp& option) { return option.type == "FILE" && command.given(option.names.front()); });
  const AttentionPlan result = reads ? plan_of(request, options_of(request, inputs)) : plan_of_words(request, inputs);
  if (request.json) {
    fmt::print("{}\n", to_json(result));
  } else {
    print(result);
  }
}

}  // namespace

void add_plan(Command& program) {
  Command& command = program.add_command("plan", "Show what a call of attention would do, without running it");
  const auto request = std::make_shared<PlanRequest>();
  const Names<PlanPass> passes = {{"forward", PlanPass::forward},
                                  {"backward", PlanPass::backward},
                                  {"jvp", PlanPass::jvp},
                                  {"double-backward", PlanPass::double_backward}};
  const auto array = [](NamedFile& named, const char* help, const Rules& rules = {}) -> Option {
    return {named.option, file(named.path), help, rules};
  };
  command.add(size_options(request->sizes));
  command.add(
      {{"--pass", choice(request->pass, passes),
        "what is computed: the output, gradients, tangents, or gradients of gradients (default: forward)"},
       {"--outputs", comma_list(request->outputs, "NAME,NAME,..."), "optional outputs, as in attend: weights, ..."}});
  command.add(window_options(request->window));
  command.add({{"--prefix", comma_list(request->prefix, "N,N,..."),
                "keys of each sequence that all queries see; after them only those up to their own position",
                excludes("--causal")},
               {"--lengths", comma_list(request->lengths, "N,N,..."), "keys of each sequence"},
               array(request->mask, "bool or u8, 0 = hidden, broadcastable to [batch, heads, q_len, k_len]"),
               array(request->documents, "i32 or i64 [batch, length]: a query sees keys of its own document"),
               array(request->documents_key, "the same for keys (default: that of the queries)", needs("--documents")),
               array(request->bias, "f32, added to the logits, broadcastable to [batch, heads, q_len, k_len]"),
               array(request->alibi, "f32 [heads] or [batch, heads]: slopes of ALiBi")});
  command.add(table_options(request->tables));
  command.add({array(request->sinks, "f32 [heads]: each head's logit of one more key, without a value")});
  command.add(score_options(request->score));
  command.add({soft_cap_option(request->soft_cap)});
  command.add(dropout_options(request->dropout));
  command.add({empty_rows_option(request->empty_rows),
               {"--memory-limit", size(request->memory_limit), "bytes besides inputs and outputs (default: no limit)"},
               {"--json", flag(request->json), "print one JSON object"}});
  command.on_run([&command, request] { run(command, *request); });
}

}  // namespace qkv::app
