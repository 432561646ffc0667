// attention(): checked arguments become blocks of queries, or single queries to decode, which the threads take one by
// one.
#include "qkv/attention.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "kernels/attention_forward.h"
#include "kernels/attention_problem.h"
#include "kernels/decode.h"
#include "kernels/dispatch.h"
#include "kernels/scratch.h"
#include "qkv/error.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// One checked call and the threads that carry it out.
class ForwardCall {
 public:
  ForwardCall(const AttentionProblem& problem, const AttentionOptions& options)
      : problem_(problem),
        stop_(options.stop),
        thread_count_(std::min(options.threads > 0 ? options.threads : threads(), kMaxThreads)),
        group_(problem.heads == 0 ? 0 : problem.heads / problem.kv_heads) {
    for (std::int64_t b = 0; problem.heads > 0 && b < problem.batch; ++b) {
      if (is_decoded(problem.task(b, 0))) decoded_.push_back(b);
      if (!problem.packed && decoded_.empty()) break;  // all sequences are alike
    }
  }

  void run(const AttentionExtras& extras) {
    const bool sums = extras.received || extras.block_weights;
    if (sums) {
      clear(extras.received);
      clear(extras.block_weights);
    }
    if (problem_.batch == 0 || problem_.heads == 0 || problem_.q_len == 0) return;
    const bool statistics = sums || extras.row_maximum || extras.entropy || extras.top_keys;
    if (statistics || decoded_.size() < static_cast<std::size_t>(problem_.batch)) attend_blocks(statistics, sums);
    if (!decoded_.empty()) decode();
    if (extras.block_weights) divide_block_weights();
  }

  // Chosen rows are attended once more, alone: their bits do not depend on their neighbours.
  void run_rows(const AttentionExtras& extras) {
    const ForwardPlan block_plan = plan_forward(problem_.task(0, 0), problem_.storage);
    const DecodePlan decode_plan = plan_decode(problem_.task(0, 0), 1, problem_.storage);
    const std::size_t part_bytes = bytes_of(decode_plan.row_elements);
    std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count_));
    parallel_for(extras.rows.size(0), thread_count_, [&](std::int64_t i, int worker) {
      check_stop();
      const std::int64_t query = extras.rows.at<std::int64_t>({i, 2});
      AttentionTask task = problem_.task(extras.rows.at<std::int64_t>({i, 0}), extras.rows.at<std::int64_t>({i, 1}));
      task = without_statistics(task);
      task.out = task.log_sum_exp = task.logits = nullptr;
      task.weights = extras.row_weights.bytes() + i * extras.row_weights.stride(0) * element_;
      task.weights_step = 0;
      std::byte* memory = scratch[static_cast<std::size_t>(worker)].get(
          std::max(block_plan.scratch_bytes, decode_plan.scratch_bytes + 2 * part_bytes));
      if (is_decoded(task)) {
        decode_group(&task, 1, decode_plan, memory);
      } else {
        attend_forward({&task, query, query + 1}, {}, problem_.storage, memory);
      }
    });
  }

 private:
  // The task of one head, made when it changes.
  class HeadTask {
   public:
    const AttentionTask& of(const ForwardCall& call, std::int64_t head, bool statistics) {
      if (head == head_) return task_;
      head_ = head;
      task_ = call.problem_.task(head / call.problem_.heads, head % call.problem_.heads);
      if (statistics && is_decoded(task_)) {  // only its statistics are left to do
        task_.out = task_.log_sum_exp = task_.weights = task_.logits = nullptr;
      }
      return task_;
    }

   private:
    std::int64_t head_ = -1;
    AttentionTask task_;
  };

  struct Worker {
    Scratch scratch;
    HeadTask present, next;
  };

  void check_stop() const {
    if (stop_.stop_requested()) throw Stopped();
  }

  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements * element_); }

  static AttentionTask without_statistics(AttentionTask task) {
    task.row_maximum = task.entropy = task.top_keys = task.top_weights = {};
    task.top_count = 0;
    task.received = task.block_weights = nullptr;
    return task;
  }

  // `in_order`: a thread takes all blocks of a head, the first ones first, because sums over queries are wanted.
  void attend_blocks(bool statistics, bool in_order) {
    const ForwardPlan plan = plan_forward(problem_.task(0, 0), problem_.storage);
    // Blocks of the longest sequence: shorter ones leave some tasks empty, which costs nothing.
    const std::int64_t blocks = (problem_.q_len + plan.block_queries - 1) / plan.block_queries;
    const std::int64_t tasks = in_order ? 1 : blocks;  // per head
    const std::int64_t total = problem_.batch * problem_.heads * tasks;
    std::vector<Worker> workers(static_cast<std::size_t>(thread_count_));
    parallel_for(total, thread_count_, [&](std::int64_t index, int number) {
      Worker& worker = workers[static_cast<std::size_t>(number)];
      const AttentionTask& task = worker.present.of(*this, index / tasks, statistics);
      if (is_decoded(task) && !statistics) return;
      // Else late blocks first: under a causal mask they are the longest.
      const std::int64_t first = in_order ? 0 : blocks - 1 - index % tasks;
      const std::int64_t likely = std::min(index + std::min<std::int64_t>(thread_count_, tasks), total - 1);
      const AttentionTask& next = worker.next.of(*this, likely / tasks, statistics);
      const std::int64_t next_first = in_order ? 0 : blocks - 1 - likely % tasks;
      const auto block_of = [&](const AttentionTask& of, std::int64_t block) {
        const std::int64_t begin = block * plan.block_queries;
        return QueryBlock{&of, begin, std::min(begin + plan.block_queries, of.q_len)};
      };
      const std::int64_t last = first + (in_order ? blocks : 1);
      for (std::int64_t block = first; block < last; ++block) {
        const QueryBlock present = block_of(task, block);
        if (present.begin >= present.end) return;
        check_stop();
        attend_forward(present, block + 1 < last ? block_of(task, block + 1) : block_of(next, next_first),
                       problem_.storage, worker.scratch.get(plan.scratch_bytes));
      }
    });
  }

  // From sums to averages over the pairs of each part.
  void divide_block_weights() {
    for (std::int64_t head = 0; head < problem_.batch * problem_.heads; ++head) {
      const AttentionTask task = problem_.task(head / problem_.heads, head % problem_.heads);
      // Elements i of n whose part i * parts / n is `part`.
      const auto size_of_part = [](std::int64_t part, std::int64_t parts, std::int64_t n) {
        return ((part + 1) * n + parts - 1) / parts - (part * n + parts - 1) / parts;
      };
      for (std::int64_t r = 0; r < task.block_rows; ++r) {
        for (std::int64_t c = 0; c < task.block_columns; ++c) {
          const std::int64_t pairs =
              size_of_part(r, task.block_rows, task.q_len) * size_of_part(c, task.block_columns, task.k_len);
          if (pairs == 0) continue;
          const std::int64_t at = r * task.block_step + c;
          if (problem_.accumulation == Dtype::f64) {
            reinterpret_cast<double*>(task.block_weights)[at] /= static_cast<double>(pairs);
          } else {
            reinterpret_cast<float*>(task.block_weights)[at] /= static_cast<float>(pairs);
          }
        }
      }
    }
  }

  std::vector<AttentionTask> group_tasks(std::int64_t unit) const {
    const std::int64_t b = decoded_[static_cast<std::size_t>(unit / problem_.kv_heads)];
    std::vector<AttentionTask> tasks;
    for (std::int64_t h = 0; h < group_; ++h) tasks.push_back(problem_.task(b, unit % problem_.kv_heads * group_ + h));
    return tasks;
  }

  // Units are the key/value heads of the decoded sequences. Many units: a thread takes one whole. Few: their chunks of
  // keys are spread over the threads. Either way chunks are merged in order.
  void decode() {
    const std::int64_t units = static_cast<std::int64_t>(decoded_.size()) * problem_.kv_heads;
    const std::int64_t chunks = (problem_.k_len + kChunkKeys - 1) / kChunkKeys;
    const DecodePlan plan = plan_decode(problem_.task(0, 0), group_, problem_.storage);
    const std::size_t part_bytes = bytes_of(group_ * plan.row_elements);
    if (units < 2 * thread_count_ && chunks > 1 && thread_count_ > 1) {
      decode_in_waves(units, chunks, plan, part_bytes);
      return;
    }
    std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count_));
    parallel_for(units, thread_count_, [&](std::int64_t unit, int worker) {
      decode_group(group_tasks(unit).data(), group_, plan,
                   scratch[static_cast<std::size_t>(worker)].get(plan.scratch_bytes + 2 * part_bytes));
    });
  }

  // `memory`: scratch, and two parts.
  void decode_group(const AttentionTask* tasks, std::int64_t heads, const DecodePlan& plan, std::byte* memory) const {
    std::byte* part = memory + plan.scratch_bytes;
    std::byte* next = part + bytes_of(heads * plan.row_elements);
    check_stop();
    decode_chunk(tasks, heads, problem_.storage, 0, memory, part);
    for (std::int64_t chunk = kChunkKeys; chunk < tasks[0].k_len; chunk += kChunkKeys) {
      check_stop();
      decode_chunk(tasks, heads, problem_.storage, chunk, memory, next);
      merge_decoded(tasks, heads, problem_.storage, part, next);
    }
    finish_decoded(tasks, heads, problem_.storage, memory, part);
  }

  // A wave of chunks at a time bounds the memory of partial results.
  void decode_in_waves(std::int64_t units, std::int64_t chunks, const DecodePlan& plan, std::size_t part_bytes) {
    const std::int64_t wave = std::min<std::int64_t>(chunks, 64);
    std::vector<std::vector<AttentionTask>> tasks;
    for (std::int64_t unit = 0; unit < units; ++unit) tasks.push_back(group_tasks(unit));
    std::vector<Scratch> scratch(static_cast<std::size_t>(thread_count_));
    Scratch totals, parts;
    std::byte* total = totals.get(static_cast<std::size_t>(units) * part_bytes);
    std::byte* part = parts.get(static_cast<std::size_t>(units * wave) * part_bytes);
    for (std::int64_t first = 0; first < chunks; first += wave) {
      const std::int64_t count = std::min(wave, chunks - first);
      parallel_for(units * count, thread_count_, [&](std::int64_t index, int worker) {
        check_stop();
        const std::int64_t unit = index / count, i = index % count;
        std::byte* to = first + i == 0 ? total + static_cast<std::size_t>(unit) * part_bytes
                                       : part + static_cast<std::size_t>(unit * wave + i) * part_bytes;
        decode_chunk(tasks[static_cast<std::size_t>(unit)].data(), group_, problem_.storage, (first + i) * kChunkKeys,
                     scratch[static_cast<std::size_t>(worker)].get(plan.scratch_bytes), to);
      });
      for (std::int64_t unit = 0; unit < units; ++unit) {
        for (std::int64_t i = first == 0 ? 1 : 0; i < count; ++i) {
          merge_decoded(tasks[static_cast<std::size_t>(unit)].data(), group_, problem_.storage,
                        total + static_cast<std::size_t>(unit) * part_bytes,
                        part + static_cast<std::size_t>(unit * wave + i) * part_bytes);
        }
      }
    }
    for (std::int64_t unit = 0; unit < units; ++unit) {
      finish_decoded(tasks[static_cast<std::size_t>(unit)].data(), group_, problem_.storage,
                     scratch[0].get(plan.scratch_bytes), total + static_cast<std::size_t>(unit) * part_bytes);
    }
  }

  const AttentionProblem& problem_;
  const std::stop_token& stop_;
  const int thread_count_;
  const std::int64_t group_;  // query heads per key/value head
  const std::int64_t element_ = static_cast<std::int64_t>(size_of(problem_.accumulation));
  std::vector<std::int64_t> decoded_;  // sequences of one query
};

}  // namespace

void attention(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
               const AttentionOptions& options, const AttentionExtras& extras) {
  ensure_target();
  if (options.threads < 0) throw std::invalid_argument("attention: threads must be 0 (default) or more");
  AttentionProblem problem(q, k, v, options);
  problem.set_outputs(out, extras);
  ForwardCall call(problem, options);
  call.run(extras);
  if (extras.rows && extras.rows.size(0) > 0) call.run_rows(extras);
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
