// Lists why a call is not the fastest possible.
#include "attention/plan/attention_remarks.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "attention/call/attention_problem.h"
#include "qkv/target.h"

namespace qkv::inline attending {
namespace {

void remark_on_table(AttentionPlan& plan, RelativeTable::Kind kind) {
  switch (kind) {
    case RelativeTable::Kind::clipped:
    case RelativeTable::Kind::t5:
      return plan.remarks.push_back("a table of relative positions is added to the logits: about 1.06 times the time");
    case RelativeTable::Kind::swin:
      return plan.remarks.push_back("a Swin table is looked up for each logit: about 1.25 times the time");
    case RelativeTable::Kind::shaw:
      return plan.remarks.push_back(
          "Shaw's table multiplies each query with the rows within its reach: 1.2 times the time for a reach of 16 "
          "keys, 2.8 times for 511");
  }
}

bool has_scattered_documents(const AttentionProblem& problem) {
  for (std::int64_t b = 0; b < problem.batch; ++b) {
    if (problem.task(b, 0).key_documents != nullptr) return true;
  }
  return false;
}

}  // namespace

void remark_on_target(AttentionPlan& plan) {
  const std::vector<Target> all = targets();
  const auto best = std::find_if(all.begin(), all.end(), [](const Target& target) { return target.usable; });
  if (best == all.end() || best->name == plan.target) return;
  plan.remarks.push_back(fmt::format("target {} is selected, this CPU could run {}", plan.target, best->name));
}

void remark_on_threads(AttentionPlan& plan, int allowed, int asked) {
  if (allowed < asked) {
    plan.remarks.push_back(fmt::format("memory_limit allows {} of {} threads", allowed, asked));
  } else if (plan.threads < allowed) {
    plan.remarks.push_back(fmt::format("there is work for {} of {} threads", plan.threads, allowed));
  }
}

void remark_on_options(AttentionPlan& plan, const AttentionProblem& problem, const AttentionOptions& options) {
  const auto add = [&](std::string line) { plan.remarks.push_back(std::move(line)); };
  const AttentionTask task = problem.task(0, 0);
  if (!is_dot_product(task.common->score)) {
    add("no dedicated kernel for this score: queries and keys are projected first");
  }
  if (task.common->soft_cap != 0) add("soft cap: a hyperbolic tangent for each logit");
  if (task.common->bias_count > 0) add("a bias is read element by element and added: about 1.3 times the time");
  if (!options.bias.alibi_slopes().empty()) {
    add("ALiBi adds a slope times the distance to each logit: about 1.4 times the time");
  }
  for (const RelativeTable& table : options.bias.tables()) remark_on_table(plan, table.kind());
  if (options.logit_function) {
    add("a logit function is called for each pair: 1.0 to 4.3 times the time, by what it computes");
  }
  if (task.common->dropout.is_on()) add("dropout draws random bits for each pair: about 1.1 times the time");
  if (task.common->boolean_count > 0) add("a boolean mask is read once, for 16 queries and 8 keys at a time");
  if (task.common->mask_function_count > 0) add("a mask function is called for each pair: about 1.4 times the time");
  if (task.common->step > 1)
    add("a dilated window computes whole tiles: keys between its steps cost as much as visible ones");
  if (has_scattered_documents(problem)) {
    add("documents whose keys are scattered are compared key by key: up to 1.5 times the time of contiguous documents");
  }
  const bool half = problem.storage == Dtype::bf16 || problem.storage == Dtype::f16;
  if (half && plan.precision == Precision::exact) {
    const bool prefill = plan.kernel.starts_with("prefill");
    if (prefill && task.product == BlockProduct::tiles) {
      add(fmt::format("{} is multiplied by tiles, in pieces of bf16 where that is exact", name_of(problem.storage)));
    } else {
      const bool pairs = (prefill || plan.kernel == "decode") && task.product == BlockProduct::pairs;
      add(fmt::format("{} is widened to f32{}", name_of(problem.storage),
                      pairs ? ", but for the exact product of queries and keys" : ""));
    }
  }
  if (problem.storage == Dtype::f64) add("f64 halves the numbers in a vector");
}

void remark_on_forward(AttentionPlan& plan, const AttentionProblem& problem, const AttentionSchedule& schedule,
                       const AttentionOptions& options, const AttentionExtras& extras) {
  const auto add = [&](std::string line) { plan.remarks.push_back(std::move(line)); };
  if (options.precision == Precision::reduced) {
    const std::string reason =
        why_not_reduced(problem.storage, options.score.kind(), problem.key_dim, problem.value_dim);
    if (!reason.empty()) {
      add("precision reduced is computed exactly: " + reason);
    } else if (!schedule.single_queries.empty()) {
      add("precision reduced: single queries are computed exactly; memory limits them, not products");
    }
  }
  const std::int64_t together = schedule.folded.together(problem.q_len);
  if (together > 1) add(fmt::format("the queries of {} heads share a block", together));
  if (schedule.prefill && together * problem.q_len < schedule.block.blocks.queries) {
    add(fmt::format("{} queries do not fill a block of {}", together * problem.q_len, schedule.block.blocks.queries));
  }
  const bool second_pass = schedule.sums || extras.entropy || extras.weights || extras.logits;
  if (second_pass) add("the requested optional outputs need a second pass over the keys");
  const bool are_whole = schedule.prefill && problem.k_len > kChunkKeys && plan.threads < schedule.allowed_threads;
  if (are_whole && second_pass) {
    add("they also keep keys from being split over threads");
  } else if (are_whole && (extras.row_maximum || extras.top_keys)) {
    add(fmt::format("{} keeps keys from being split over threads", extras.row_maximum ? "row_maximum" : "top_keys"));
  }
  if (!schedule.chosen_blocks.empty()) add("chosen rows are computed again, with those near them");
}

}  // namespace qkv::inline attending
