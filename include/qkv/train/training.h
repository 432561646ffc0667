/// \file
/// Training a model on examples of any kind: the loop that trains it. What the model must be able to do: trainable.h;
/// what the examples say of themselves: examples.h.
///
///     TransformerEncoderDecoder model = ...;
///     train(model, {.train = PairExamples(pairs), .valid = PairExamples(held_out)}, {.steps = 20000}, "out");
///
/// The same seed, data and config give the same weights, bit for bit, for any number of threads on any CPU target with
/// fused multiply-add (target.h), and also if the process was killed at any moment and started again: the folder keeps
/// checkpoints, and a call that finds one resumes from it. The result is the best checkpoint, or the mean of those that
/// end at it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "qkv/api.h"
#include "qkv/attention/precision.h"
#include "qkv/models/trainable.h"
#include "qkv/train/adam.h"
#include "qkv/train/examples.h"
#include "qkv/train/schedule.h"

namespace qkv {

struct TrainingConfig {
  std::uint64_t seed = 1;
  std::int64_t steps = 0;            ///< updates of the weights, at most; 0: as many as `epochs` has
  std::int64_t epochs = 0;           ///< passes over the data, at most; 0: as many as `steps` takes
  std::int64_t batch_tokens = 4096;  ///< what the examples of a batch cost, at most, if it has more than one
  std::int64_t accumulate = 1;       ///< batches whose gradients make one update
  AdamConfig adam{};
  ScheduleConfig schedule{};
  Precision precision = Precision::exact;  ///< reduced: of the layers' products, attention stays exact
  double clip = 0;                         ///< largest norm of all gradients together (per loss); 0: any
  std::int64_t log_every = 50;             ///< updates
  std::int64_t validate_every = 500;       ///< updates; a checkpoint each time. The end is validated in any case
  double checkpoint_minutes = 10;          ///< a checkpoint also after so many minutes without one; 0: never
  std::int64_t patience = 0;  ///< validations in a row that are no better than the best, after which to end; 0: never
  std::int64_t average = 1;   ///< checkpoints, the best one and those before it, whose mean may be the result
};

struct TrainingProgress {
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::int64_t epoch = 0;  ///< counted from 1
  double loss = 0;         ///< mean since the last line of the log: per target token, per label
  double nll = 0;          ///< the same without label smoothing
  double rate = 0;
  double gradient_norm = 0;      ///< before clipping
  double tokens_per_second = 0;  ///< losses: target tokens, labels; since this call began
  double seconds_left = 0;       ///< until the last step, at that speed
  std::int64_t peak_memory = 0;  ///< bytes that the process has had in memory at a time, at most
};

/// Another measure than the loss, under the model's name for it (Trainable::metric_name).
struct Metric {
  std::string name;
  double value = 0;  ///< a mean, the higher the better
};

struct Validation {
  std::int64_t step = 0;
  double loss = 0;  ///< mean: per target token, per label
  double perplexity = 0;
  std::optional<double> bits_per_byte{};  ///< all losses in bits, over the bytes of the text (ExampleSet::bytes)
  std::optional<Metric> metric{};
  bool best = false;
};

class QKV_API TrainingObserver {
 public:
  virtual ~TrainingObserver() = default;
  virtual void receive(const TrainingProgress& progress) = 0;
  virtual void receive(const Validation& validation) = 0;
  /// A message for the user: where training resumes from, a damaged checkpoint.
  virtual void notice(const std::string& text) = 0;
};

template <class Batch>
struct TrainingData {
  const Examples<Batch>& train;
  const Examples<Batch>& valid;
};

/// The same for batches of any kind: what the loop asks, of examples by their numbers.
struct TrainingTask {
  Trainable& model;
  const ExampleSet& train;
  const ExampleSet& valid;
  std::function<LossSum(std::span<const std::uint32_t> chosen, std::uint64_t dropout_seed)> backward;  ///< of train
  std::function<LossSum(std::span<const std::uint32_t> chosen)> loss;                                  ///< of valid
};

struct TrainingOptions {
  TrainingObserver* observer = nullptr;
  std::stop_token stop{};  ///< ends by Stopped, after a checkpoint of the last whole update
  /// Dependencies of the weights besides data and config, by name: they must be unchanged to resume from a checkpoint,
  /// or may differ with `change`.
  std::map<std::string, std::string> identity{};
  std::map<std::string, std::string> settings{};
  bool change = false;  ///< resumes although the config or `settings` changed; the log says what changed
  /// Writes the model, which at that moment has the best weights so far, or the final ones.
  std::function<void()> write_model{};
};

struct TrainingResult {
  std::int64_t step = 0;
  std::int64_t best_step = 0;
  double best_loss = 0;
  std::optional<Metric> best_metric{};
  std::int64_t averaged = 1;  ///< checkpoints, the best one the last of them, whose mean was tried; below 2: none
  double mean_loss = 0;       ///< of that mean
  bool is_mean = false;       ///< the result is the mean, as it is better than the best; else it is the best
};

/// Trains until the last step or the end of patience. Of two validations the better one has the higher metric; without
/// a metric, or with equal ones, the lower loss. Afterwards the model has the weights of the result. `folder` gets
/// checkpoints/, log.jsonl (one object a line) and loss.svg. Nothing in it changes before everything has been checked.
/// A call resumes from the checkpoints of another if the weights would be the same: more steps or more patience make no
/// difference, except that the rate of Decay::cosine depends on the steps. What may differ with options.change: all of
/// the config but the seed.
/// std::invalid_argument if the config is invalid, the data is empty, the loss is not finite, or the folder's
/// checkpoints are of another training; IoError if the folder is in use by another process or cannot be written: what
/// it holds stays whole, and training can resume from it.
QKV_API TrainingResult train(const TrainingTask& task, const TrainingConfig& config, const std::string& folder,
                             const TrainingOptions& options = {});

template <class Batch>
TrainingResult train(TrainableOn<Batch>& model, const TrainingData<Batch>& data, const TrainingConfig& config,
                     const std::string& folder, const TrainingOptions& options = {}) {
  const TrainingTask task{
      .model = model,
      .train = data.train,
      .valid = data.valid,
      .backward = [&](auto chosen, auto seed) { return model.backward(data.train.collect(chosen), seed); },
      .loss = [&](auto chosen) { return model.loss(data.valid.collect(chosen)); }};
  return train(task, config, folder, options);
}

}  // namespace qkv
