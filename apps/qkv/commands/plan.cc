// qkv plan: what a call of attention would do, without any array but masks, and without computing anything.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "attention/call/memory_count.h"
#include "commands.h"
#include "commands/attend_outputs.h"
#include "core/counted.h"
#include "figures.h"
#include "inputs/call_options.h"
#include "inputs/options.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/explain/cost.h"
#include "simd/dispatch.h"

namespace qkv::app {
namespace {

enum class PlanPass { forward, backward, jvp, double_backward };

struct PlanRequest {
  AttentionSizes sizes{};
  PlanPass pass = PlanPass::forward;
  std::vector<std::string> outputs{};
  bool json = false;
};

// Products take most of the time of several queries, at this share of the peak (docs/benchmarks.md); reading keys and
// values that of single ones.
double seconds_of(const AttentionPlan& plan, Dtype dtype) {
  constexpr double kShare = 0.7, kBytesPerSecond = 2e10;
  const double rate = kShare * 1e9 * peak_gflops(multiplied_in(plan.precision, dtype)) * plan.threads;
  return std::max(plan.operations / rate, plan.bytes / kBytesPerSecond);
}

void print(const AttentionPlan& plan, Dtype dtype) {
  fmt::print("kernel      {} on {}, {}{}\n", plan.kernel, plan.target,
             plan.precision == Precision::exact ? "" : fmt::format("{}, ", name_of(plan.precision)),
             counted(plan.threads, "thread"));
  fmt::print("tiles       {}, {} of them skipped", plan.tiles, plan.skipped_tiles);
  if (plan.tile_keys > 0) fmt::print("; {} queries x {} keys", plan.block_queries, plan.tile_keys);
  fmt::print("{}\n", plan.chunk_keys > 0 ? fmt::format("; chunks of {} keys", plan.chunk_keys) : "");
  fmt::print("operations  {:.4g}\n", plan.operations);
  fmt::print("memory      {} of inputs and outputs, {} of scratch\n", bytes_text(plan.bytes),
             bytes_text(static_cast<double>(plan.workspace)));
  fmt::print("time        about {} on {}\n", seconds_text(seconds_of(plan, dtype)), counted(plan.threads, "thread"));
  for (const std::string& remark : plan.remarks) fmt::print("because     {}\n", remark);
}

// Optional outputs of `qkv attend`, by the names of its options.
AttentionExtras extras_of(const AttentionSizes& sizes, const std::vector<std::string>& names) {
  AttentionExtras extras;
  const RowShapes shapes{.rows = {sizes.batch, sizes.heads, sizes.q_len},
                         .received = {sizes.batch, sizes.heads, sizes.k_len},
                         .blocks = {sizes.batch, sizes.heads},
                         .length = sizes.k_len};
  const auto view_of = [&](const Dims& shape) {
    static std::byte nowhere{};
    return MutableTensorView(&nowhere, accumulation_of(*sizes.dtype), shape);
  };
  for (const std::string& name : names) {
    std::string known;
    bool found = false;
    for (const OutputDescription& kind : attention_outputs()) {
      if (kind.of == OutputOf::chosen || kind.view == &AttentionExtras::top_weights) continue;
      known += (known.empty() ? "" : ", ") + output_word(kind);
      if (output_word(kind) != name) continue;
      extras.*kind.view = view_of(output_shape(kind.of, shapes, 0, kUsualTop, kUsualBlocks));
      found = true;
    }
    if (!found) throw UsageError("--outputs", fmt::format("\"{}\" must be one of {}", name, known));
  }
  if (extras.top_keys) {
    extras.top_weights = extras.top_keys;
    extras.top_keys = {extras.top_weights.bytes(), Dtype::i64, extras.top_weights.shape()};
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
AttentionPlan plan_of_words(const PlanRequest& request, const AttentionOptions& options) {
  try {
    return plan_of(request, options);
  } catch (const MemoryLimitError&) {
    throw;
  } catch (const std::invalid_argument& error) {
    throw UsageError(message_of(error));
  }
}

class Plan {
 public:
  explicit Plan(Command& command) : command_(command), files_(command), options_(command, files_) {
    const Names<PlanPass> passes = {{"forward", PlanPass::forward},
                                    {"backward", PlanPass::backward},
                                    {"jvp", PlanPass::jvp},
                                    {"double-backward", PlanPass::double_backward}};
    command.add(size_options(request_.sizes));
    command.add(
        {{"--pass", choice(request_.pass, passes),
          "Pass to plan: output, gradients, tangents or second-order gradients (default: forward)"},
         {"--outputs", comma_list(request_.outputs, "NAME,NAME,..."), "Optional outputs, as in attend: weights, ..."},
         {"--json", flag(request_.json), "Print one JSON object"}});
  }

  void run() {
    request_.sizes.complete();
    options_.check();
    if (request_.pass != PlanPass::forward && !request_.outputs.empty()) {
      throw UsageError("--outputs", "needs --pass forward");
    }
    options_.read(accumulation_of(*request_.sizes.dtype));
    const std::vector<OptionHelp> options = command_.help().options;
    const bool reads = std::ranges::any_of(options, [&](const OptionHelp& option) {
      return option.type == "FILE" && command_.given(option.names.front());
    });
    const AttentionPlan result =
        reads ? plan_of(request_, options_.options()) : plan_of_words(request_, options_.options());
    if (request_.json) {
      fmt::print("{}\n", to_json(result));
    } else {
      print(result, *request_.sizes.dtype);
    }
  }

 private:
  Command& command_;
  ArrayFiles files_;
  PlanRequest request_;
  CallOptions options_;
};

}  // namespace

void add_plan(Command& program) {
  Command& command = program.add_command("plan", "Show what a call of attention would do, without running it");
  command.add_examples(
      {{"A call with grouped heads", "qkv plan --heads 32 --kv-heads 8 --q-len 512 --k-len 4096 --head-dim 128"}});
  const auto plan = std::make_shared<Plan>(command);
  command.on_run([plan] { plan->run(); });
}

}  // namespace qkv::app
