// attention(): checked arguments become blocks of queries, which the threads take one by one.
#include "qkv/attention.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/attention_forward.h"
#include "kernels/attention_problem.h"
#include "kernels/dispatch.h"
#include "kernels/scratch.h"
#include "qkv/error.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

void attend_all(const AttentionProblem& problem, const ForwardPlan& plan, const AttentionOptions& options,
                int thread_count) {
  // Blocks of the longest sequence: shorter ones leave some tasks empty, which costs nothing.
  const std::int64_t blocks = (problem.q_len + plan.block_queries - 1) / plan.block_queries;
  std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count));
  parallel_for(problem.batch * problem.heads * blocks, thread_count, [&](std::int64_t index, int worker) {
    const std::int64_t head = index / blocks, b = head / problem.heads, h = head % problem.heads;
    // Late blocks first: under a causal mask they are the longest.
    const std::int64_t begin = (blocks - 1 - index % blocks) * plan.block_queries;
    const std::int64_t end = std::min(begin + plan.block_queries, problem.query_length(b));
    if (begin >= end) return;
    if (options.stop.stop_requested()) throw Stopped();
    attend_forward(problem.task(b, h), problem.storage, begin, end,
                   scratch[static_cast<std::size_t>(worker)].get(plan.scratch_bytes));
  });
}

// Chosen rows are attended once more, alone: their bits do not depend on their neighbours.
void attend_rows(const AttentionProblem& problem, const ForwardPlan& plan, const AttentionOptions& options,
                 const AttentionExtras& extras, int thread_count) {
  std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count));
  parallel_for(extras.rows.size(0), thread_count, [&](std::int64_t i, int worker) {
    if (options.stop.stop_requested()) throw Stopped();
    const std::int64_t query = extras.rows.at<std::int64_t>({i, 2});
    AttentionTask task = problem.task(extras.rows.at<std::int64_t>({i, 0}), extras.rows.at<std::int64_t>({i, 1}));
    task.out = task.log_sum_exp = task.logits = nullptr;
    const auto element = static_cast<std::int64_t>(size_of(problem.accumulation));
    task.weights = extras.row_weights.bytes() + i * extras.row_weights.stride(0) * element;
    task.weights_step = 0;
    attend_forward(task, problem.storage, query, query + 1,
                   scratch[static_cast<std::size_t>(worker)].get(plan.scratch_bytes));
  });
}

}  // namespace

void attention(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
               const AttentionOptions& options, const AttentionExtras& extras) {
  ensure_target();
  if (options.threads < 0) throw std::invalid_argument("attention: threads must be 0 (default) or more");
  AttentionProblem problem(q, k, v, options);
  problem.set_outputs(out, extras);
  if (problem.batch == 0 || problem.heads == 0 || problem.q_len == 0) return;
  const ForwardPlan plan = plan_forward(problem.task(0, 0), problem.storage);
  const int thread_count = std::min(options.threads > 0 ? options.threads : threads(), kMaxThreads);
  attend_all(problem, plan, options, thread_count);
  if (extras.rows) attend_rows(problem, plan, options, extras, thread_count);
}

Tensor attention(const TensorView& q, const TensorView& k, const TensorView& v, const AttentionOptions& options,
                 const AttentionExtras& extras) {
  Dims shape = q.shape();
  if (!shape.empty() && v.rank() > 0) shape[shape.size() - 1] = v.size(-1);
  Tensor out = Tensor::uninitialized(shape, q.dtype());
  attention(q, k, v, out.view(), options, extras);
  return out;
}

}  // namespace qkv
