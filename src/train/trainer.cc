// The loop: batches, gradients, updates; and from time to time a line of the log, a validation, a checkpoint.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/counted.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/train/training.h"
#include "train/checkpoints.h"
#include "train/config/run_identity.h"
#include "train/data/batches.h"
#include "train/elements.h"
#include "train/training_log.h"
#include "train/validation.h"

namespace qkv {
namespace {

using namespace training;

// std::invalid_argument if the config is invalid or the data is empty.
void check(const TrainingConfig& config, const TrainingTask& task) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) refuse("train", "{} is {}; it must be {} or more", name, value, least);
  };
  at_least("epochs", config.epochs, 0);
  at_least("steps", config.steps, config.epochs > 0 ? 0 : 1);
  at_least("batch_tokens", config.batch_tokens, 1);
  at_least("accumulate", config.accumulate, 1);
  at_least("warmup", config.schedule.warmup, 0);
  at_least("log_every", config.log_every, 1);
  at_least("validate_every", config.validate_every, 1);
  at_least("patience", config.patience, 0);
  at_least("average", config.average, 1);
  if (!(config.schedule.rate > 0) || !std::isfinite(config.schedule.rate)) {
    refuse("train", "rate is {}; it must be above 0", config.schedule.rate);
  }
  if (!(config.clip >= 0)) {
    refuse("train", "clip is {}; it must be 0 or more", config.clip);
  }
  if (!(config.checkpoint_minutes >= 0)) {
    refuse("train", "checkpoint_minutes is {}; it must be 0 or more", config.checkpoint_minutes);
  }
  Adam{config.adam};  // refuses its numbers
  for (const auto& [name, examples] : {std::pair("train", &task.train), std::pair("valid", &task.valid)}) {
    if (examples->count() > 0) continue;
    refuse("train", "the {} data has no {}", name, examples->kind());
  }
}

std::int64_t peak_memory() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

class Training {
 public:
  Training(const TrainingTask& task, const TrainingConfig& config, const std::string& folder,
           const TrainingOptions& options)
      : task_(task),
        model_(task.model),
        config_(config),
        folder_(folder),
        options_(options),
        checkpoints_(folder + "/checkpoints", config.validate_every, config.average,
                     [this](const std::string& text) { notice(text); }),
        adam_(config.adam),
        identity_(identity_of(config, task.train, task.valid, options)),
        state_(begin()),
        log_(folder + "/log.jsonl", state_.step),
        first_step_(state_.step) {
    if (!changes_.empty()) log_.add(state_.step, changes_);
    if (!finished() && identity_.steps < config_.schedule.warmup) {
      notice(fmt::format("{}, fewer than the warm-up of {}: the rate stays below {}",
                         counted(identity_.steps, "update"), config_.schedule.warmup, config_.schedule.rate));
    }
  }

  TrainingResult run() {
    try {
      return run_until_stopped();
    } catch (const Stopped&) {
      if (state_.step > saved_step_) save();
      throw;
    }
  }

 private:
  TrainingResult run_until_stopped() {
    if (state_.step > 0 && state_.best_step == state_.step) write_model();  // which may not have been done in time
    if (state_.unvalidated) end_update();
    while (!finished()) {
      const Batches batches = batches_of(state_.epoch);
      while (!finished() && state_.batch < std::ssize(batches)) advance(batches);
      if (state_.batch < std::ssize(batches)) break;
      state_.batch = 0;
      ++state_.epoch;
    }
    return finish();
  }

  bool finished() const {
    return state_.step >= identity_.steps || (config_.patience > 0 && state_.waits >= config_.patience);
  }
  Batches batches_of(std::int64_t epoch) const {
    return make_batches(task_.train, config_.batch_tokens, config_.seed, static_cast<std::uint64_t>(epoch));
  }
  void notice(const std::string& text) const {
    if (options_.observer != nullptr) options_.observer->notice(text);
  }
  void write_model() const {
    const AdoptedStopScope unasked(nullptr);
    if (options_.write_model) options_.write_model();
  }
  void save() {
    const AdoptedStopScope unasked(nullptr);
    checkpoints_.save(model_, adam_, state_, identity_);
    saved_ = Clock::now();
    saved_step_ = state_.step;
  }

  // Nothing in the folder changes before the training is known to be the same.
  LoopState begin() {
    model_.update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
    const std::optional<Checkpoint> from = checkpoints_.newest();
    LoopState state = from ? from->state : LoopState{};
    const std::string batches = "batch_tokens";
    if (state.batch > 0 && RunIdentity(from->identity).settings[batches] != identity_.settings[batches]) {
      state.batch = 0;  // of other batches: their epoch cannot be ended
      ++state.epoch;
    }
    identity_.steps = last_step(state);
    if (from) {
      changes_ = changes_of(from->identity, identity_, state.step, from->path);
      if (!changes_.empty() && !options_.change) {
        refuse_path(from->path,
                    "was written with other settings ({}); --change resumes with the "
                    "new ones, or train into another folder",
                    to_text(changes_));
      }
      checkpoints_.restore(*from, model_, adam_);
      if (!changes_.empty()) notice(fmt::format("changed from step {} on: {}", state.step, to_text(changes_)));
    }
    checkpoints_.remove_after(state.step);
    return state;
  }

  // The step at which steps or epochs end, whichever is first.
  std::int64_t last_step(const LoopState& from) const {
    const std::int64_t most = config_.steps > 0 ? config_.steps : std::numeric_limits<std::int64_t>::max();
    if (config_.epochs == 0) return most;
    std::int64_t step = from.step, batch = from.batch;
    for (std::int64_t epoch = from.epoch; epoch < config_.epochs && step < most; ++epoch, batch = 0) {
      step += (std::ssize(batches_of(epoch)) - batch + config_.accumulate - 1) / config_.accumulate;
    }
    return std::min(most, step);
  }

  // One update of the weights. The last one of an epoch may have fewer batches.
  void advance(const Batches& batches) {
    LossSum sum;
    std::int64_t next = state_.batch;
    for (std::int64_t i = 0; i < config_.accumulate && next < std::ssize(batches); ++i, ++next) {
      const auto index = static_cast<std::uint64_t>(state_.step * config_.accumulate + i);
      const auto& chosen = batches[static_cast<std::size_t>(next)];
      add(task_.backward(chosen, seed_of(config_.seed, Purpose::dropout, index)), sum);
    }
    const double scale = 1 / static_cast<double>(sum.count), norm = gradient_norm(model_) * scale;
    state_.batch = next;
    ++state_.step;
    state_.unvalidated = state_.step % config_.validate_every == 0;
    losses_ += sum.count;
    add(sum, state_.since_log);
    expect_finite("the loss", sum.sum * scale);
    expect_finite("the norm of the gradients", norm);
    const double rate = learning_rate(config_.schedule, state_.step, identity_.steps);
    {
      const AdoptedStopScope unasked(nullptr);  // all weights, or none
      adam_.begin_step(rate, config_.clip > 0 && norm > config_.clip ? scale * config_.clip / norm : scale);
      model_.update([&](const std::string& name, Parameter& parameter) { adam_.step(name, parameter); });
    }
    report(rate, norm);
    end_update();
  }

  // A validation and a checkpoint, if they are due.
  void end_update() {
    const bool due = state_.unvalidated, best = due && validate(state_);
    state_.unvalidated = false;
    using Minutes = std::chrono::duration<double, std::ratio<60>>;
    const bool late =
        config_.checkpoint_minutes > 0 && Minutes(Clock::now() - saved_).count() >= config_.checkpoint_minutes;
    if ((due || late || finished()) && state_.step > saved_step_) save();
    if (best) write_model();
    check_stop();
  }

  void expect_finite(const std::string& what, double value) const {
    if (std::isfinite(value)) return;
    refuse("train", "at step {} {} is {}; a lower rate or a clip may help", state_.step, what,
           std::isnan(value) ? "not a number" : "infinite");
  }

  void report(double rate, double norm) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const TrainingProgress progress{.step = state_.step,
                                    .steps = identity_.steps,
                                    .epoch = state_.epoch + 1,
                                    .loss = state_.since_log.sum / static_cast<double>(state_.since_log.count),
                                    .nll = state_.since_log.nll / static_cast<double>(state_.since_log.count),
                                    .rate = rate,
                                    .gradient_norm = norm,
                                    .tokens_per_second = static_cast<double>(losses_) / seconds,
                                    .seconds_left = seconds / static_cast<double>(state_.step - first_step_) *
                                                    static_cast<double>(identity_.steps - state_.step),
                                    .peak_memory = peak_memory()};
    if (state_.step % config_.log_every == 0) {
      log_.add(progress);
      state_.since_log = {};
    }
    if (options_.observer != nullptr) options_.observer->receive(progress);
  }

  std::optional<Metric> named(const std::optional<double>& metric) const {
    return metric ? std::optional(Metric{model_.metric_name(), *metric}) : std::nullopt;
  }

  static Measures best_of(const LoopState& state) { return {.loss = state.best_loss, .metric = state.best_metric}; }

  // Whether the weights as they are are the best so far: then `state` keeps their measures.
  bool validate(LoopState& state) {
    const Measures found = measure(task_, config_);
    expect_finite("the validation loss", found.loss);
    if (found.metric) expect_finite("the validation " + model_.metric_name(), *found.metric);
    const Validation validation{.step = state_.step,
                                .loss = found.loss,
                                .perplexity = exp(found.loss),
                                .bits_per_byte = found.bits_per_byte,
                                .metric = named(found.metric),
                                .best = state.best_step == 0 || is_better(found, best_of(state))};
    log_.add(validation);
    write_file(folder_ + "/loss.svg", loss_curve_svg(log_.training(), log_.validation()));
    if (options_.observer != nullptr) options_.observer->receive(validation);
    if (validation.best) {
      state.best_loss = found.loss;
      state.best_metric = found.metric;
      state.best_step = validation.step;
    }
    state.waits = validation.best ? 0 : state.waits + 1;
    return validation.best;
  }

  // Gives the model the best weights, or the mean of those that end there.
  TrainingResult finish() {
    // An end between two validations has one of its own. The state does not know it: a longer training has none there.
    LoopState end = state_;
    if (state_.step % config_.validate_every != 0) validate(end);
    TrainingResult result{.step = end.step,
                          .best_step = end.best_step,
                          .best_loss = end.best_loss,
                          .best_metric = named(end.best_metric)};
    const std::vector<std::int64_t> whole = checkpoints_.ending_at(result.best_step);
    result.averaged = std::ssize(whole);
    if (result.averaged > 1) {
      checkpoints_.average(whole, model_);
      const Measures mean = measure(task_, config_);
      result.mean_loss = mean.loss;
      result.is_mean = is_better(mean, best_of(end));
    }
    if (!result.is_mean) {
      if (whole.empty() || whole.back() != result.best_step) {
        notice(fmt::format("the best weights, of step {}, are damaged; the model stays as last written",
                           result.best_step));
        return result;
      }
      checkpoints_.average({result.best_step}, model_);
    }
    write_model();
    return result;
  }

  using Clock = std::chrono::steady_clock;

  const TrainingTask& task_;
  Trainable& model_;
  const TrainingConfig config_;
  const std::string folder_;
  const TrainingOptions options_;
  const Checkpoints checkpoints_;
  Adam adam_;
  RunIdentity identity_;
  std::vector<Change> changes_;
  LoopState state_;
  TrainingLog log_;
  const std::int64_t first_step_;
  std::int64_t saved_step_ = first_step_;
  std::int64_t losses_ = 0;  // of this call
  const Clock::time_point start_ = Clock::now();
  Clock::time_point saved_ = start_;
};

}  // namespace

TrainingResult train(const TrainingTask& task, const TrainingConfig& config, const std::string& folder,
                     const TrainingOptions& options) {
  const StopScope stop(options.stop);
  check(config, task);
  return Training(task, config, folder, options).run();
}

}  // namespace qkv
