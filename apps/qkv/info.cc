// qkv info: what this build and this machine offer.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/attention_forward.h"
#include "qkv/commands.h"
#include "qkv/options.h"
#include "qkv/target.h"
#include "qkv/threads.h"

namespace qkv::app {
namespace {

// Bytes that attention takes per thread beyond inputs and outputs, whatever the lengths.
std::size_t scratch_bytes(std::int64_t head_dim) {
  const AttentionTask task{.query_dim = head_dim, .key_dim = head_dim, .value_dim = head_dim};
  return plan_forward(task, Dtype::f32).scratch_bytes;
}

void print_text() {
  fmt::print("qkv {}\n", QKV_VERSION);
  fmt::print("{} threads of {} (--threads, QKV_THREADS)\n", threads(), hardware_threads());
  fmt::print("targets, best first (QKV_TARGET):\n");
  for (const Target& target : targets()) {
    if (target.usable) {
      fmt::print("  {:10}{:2} floats a vector{}\n", target.name, target.lanes, target.selected ? ", selected" : "");
    } else {
      fmt::print("  {:10}not usable on this CPU\n", target.name);
    }
  }
}

void print_json() {
  nlohmann::ordered_json info = {
      {"version", QKV_VERSION}, {"threads", threads()}, {"hardware_threads", hardware_threads()}};
  for (const Target& target : targets()) {
    info["targets"].push_back(
        {{"name", target.name}, {"usable", target.usable}, {"selected", target.selected}, {"lanes", target.lanes}});
  }
  fmt::print("{}\n", info.dump(2));
}

}  // namespace

void add_info(CLI::App& program) {
  CLI::App& command = *program.add_subcommand("info", "Print the version, the CPU targets and the number of threads");
  add_threads(command);
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "print one JSON object");
  command.callback([json] { *json ? print_json() : print_text(); });
}

}  // namespace qkv::app
