// The list of optional outputs.
#include "attention/call/output_kinds.h"

#include <algorithm>
#include <cmath>

#include "attention/tile/attention_task.h"
#include "core/mathematics.h"

namespace qkv::inline attending {
namespace {

using Extras = AttentionExtras;
using Task = AttentionTask;

double entropy_of(const RowInDoubles& row) {
  const auto share = [](double weight) { return weight > 0 ? -weight * log(weight) : 0; };
  double nats = share(row.sink_weight);
  for (const double weight : row.weights) nats += share(weight);
  return nats;
}

double weight_at(const RowInDoubles& row, double key) {
  return key < 0 || key >= static_cast<double>(row.weights.size()) ? 0 : row.weights[static_cast<std::size_t>(key)];
}

double maximum_of(const RowInDoubles& row) {
  double largest = -HUGE_VAL;
  for (const double logit : row.logits) {
    if (largest < logit || logit != logit) largest = logit;
  }
  return largest;
}

constexpr OutputDescription kOutputs[] = {
    {"log_sum_exp", &Extras::log_sum_exp, &Task::log_sum_exp, OutputOf::rows, false, false, false,
     "the log-sum-exp of each row of logits", [](const RowInDoubles& row) { return row.log_sum_exp; }},
    {"weights", &Extras::weights, &Task::weights, OutputOf::pairs, false, true, false, "the weights", nullptr},
    {"logits", &Extras::logits, &Task::logits, OutputOf::pairs, false, true, false,
     "the logits, -infinity where masked", nullptr},
    {"row_weights", &Extras::row_weights, &Task::row_weights, OutputOf::chosen, false, false, false,
     "the weights of chosen rows alone", nullptr},
    {"row_maximum", &Extras::row_maximum, &Task::row_maximum, OutputOf::rows, true, false, false,
     "the largest logit of each row", maximum_of},
    {"entropy", &Extras::entropy, &Task::entropy, OutputOf::rows, true, true, false,
     "the entropy of each row of weights, in nats", entropy_of},
    {"self_weight", &Extras::self_weight, &Task::self_weight, OutputOf::rows, true, true, false,
     "the weight of each query on its own position",
     [](const RowInDoubles& row) { return weight_at(row, row.position); }},
    {"previous_weight", &Extras::previous_weight, &Task::previous_weight, OutputOf::rows, true, true, false,
     "the weight of each query on the position before its own",
     [](const RowInDoubles& row) { return weight_at(row, row.position - 1); }},
    {"top_keys", &Extras::top_keys, &Task::top_keys, OutputOf::top, true, false, true,
     "the keys of the largest weights of each row", nullptr},
    {"top_weights", &Extras::top_weights, &Task::top_weights, OutputOf::top, true, false, false,
     "the weights of these keys", nullptr},
    {"received", &Extras::received, &Task::received, OutputOf::keys, true, true, false,
     "how much weight each key received", nullptr},
    {"block_weights", &Extras::block_weights, nullptr, OutputOf::blocks, true, true, false,
     "averages of the weights over blocks", nullptr},
};

// All of AttentionExtras; `rows` goes with row_weights.
static_assert(sizeof(Extras) == (kOutputCount + 1) * sizeof(TensorView));

}  // namespace

std::span<const OutputDescription, kOutputCount> attention_outputs() { return kOutputs; }

}  // namespace qkv::inline attending
