// qkv info: what this build and this machine offer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "attention/forward/forward_kernel.h"
#include "commands.h"
#include "inputs/options.h"
#include "qkv/attention/precision.h"
#include "qkv/models/find_model.h"
#include "qkv/pipelines/certify.h"
#include "qkv/target.h"
#include "qkv/threads.h"
#include "qkv/version.h"
#include "signals.h"

namespace qkv::app {
namespace {

struct InfoRequest {
  std::string model{};
  ModelStorage storage{};
  bool json = false;
};

constexpr std::int64_t kHeadDims[] = {64, 1024};  // the usual one and the largest

// Maximum bytes of attention per thread besides inputs and outputs, at any length.
std::size_t scratch_bytes(std::int64_t head_dim, Dtype dtype) {
  CommonTask common;
  common.query_dim = common.key_dim = common.value_dim = head_dim;
  AttentionTask task;
  task.common = &common;
  task.query.type = task.key.type = task.value.type = dtype;
  task.k_len = std::int64_t{1} << 24;
  return plan_forward(task).scratch_bytes;
}

// As a reader of the command line knows it.
std::string rule_text() { return threads_rule() == ThreadsRule::set_threads ? "--threads" : name_of(threads_rule()); }

void print_text(const std::string& fingerprint) {
  fmt::print("qkv {}\n", version());
  if (!fingerprint.empty()) fmt::print("fingerprint: {}\n", fingerprint);
  fmt::print("threads: {} of {} ({})\n", threads(), hardware_threads(), rule_text());
  fmt::print("targets, best first (QKV_TARGET):\n");
  for (const Target& target : targets()) {
    if (target.usable) {
      fmt::print("  {:12}{:2} floats a vector{}\n", target.name, target.lanes, target.selected ? ", selected" : "");
    } else {
      fmt::print("  {:12}not usable on this CPU\n", target.name);
    }
  }
  fmt::print("precision reduced: {}\n",
             has_reduced_precision() ? "factors of products are bf16" : "attention is computed exactly");
  fmt::print("memory of attention besides inputs and outputs, at any length:\n");
  for (const std::int64_t head_dim : kHeadDims) {
    const auto kib = [&](Dtype dtype) { return (scratch_bytes(head_dim, dtype) + 1023) / 1024; };
    fmt::print("  head_dim {:4}: {:5} KiB a thread in f32, {:5} in bf16 and f16\n", head_dim, kib(Dtype::f32),
               kib(Dtype::bf16));
  }
}

void print_json(const std::string& fingerprint) {
  nlohmann::ordered_json info = {{"version", version()},
                                 {"threads", threads()},
                                 {"threads_rule", rule_text()},
                                 {"hardware_threads", hardware_threads()},
                                 {"reduced_precision", has_reduced_precision()}};
  if (!fingerprint.empty()) info["fingerprint"] = fingerprint;
  for (const Target& target : targets()) {
    info["targets"].push_back({{"name", target.name},
                               {"usable", target.usable},
                               {"selected", target.selected},
                               {"lanes", target.lanes},
                               {"fused", target.fused}});
  }
  for (const std::int64_t head_dim : kHeadDims) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}) {
      info["memory"].push_back(
          {{"head_dim", head_dim}, {"dtype", name_of(dtype)}, {"bytes_per_thread", scratch_bytes(head_dim, dtype)}});
    }
  }
  fmt::print("{}\n", info.dump(2));
}

}  // namespace

void add_info(Command& program) {
  Command& command = program.add_command("info", "Print the version, the CPU targets and the number of threads");
  command.add_examples({{"This machine", "qkv info"}, {"The fingerprint of a model", "qkv info --model models/en-es"}});
  const auto request = std::make_shared<InfoRequest>();
  command.add({{"--model", file(request->model, "FOLDER"),
                "Also print this model's fingerprint: equal ones give the same bits (docs/arithmetic.md)"}});
  command.add(storage_options(request->storage));
  command.add({{"--json", flag(request->json), "Print one JSON object"}});
  command.on_run([request] {
    std::string fingerprint;
    if (!request->model.empty()) {
      fingerprint =
          fingerprint_of_folder(find_model(request->model), request->storage.of_model(), {.stop = interruption()});
    }
    request->json ? print_json(fingerprint) : print_text(fingerprint);
  });
}

}  // namespace qkv::app
