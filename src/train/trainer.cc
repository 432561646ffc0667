// The loop: batches, gradients, updates; and from time to time a line of the log, a validation, a checkpoint.
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/train/training.h"
#include "train/batches.h"
#include "train/checkpoints.h"
#include "train/gradient_norm.h"
#include "train/loss_curve.h"
#include "train/run_identity.h"
#include "train/streams.h"
#include "train/training_log.h"

namespace qkv {
namespace {

using namespace training;

void check(const TrainingConfig& config, const TrainingData& data) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least)
      throw std::invalid_argument(fmt::format("train: {} is {}; it must be {} or more", name, value, least));
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
    throw std::invalid_argument(fmt::format("train: rate is {}; it must be above 0", config.schedule.rate));
  }
  if (!(config.clip >= 0)) {
    throw std::invalid_argument(fmt::format("train: clip is {}; it must be 0 or more", config.clip));
  }
  if (!(config.checkpoint_minutes >= 0)) {
    throw std::invalid_argument(
        fmt::format("train: checkpoint_minutes is {}; it must be 0 or more", config.checkpoint_minutes));
  }
  for (const auto& [name, pairs] : {std::pair("train", data.train), std::pair("valid", data.valid)}) {
    if (pairs.empty()) throw std::invalid_argument(fmt::format("train: the {} data has no pairs", name));
    for (const TokenPair& pair : pairs) {
      if (pair.source.empty() || pair.target.empty()) {
        throw std::invalid_argument(fmt::format("train: a pair of the {} data has an empty side", name));
      }
    }
  }
}

std::int64_t peak_memory() {
  struct rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * 1024;
}

class Training {
 public:
  Training(Trainable& model, const TrainingData& data, const TrainingConfig& config, const std::string& folder,
           const TrainingOptions& options)
      : model_(model),
        data_(data),
        config_(config),
        folder_(folder),
        options_(options),
        checkpoints_(folder + "/checkpoints", config.validate_every, config.average,
                     [this](const std::string& text) { notice(text); }),
        adam_(config.adam),
        identity_(identity_of(config, data, options)),
        state_(begin()),
        log_(folder + "/log.jsonl", state_.step),
        first_step_(state_.step) {
    if (!changes_.empty()) log_.add(state_.step, changes_);
  }

  TrainingResult run() {
    if (state_.step > 0 && state_.best_step == state_.step) write_model();  // which may not have been done in time
    while (!finished()) {
      const Batches batches = batches_of(state_.epoch);
      while (!finished() && state_.batch < std::ssize(batches)) advance(batches);
      if (state_.batch < std::ssize(batches)) break;
      state_.batch = 0;
      ++state_.epoch;
    }
    return finish();
  }

 private:
  bool finished() const {
    return state_.step >= identity_.steps || (config_.patience > 0 && state_.waits >= config_.patience);
  }
  Batches batches_of(std::int64_t epoch) const {
    return make_batches(data_.train, config_.batch_tokens, config_.seed, static_cast<std::uint64_t>(epoch));
  }
  void notice(const std::string& text) const {
    if (options_.observer != nullptr) options_.observer->notice(text);
  }
  void write_model() const {
    if (options_.write_model) options_.write_model();
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
        throw std::invalid_argument(
            fmt::format("{}: was written with other settings ({}); --change resumes with the "
                        "new ones, or train into another folder",
                        from->path, to_text(changes_)));
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
    for (std::int64_t i = 0; i < config_.accumulate && state_.batch < std::ssize(batches); ++i, ++state_.batch) {
      const auto turn = static_cast<std::uint64_t>(state_.step * config_.accumulate + i);
      const auto& chosen = batches[static_cast<std::size_t>(state_.batch)];
      const LossSum part = model_.backward(collect(data_.train, chosen), seed_of(config_.seed, Purpose::dropout, turn));
      sum.sum += part.sum;
      sum.nll += part.nll;
      sum.tokens += part.tokens;
    }
    ++state_.step;
    target_tokens_ += sum.tokens;
    state_.since_log.sum += sum.sum;
    state_.since_log.nll += sum.nll;
    state_.since_log.tokens += sum.tokens;

    const double scale = 1 / static_cast<double>(sum.tokens), norm = gradient_norm(model_) * scale;
    expect_finite("the loss", sum.sum * scale);
    expect_finite("the norm of the gradients", norm);
    const double rate = learning_rate(config_.schedule, state_.step, identity_.steps);
    adam_.begin_step(rate, config_.clip > 0 && norm > config_.clip ? scale * config_.clip / norm : scale);
    model_.update([&](const std::string& name, Parameter& parameter) { adam_.step(name, parameter); });
    report(rate, norm);

    const bool due = state_.step % config_.validate_every == 0, best = due && validate();
    const bool stop = options_.stop.stop_requested();
    using Minutes = std::chrono::duration<double, std::ratio<60>>;
    const bool late =
        config_.checkpoint_minutes > 0 && Minutes(Clock::now() - saved_).count() >= config_.checkpoint_minutes;
    if (due || stop || late || finished()) {
      checkpoints_.save(model_, adam_, state_, identity_);
      saved_ = Clock::now();
    }
    if (best) write_model();
    if (stop && !finished()) throw Stopped();
  }

  void expect_finite(const char* what, double value) const {
    if (std::isfinite(value)) return;
    throw std::invalid_argument(fmt::format("train: at step {} {} is {}; a lower rate or a clip may help", state_.step,
                                            what, std::isnan(value) ? "not a number" : "infinite"));
  }

  void report(double rate, double norm) {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const TrainingProgress progress{.step = state_.step,
                                    .steps = identity_.steps,
                                    .epoch = state_.epoch + 1,
                                    .loss = state_.since_log.sum / static_cast<double>(state_.since_log.tokens),
                                    .nll = state_.since_log.nll / static_cast<double>(state_.since_log.tokens),
                                    .rate = rate,
                                    .gradient_norm = norm,
                                    .tokens_per_second = static_cast<double>(target_tokens_) / seconds,
                                    .seconds_left = seconds / static_cast<double>(state_.step - first_step_) *
                                                    static_cast<double>(identity_.steps - state_.step),
                                    .peak_memory = peak_memory()};
    if (state_.step % config_.log_every == 0) {
      log_.add(progress);
      state_.since_log = {};
    }
    if (options_.observer != nullptr) options_.observer->receive(progress);
  }

  double validation_loss() const {
    LossSum sum;
    for (const auto& chosen : make_batches(data_.valid, config_.batch_tokens, config_.seed, 0)) {
      const LossSum part = model_.loss(collect(data_.valid, chosen));
      sum.sum += part.sum;
      sum.tokens += part.tokens;
    }
    return sum.sum / static_cast<double>(sum.tokens);
  }

  // The loss of the weights as they are, and whether it is below the best so far.
  Validation measure(double best_loss, std::int64_t best_step) {
    const double loss = validation_loss();
    expect_finite("the validation loss", loss);
    const Validation validation{
        .step = state_.step, .loss = loss, .perplexity = std::exp(loss), .best = best_step == 0 || loss < best_loss};
    log_.add(validation);
    write_file(folder_ + "/loss.svg", loss_curve_svg(log_.training(), log_.validation()));
    if (options_.observer != nullptr) options_.observer->receive(validation);
    return validation;
  }

  // Whether the weights are the best so far.
  bool validate() {
    const Validation validation = measure(state_.best_loss, state_.best_step);
    if (validation.best) {
      state_.best_loss = validation.loss;
      state_.best_step = validation.step;
    }
    state_.waits = validation.best ? 0 : state_.waits + 1;
    return validation.best;
  }

  // Gives the model the best weights, or the mean of those that end there.
  TrainingResult finish() {
    TrainingResult result{.step = state_.step, .best_step = state_.best_step, .best_loss = state_.best_loss};
    // An end between two validations has one of its own. The state does not know it: a longer training has none there.
    if (state_.step % config_.validate_every != 0) {
      const Validation end = measure(result.best_loss, result.best_step);
      if (end.best) {
        result.best_loss = end.loss;
        result.best_step = end.step;
      }
    }
    const std::vector<std::int64_t> whole = checkpoints_.ending_at(result.best_step);
    result.averaged = std::ssize(whole);
    if (result.averaged > 1) {
      checkpoints_.average(whole, model_);
      result.mean_loss = validation_loss();
      result.is_mean = result.mean_loss < result.best_loss;
    }
    if (!result.is_mean) {
      if (whole.empty() || whole.back() != result.best_step) {
        notice(fmt::format("the weights of step {}, the best, are damaged; the model stays as it was written then",
                           result.best_step));
        return result;
      }
      checkpoints_.average({result.best_step}, model_);
    }
    write_model();
    return result;
  }

  using Clock = std::chrono::steady_clock;

  Trainable& model_;
  const TrainingData data_;
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
  std::int64_t target_tokens_ = 0;  // of this call
  const Clock::time_point start_ = Clock::now();
  Clock::time_point saved_ = start_;
};

}  // namespace

TrainingResult train(Trainable& model, const TrainingData& data, const TrainingConfig& config,
                     const std::string& folder, const TrainingOptions& options) {
  check(config, data);
  return Training(model, data, config, folder, options).run();
}

}  // namespace qkv
