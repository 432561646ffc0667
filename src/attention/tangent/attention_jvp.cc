// attention_jvp(): one task per block of queries of each head, each over all keys in their order.
#include "qkv/attention/attention_jvp.h"

#include <algorithm>
#include <vector>

#include "attention/call/apart.h"
#include "attention/tangent/jvp_call.h"
#include "attention/tangent/jvp_kernel.h"
#include "core/float_environment.h"
#include "core/stop.h"
#include "qkv/threads.h"
#include "simd/dispatch.h"
#include "simd/scratch.h"

namespace qkv {
namespace {

class JvpCall {
 public:
  JvpCall(const AttentionProblem& problem, const TensorView& out, const TensorView& log_sum_exp,
          const AttentionTangents& tangents, const MovedOutputs& outputs)
      : problem_(problem),
        tangents_(problem, tangents),
        out_(problem.query_rows("out", out, problem.value_dim)),
        log_sum_exp_(problem.query_scalars("log_sum_exp", log_sum_exp)) {
    require_type_of_q(problem, "out", out_);
    if (outputs.out) out_tangent_ = problem.query_rows("the tangent of out", outputs.out, problem.value_dim);
    if (outputs.log_sum_exp) {
      log_sum_exp_tangent_ = problem.query_scalars("the tangent of log_sum_exp", outputs.log_sum_exp);
    }
    if (outputs.weight_sum) weight_sum_ = problem.query_scalars("the sum of weights", outputs.weight_sum);
    if (out_tangent_) require_output(problem, "the tangent of out", out_tangent_);
    if (log_sum_exp_tangent_) require_output(problem, "the tangent of log_sum_exp", log_sum_exp_tangent_);
  }

  void run(const JvpSchedule& schedule) const {
    const JvpPlan& plan = schedule.kernel;
    const std::int64_t blocks = schedule.blocks;
    std::vector<Scratch> scratch(static_cast<std::size_t>(schedule.threads));
    parallel_for(schedule.tasks, schedule.threads, [&](std::int64_t index, int worker) {
      check_stop();
      const std::int64_t head = index / blocks, begin = index % blocks * plan.block_queries;
      const std::int64_t b = head / problem_.heads, h = head % problem_.heads;
      const std::int64_t end = std::min(begin + plan.block_queries, problem_.query_length(b));
      if (begin >= end) return;
      attend_jvp(task(b, h), begin, end, scratch[static_cast<std::size_t>(worker)].get(plan.scratch_bytes));
    });
  }

 private:
  JvpTask task(std::int64_t b, std::int64_t h) const {
    JvpTask task;
    task.forward = problem_.task(b, h);
    task.tangents = tangents_.task(problem_, b, h);
    task.out = problem_.rows_of_queries(out_, b, h);
    task.log_sum_exp = problem_.query_address(log_sum_exp_, b, h);
    task.log_sum_exp_step = log_sum_exp_.stride(-1);
    task.out_tangent = rows_at(out_tangent_, b, h, -2);
    task.log_sum_exp_tangent = rows_at(log_sum_exp_tangent_, b, h, -1);
    task.weight_sum = rows_at(weight_sum_, b, h, -1);
    return task;
  }

  // Nowhere for a view that is not given. `rows`: the dimension of the queries.
  OutputRows rows_at(const TensorView& view, std::int64_t b, std::int64_t h, int rows) const {
    if (!view) return {};
    return {writable(problem_.query_address(view, b, h)), view.stride(rows)};
  }

  const AttentionProblem& problem_;
  Tangents tangents_;
  TensorView out_, log_sum_exp_;
  TensorView out_tangent_, log_sum_exp_tangent_, weight_sum_;  // where results go; not given: not wanted
};

}  // namespace

inline namespace attending {

void move_outputs(const AttentionProblem& problem, const TensorView& out, const TensorView& log_sum_exp,
                  const AttentionTangents& tangents, const JvpSchedule& schedule, const MovedOutputs& outputs) {
  const JvpCall call(problem, out, log_sum_exp, tangents, outputs);
  call.run(schedule);
}

}  // namespace attending

void attention_jvp(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out,
                   const TensorView& log_sum_exp, const AttentionTangents& tangents, const AttentionOptions& options,
                   const AttentionOutputTangents& outputs) {
  ensure_target();
  const FloatEnvironment environment;
  const StopScope stop(options.stop);
  AttentionProblem problem(q, k, v, options);
  require_tangents("attention_jvp", problem, options);
  {  // a list that is not kept
    std::vector<NamedView> inputs = inputs_of(q, k, v, options);
    add_tangents(inputs, out, log_sum_exp, tangents);
    require_apart({{"the tangent of out", outputs.out}, {"the tangent of log_sum_exp", outputs.log_sum_exp}}, inputs);
  }
  const JvpSchedule schedule(problem, options);
  problem.compile_mask(schedule.threads);
  move_outputs(problem, out, log_sum_exp, tangents, schedule, {.out = outputs.out, .log_sum_exp = outputs.log_sum_exp});
}

}  // namespace qkv
