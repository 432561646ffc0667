// Trains a sequence model and measures it on examples that it has not seen.
#include "compare/reader_run.h"

#include <algorithm>
#include <limits>

#include "compare/catalog.h"
#include "compare/input_gradients.h"
#include "compare/model_size.h"
#include "compare/run_seeds.h"
#include "compare/sequence_tasks.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kTrainingExamples = 1 << 15, kValidationExamples = 64;
constexpr std::int64_t kMeasuredAtOnce = 100;  // examples

}  // namespace

RunResult run_reader(const Run& run, const RunPlace& place) {
  const SequenceTask task = sequence_task(run.task);
  SequenceModel model(sized(sequence_kind(run.model), vocab_of(task), catalog_task(run.task).parameters), run.seed);
  const SequenceExamples train(task, seed_for(Use::training, run.seed), kTrainingExamples);
  const SequenceExamples valid(task, seed_for(Use::validation, run.seed), kValidationExamples);
  RunResult result{.parameters = parameter_count(model), .asked = std::numeric_limits<std::int64_t>::max()};
  result.norms = train_run<SequenceBatch>(run, place, model, {.train = train, .valid = valid});
  for (const std::int64_t extent : extents_of(task)) {
    LossSum sum;
    for (std::int64_t done = 0; done < run.examples; done += kMeasuredAtOnce) {
      const std::vector<std::int64_t> extents(static_cast<std::size_t>(std::min(kMeasuredAtOnce, run.examples - done)),
                                              extent);
      const auto index = static_cast<std::uint64_t>(extent << 32 | done);
      const LossSum part = model.loss(draw_batch(task, extents, seed_for(Use::measuring, run.seed) ^ index));
      sum.metric += part.metric;
      sum.count += part.count;
    }
    result.accuracy[extent] = sum.metric / static_cast<double>(sum.count);
    result.asked = std::min(result.asked, sum.count);
  }
  if (task == SequenceTask::recall) result.gradients = input_gradients(model, run.seed);
  return result;
}

}  // namespace qkv::comparison
