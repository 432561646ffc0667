// attention(): its arguments are checked, the call is scheduled and carried out: blocks of queries, or single queries,
// which the threads take one by one.
#include <algorithm>
#include <atomic>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "attention/call/apart.h"
#include "attention/call/attention_call.h"
#include "attention/extras/weight_sums.h"
#include "attention/forward/attention_in_place.h"
#include "attention/forward/folded_heads.h"
#include "attention/forward/forward_schedule.h"
#include "core/float_environment.h"
#include "core/mathematics.h"
#include "core/share.h"
#include "core/stop.h"
#include "core/visit_dtype.h"
#include "qkv/attention.h"
#include "qkv/threads.h"
#include "simd/dispatch.h"
#include "simd/scratch.h"

namespace qkv {
namespace {

// Which task a thread takes. In parts, each begins with heads of its own, whose keys stay in its cache for all their
// blocks of queries, and then helps with what the others have left.
class TaskOrder {
 public:
  // In `parts` that begin with a head, for `threads`.
  TaskOrder(std::int64_t heads, std::int64_t tasks_per_head, std::int64_t parts, int threads)
      : parts_(static_cast<std::size_t>(parts)), step_(divide_up(threads, parts)) {
    for (std::int64_t n = 0; n < parts; ++n) {
      Part& part = parts_[static_cast<std::size_t>(n)];
      part.next = heads * n / parts * tasks_per_head;
      part.end = heads * (n + 1) / parts * tasks_per_head;
    }
  }

  struct Taken {
    std::int64_t task, likely;  // and which one probably comes after it
  };
  // As often as there are tasks.
  Taken take(int worker) {
    for (std::size_t n = static_cast<std::size_t>(worker);; ++n) {
      Part& part = parts_[n % parts_.size()];
      if (part.next >= part.end) continue;
      if (const std::int64_t task = part.next++; task < part.end) return {task, std::min(task + step_, part.end - 1)};
    }
  }

 private:
  struct alignas(64) Part {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };
  std::vector<Part> parts_;
  const std::int64_t step_;
};

// One checked call and the threads that carry it out.
class ForwardPass {
 public:
  ForwardPass(const AttentionCall& call, const AttentionSchedule& schedule) : call_(call), schedule_(schedule) {}

  void run(const AttentionExtras& extras) {
    clear(extras.received);
    clear(extras.block_weights);
    if (schedule_.empty) return;
    if (schedule_.split.wave(schedule_.threads) > 0) {
      attend_split_blocks();
    } else if (!schedule_.prefills.empty()) {
      attend_blocks();
    }
    if (!schedule_.single_queries.empty()) attend_single_queries();
    if (!schedule_.chosen_blocks.empty()) run_rows();
  }

 private:
  // Chosen rows are attended once more, those that one block of queries holds together.
  void run_rows() {
    const SingleQueryPlan alone = plan_single_query(call_.task(0, 0), 1);
    const std::vector<ChosenRow>& rows = call_.chosen_rows();
    const std::vector<std::int64_t>& begins = schedule_.chosen_blocks;
    std::vector<Scratch> scratch(static_cast<std::size_t>(schedule_.threads));
    parallel_for(static_cast<std::int64_t>(begins.size()) - 1, schedule_.threads, [&](std::int64_t n, int worker) {
      check_stop();
      const auto begin = static_cast<std::size_t>(n);
      const std::span<const ChosenRow> block(&rows[static_cast<std::size_t>(begins[begin])],
                                             static_cast<std::size_t>(begins[begin + 1] - begins[begin]));
      AttentionTask task = call_.task(block.front().sequence, block.front().head, TaskOutputs::chosen_rows);
      Scratch& own = scratch[static_cast<std::size_t>(worker)];
      const ScratchRoom memory = own.get(schedule_.row_bytes);
      if (call_.is_single_query(task.sequence)) {
        for (const ChosenRow& row : block) {
          task.weights = {task.row_weights.data + row.place * task.row_weights.step * element_, 0};
          attend_group(&task, 1, alone, memory);
        }
      } else {
        task.chosen = block.data();
        task.chosen_count = static_cast<std::int64_t>(block.size());
        own.renew();  // the single query writes there, too
        attend_forward({&task, block.front().query, block.back().query + 1}, {}, memory);
      }
    });
  }

  // The tasks of two heads, the present and the likely next one, each made when it is new.
  class HeadTasks {
   public:
    // That of `head`, in place of another than `kept`.
    const AttentionTask& of(const ForwardPass& pass, std::int64_t head, std::int64_t kept) {
      for (const auto& [made, task] : tasks_) {
        if (made == head) return task;
      }
      auto& [made, task] = tasks_[tasks_[0].head == kept ? 1 : 0];
      made = head;
      const AttentionCall& call = pass.call_;
      const std::int64_t b = pass.schedule_.prefills[static_cast<std::size_t>(head / call.heads)];
      // Of a single query only its statistics are left to do.
      return task =
                 call.task(b, head % call.heads, call.is_single_query(b) ? TaskOutputs::statistics : TaskOutputs::all);
    }

   private:
    struct {
      std::int64_t head = -1;
      AttentionTask task;
    } tasks_[2];
  };

  struct Worker {
    Scratch scratch;
    Precision precision = Precision::exact;  // of what is kept there
    HeadTasks heads;
  };

  std::size_t bytes_of(std::int64_t elements) const { return static_cast<std::size_t>(elements * element_); }

  // Whether a core's own cache holds the keys and values of a head. Others lie in one that cores share: a head at a
  // time.
  bool fit_one_core() const {
    constexpr std::size_t kMostBytes = 512 * 1024;
    const std::int64_t elements = call_.k_len * (call_.key_dim + call_.value_dim);
    return static_cast<std::size_t>(elements) * size_of(call_.storage) <= kMostBytes;
  }

  // Shorter sequences than the longest leave some tasks empty, which costs nothing.
  void attend_blocks() {
    const std::int64_t tasks = schedule_.tasks_per_head;
    std::optional<WeightSums> sums;
    if (schedule_.sums) sums.emplace(schedule_.sum_sizes, call_.heads, schedule_.threads);
    std::vector<Worker> workers(static_cast<std::size_t>(schedule_.threads));
    // A caller's own pool may begin tasks in any order: sums need theirs.
    const std::int64_t heads = schedule_.tasks / tasks;
    const bool apart = !sums && heads >= schedule_.threads && fit_one_core();
    TaskOrder order(heads, tasks, apart ? schedule_.threads : 1, schedule_.threads);
    std::atomic<std::int64_t> begun{0};
    const ShareTasks share(schedule_.tasks);
    parallel_for(schedule_.tasks, schedule_.threads, [&](std::int64_t, int number) {
      const std::int64_t before = begun++;
      if (number == 0) share.begun(before);
      Worker& worker = workers[static_cast<std::size_t>(number)];
      const auto [index, likely] = order.take(number);
      const AttentionTask& task = worker.heads.of(*this, index / tasks, likely / tasks);
      const bool folds = schedule_.folded.together(task.q_len) > 1;
      if (folds && (index % tasks > 0 || !schedule_.folded.leads(task))) return;
      const AttentionTask& next = worker.heads.of(*this, likely / tasks, index / tasks);
      // Without sums late queries first: under a causal mask they see the most.
      const auto block_of = [&](const AttentionTask& of, std::int64_t nth) {
        const auto [begin, end] = schedule_.queries_of(sums ? nth : tasks - 1 - nth, of.q_len);
        return QueryBlock{&of, begin, end};
      };
      const QueryBlock present = block_of(task, index % tasks), then = block_of(next, likely % tasks);
      const ScratchRoom scratch = worker.scratch.get(schedule_.block.scratch_bytes);
      if (std::exchange(worker.precision, task.precision) != task.precision) worker.scratch.renew();
      if (folds) {
        check_stop();
        return schedule_.folded.attend(call_, task, then, scratch);
      }
      if (sums) return attend_summed(*sums, present, then, scratch);
      if (present.begin >= present.end) return;
      check_stop();
      attend_forward(present, then, scratch);
    });
  }

  static void attend_summed(WeightSums& sums, const QueryBlock& block, const QueryBlock& next,
                            const ScratchRoom& scratch) {
    const AttentionTask& task = *block.task;
    if (block.begin > 0 && block.begin >= task.q_len) return;
    try {
      check_stop();
      const AttentionTask summed = sums.begin(task, block.begin == 0);
      if (block.begin < block.end) attend_forward({&summed, block.begin, block.end}, next, scratch);
      if (block.end == task.q_len) sums.end(task);
    } catch (...) {
      sums.abandon();
      throw;
    }
  }

  // Blocks whose keys are spread over the threads.
  void attend_split_blocks() {
    const auto block_of = [&](std::int64_t unit) { return schedule_.split_blocks[static_cast<std::size_t>(unit)]; };
    const auto task_of = [&](const SplitBlock& block) { return call_.task(block.sequence, block.head); };
    const auto attend = [&](const SplitBlock& block, const KeyPart& keys, const ScratchRoom& scratch) {
      check_stop();
      const AttentionTask task = task_of(block);
      if (schedule_.folded.together(task.q_len) > 1) return schedule_.folded.attend(call_, task, {}, scratch, keys);
      attend_forward({&task, block.begin, block.end}, {}, scratch, keys);
    };
    schedule_.split.run(
        schedule_.threads,
        [&](std::int64_t unit, std::int64_t chunk, const ScratchRoom& scratch, std::byte* part) {
          const SplitBlock block = block_of(unit);
          const std::int64_t first = (block.first_chunk + chunk) * kChunkKeys;
          attend(block, {first, first + kChunkKeys, nullptr, part}, scratch);
        },
        [&](std::int64_t unit, std::byte* part, const std::byte* next) {
          const SplitBlock block = block_of(unit);
          merge_parts(task_of(block), block.rows, part, next);
        },
        [&](std::int64_t unit, const ScratchRoom& scratch, const std::byte* part) {
          attend(block_of(unit), {.first = 0, .last = 0, .from = part}, scratch);
        });
  }

  void set_group_tasks(std::int64_t unit, std::vector<AttentionTask>& tasks) const {
    const std::int64_t b = schedule_.single_queries[static_cast<std::size_t>(unit / call_.kv_heads)];
    const std::int64_t group = schedule_.single_query.group;
    tasks.clear();
    for (std::int64_t h = 0; h < group; ++h) call_.set(tasks.emplace_back(), b, unit % call_.kv_heads * group + h);
  }

  // Whether threads take whole units or chunks of them, chunks are merged in order.
  void attend_single_queries() {
    const SingleQuerySchedule& schedule = schedule_.single_query;
    if (schedule.split.wave(schedule_.threads) > 0) return attend_split_single_queries();
    struct Memory {
      Scratch scratch;
      std::vector<AttentionTask> tasks;
    };
    std::vector<Memory> memory(static_cast<std::size_t>(schedule_.threads));
    const auto units = static_cast<std::int64_t>(schedule.split.chunks.size());
    parallel_for(units, schedule_.threads, [&](std::int64_t unit, int worker) {
      auto& [scratch, tasks] = memory[static_cast<std::size_t>(worker)];
      set_group_tasks(unit, tasks);
      attend_group(tasks.data(), schedule.group, schedule.kernel, scratch.get(schedule.split.whole_bytes));
    });
  }

  // `memory`: scratch, and two parts.
  void attend_group(const AttentionTask* tasks, std::int64_t heads, const SingleQueryPlan& plan,
                    ScratchRoom memory) const {
    const ScratchRoom scratch = memory.take_room(plan.scratch_bytes);
    std::byte* part = memory.take_bytes(bytes_of(heads * plan.row_elements));
    std::byte* next = memory.take_bytes(bytes_of(heads * plan.row_elements));
    check_stop();
    attend_single_query(tasks, heads, 0, scratch, part);
    for (std::int64_t chunk = kChunkKeys; chunk < tasks[0].k_len; chunk += kChunkKeys) {
      check_stop();
      attend_single_query(tasks, heads, chunk, scratch, next);
      merge_single_queries(tasks, heads, part, next);
    }
    finish_single_queries(tasks, heads, scratch, part);
  }

  void attend_split_single_queries() {
    const std::int64_t group = schedule_.single_query.group;
    std::vector<std::vector<AttentionTask>> units(schedule_.single_query.split.chunks.size());
    for (std::size_t unit = 0; unit < units.size(); ++unit)
      set_group_tasks(static_cast<std::int64_t>(unit), units[unit]);
    const auto tasks_of = [&](std::int64_t unit) { return units[static_cast<std::size_t>(unit)].data(); };
    schedule_.single_query.split.run(
        schedule_.threads,
        [&](std::int64_t unit, std::int64_t chunk, const ScratchRoom& scratch, std::byte* part) {
          check_stop();
          attend_single_query(tasks_of(unit), group, chunk * kChunkKeys, scratch, part);
        },
        [&](std::int64_t unit, std::byte* part, const std::byte* next) {
          merge_single_queries(tasks_of(unit), group, part, next);
        },
        [&](std::int64_t unit, const ScratchRoom& scratch, std::byte* part) {
          finish_single_queries(tasks_of(unit), group, scratch, part);
        });
  }

  const AttentionCall& call_;
  const AttentionSchedule& schedule_;
  const std::int64_t element_ = static_cast<std::int64_t>(size_of(call_.accumulation));
};

void fill_with_nan(std::byte* row, Dtype type, std::int64_t count) {
  visit_dtype(type, [&]<class T>(T) {
    if constexpr (!std::is_integral_v<T>) {
      std::fill_n(reinterpret_cast<T*>(row), count, T(std::numeric_limits<float>::quiet_NaN()));
    }
  });
}

void fill_row(const OutputRows& rows, std::int64_t row, Dtype type, std::int64_t count) {
  fill_with_nan(rows.data + row * rows.step * static_cast<std::int64_t>(size_of(type)), type, count);
}

bool sees_nothing(const AttentionTask& task, Dtype accumulation, std::int64_t query) {
  const std::int64_t at = query * task.log_sum_exp.step;
  const auto is_lowest = [at]<class T>(const T* sums) { return sums[at] == -std::numeric_limits<T>::infinity(); };
  return accumulation == Dtype::f64 ? is_lowest(reinterpret_cast<const double*>(task.log_sum_exp.data))
                                    : is_lowest(reinterpret_cast<const float*>(task.log_sum_exp.data));
}

// Makes outputs and weights of rows without keys NaN, after everything else was written, log-sum-exp among it.
void fill_empty_rows(const AttentionCall& call, int threads) {
  const Dtype wide = call.accumulation;
  parallel_for(call.batch * call.heads, threads, [&](std::int64_t index, int) {
    const AttentionTask task = call.task(index / call.heads, index % call.heads);
    for (std::int64_t i = 0; i < task.q_len; ++i) {
      if (!sees_nothing(task, wide, i)) continue;
      fill_row(task.out, i, task.common->out_type, task.common->value_dim);
      if (task.weights.data != nullptr) fill_row(task.weights, i, wide, task.k_len);
    }
  });
  for (const auto& [sequence, head, query, place] : call.chosen_rows()) {
    const AttentionTask task = call.task(sequence, head);
    if (sees_nothing(task, wide, query)) fill_row(task.row_weights, place, wide, task.k_len);
  }
}

std::vector<NamedView> outputs_of(const MutableTensorView& out, const AttentionExtras& extras) {
  std::vector<NamedView> outputs{{"out", out}};
  for (const OutputDescription& kind : attention_outputs()) {
    if (extras.*kind.view) outputs.push_back({kind.name, extras.*kind.view});
  }
  return outputs;
}

// `inputs`: which no output may overlap.
void attend(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
            const AttentionOptions& options, const AttentionExtras& extras, const std::vector<NamedView>& inputs) {
  ensure_target();
  const FloatEnvironment environment;
  const StopScope stop(options.stop);
  const AttentionCall call(q, k, v, options, out, extras);
  require_apart(outputs_of(out, extras), inputs);
  const AttentionSchedule schedule(call, extras);
  ForwardPass(call, schedule).run(extras);
  if (call.empty_rows == EmptyRows::nan) fill_empty_rows(call, schedule.threads);
}

}  // namespace

void attention(const TensorView& q, const TensorView& k, const TensorView& v, const MutableTensorView& out,
               const AttentionOptions& options, const AttentionExtras& extras) {
  std::vector<NamedView> inputs = inputs_of(q, k, v, options);
  if (extras.rows) inputs.push_back({"rows", extras.rows});
  attend(q, k, v, out, options, extras, inputs);
}

void attending::attention_in_place(const MutableTensorView& q, const TensorView& k, const TensorView& v,
                                   const AttentionOptions& options) {
  attend(q, k, v, q, options, {}, inputs_of({}, k, v, options));
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
