// qkv plan: what a call of attention would do, without any array but masks, and without computing anything.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "qkv/attention_plan.h"
#include "qkv/attention_sizes.h"
#include "qkv/commands.h"
#include "qkv/files.h"

namespace qkv::app {
namespace {

struct Request {
  AttentionSizes sizes;
  Mask window;
  std::vector<std::int64_t> lengths;
  std::string mask;
  double soft_cap = 0;
  std::int64_t memory_limit = 0;
  bool json = false;
};

void print(const AttentionPlan& plan) {
  fmt::print("kernel      {} on {}, {}{} thread{}\n", plan.kernel, plan.target,
             plan.precision == Precision::reduced ? "in bf16, " : "", plan.threads, plan.threads == 1 ? "" : "s");
  fmt::print("tiles       {}, {} of them skipped", plan.tiles, plan.skipped_tiles);
  if (plan.tile_keys > 0) fmt::print("; {} queries x {} keys", plan.block_queries, plan.tile_keys);
  fmt::print("; chunks of {} keys\n", plan.chunk_keys);
  fmt::print("operations  {:.4g}\n", plan.operations);
  fmt::print("bytes       {:.4g} of inputs and output\n", plan.bytes);
  fmt::print("workspace   {} bytes\n", plan.workspace);
  for (const std::string& remark : plan.remarks) fmt::print("because     {}\n", remark);
}

void print_json(const AttentionPlan& plan) {
  const nlohmann::ordered_json object = {{"kernel", plan.kernel},
                                         {"target", plan.target},
                                         {"precision", plan.precision == Precision::reduced ? "reduced" : "exact"},
                                         {"threads", plan.threads},
                                         {"block_queries", plan.block_queries},
                                         {"tile_keys", plan.tile_keys},
                                         {"chunk_keys", plan.chunk_keys},
                                         {"tiles", plan.tiles},
                                         {"skipped_tiles", plan.skipped_tiles},
                                         {"operations", plan.operations},
                                         {"bytes", plan.bytes},
                                         {"workspace", plan.workspace},
                                         {"remarks", plan.remarks}};
  fmt::print("{}\n", object.dump());
}

void run(Request& request) {
  AttentionSizes& sizes = request.sizes;
  sizes.complete();
  const auto without_elements = [&](const Dims& shape) { return TensorView(nullptr, *sizes.dtype, shape); };
  AttentionOptions options{.mask = request.window,
                           .soft_cap = request.soft_cap,
                           .precision = sizes.precision,
                           .memory_limit = request.memory_limit};
  if (sizes.causal) options.mask = options.mask & Mask::causal(*sizes.causal);
  const Tensor lengths = Tensor::of({static_cast<std::int64_t>(request.lengths.size())}, request.lengths);
  if (!request.lengths.empty()) options.mask = options.mask & Mask::lengths(lengths);
  const Tensor mask = request.mask.empty() ? Tensor() : read_array(request.mask);
  if (!request.mask.empty()) options.mask = options.mask & Mask::boolean(mask);
  const AttentionPlan result =
      plan(without_elements(sizes.query()), without_elements(sizes.key()), without_elements(sizes.value()), options);
  request.json ? print_json(result) : print(result);
}

}  // namespace

void add_plan(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("plan", "Say what a call of attention would do, and do nothing");
  const auto request = std::make_shared<Request>();
  add_attention_sizes(command, request->sizes);
  add_window(command, request->window);
  command.add_option("--lengths", request->lengths, "keys of each sequence")->delimiter(',')->type_name("N,N,...");
  command.add_option("--mask", request->mask, "bool or u8, 0 = hidden, broadcastable to [batch, heads, q_len, k_len]")
      ->type_name("FILE");
  command.add_option("--soft-cap", request->soft_cap, "logits become cap * tanh(logits / cap); 0: off")
      ->check(finite_number(0))
      ->type_name("CAP");
  add_size(command, "--memory-limit", request->memory_limit, "bytes besides inputs and output (default: no limit)");
  command.add_flag("--json", request->json, "print one JSON object");
  command.callback([request] { run(*request); });
}

}  // namespace qkv::app
