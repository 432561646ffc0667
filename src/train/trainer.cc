// The loop: batches, gradients, updates; and from time to time a line of the log, a validation, a checkpoint.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <stdexcept>

#include "io/crc32.h"
#include "io/descriptor.h"
#include "qkv/error.h"
#include "qkv/files.h"
#include "qkv/training.h"
#include "train/batches.h"
#include "train/checkpoints.h"
#include "train/gradient_norm.h"
#include "train/loss_curve.h"
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
  at_least("steps", config.steps, 1);
  at_least("batch_tokens", config.batch_tokens, 1);
  at_least("accumulate", config.accumulate, 1);
  at_least("warmup", config.schedule.warmup, 0);
  at_least("log_every", config.log_every, 1);
  at_least("validate_every", config.validate_every, 1);
  at_least("patience", config.patience, 0);
  at_least("average", config.average, 1);
  if (config.steps % config.validate_every != 0) {
    throw std::invalid_argument(fmt::format("train: steps is {}; it must be a multiple of validate_every, {}",
                                            config.steps, config.validate_every));
  }
  if (!(config.schedule.rate > 0) || !std::isfinite(config.schedule.rate)) {
    throw std::invalid_argument(fmt::format("train: rate is {}; it must be above 0", config.schedule.rate));
  }
  if (!(config.clip >= 0)) {
    throw std::invalid_argument(fmt::format("train: clip is {}; it must be 0 or more", config.clip));
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

// What two calls must agree in for the second to go on with the work of the first.
std::string identity_of(const TrainingConfig& config, const TrainingData& data, const std::string& model) {
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", model, config.seed, config.steps,
                                 config.batch_tokens, config.accumulate, config.adam.beta1, config.adam.beta2,
                                 config.adam.epsilon, config.adam.weight_decay, static_cast<int>(config.adam.decay),
                                 config.schedule.rate, config.schedule.warmup, static_cast<int>(config.schedule.decay),
                                 config.clip, config.validate_every, config.patience, config.average);
  std::uint32_t sum = io::crc32(text);
  for (const auto& pairs : {data.train, data.valid}) {
    for (const TokenPair& pair : pairs) {
      for (const auto* tokens : {&pair.source, &pair.target}) {
        const auto size = static_cast<std::int64_t>(tokens->size());
        sum = io::crc32({reinterpret_cast<const char*>(&size), sizeof size}, sum);
        sum = io::crc32({reinterpret_cast<const char*>(tokens->data()), tokens->size() * sizeof(std::int32_t)}, sum);
      }
    }
  }
  return fmt::format("{:08x}", sum);
}

// Held while a process trains into a folder; the system lets go of it when the process ends, however it ends.
io::Descriptor lock(const std::string& folder) {
  const std::string path = folder + "/checkpoints/lock";
  io::Descriptor file(io::retry([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); }));
  if (!file) io::throw_io_error(path, "write");
  if (io::retry([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) != 0) {
    throw IoError(folder + ": another process is training into it");
  }
  return file;
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
        checkpoints_(folder + "/checkpoints", identity_of(config, data, options.identity), config.validate_every,
                     config.average),
        lock_(lock(folder)),
        adam_(config.adam),
        state_(begin()),
        log_(folder + "/log.jsonl", state_.step),
        first_step_(state_.step) {}

  TrainingResult run() {
    while (!finished()) {
      const Batches batches =
          make_batches(data_.train, config_.batch_tokens, config_.seed, static_cast<std::uint64_t>(state_.epoch));
      while (!finished() && state_.batch < std::ssize(batches)) advance(batches);
      if (state_.batch < std::ssize(batches)) break;
      state_.batch = 0;
      ++state_.epoch;
    }
    checkpoints_.average(model_);
    return {.step = state_.step, .best_loss = state_.best_loss, .best_step = state_.best_step};
  }

 private:
  bool finished() const {
    return state_.step >= config_.steps || (config_.patience > 0 && state_.waits >= config_.patience);
  }

  LoopState begin() {
    model_.update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
    const auto notice = [&](const std::string& text) {
      if (options_.observer != nullptr) options_.observer->notice(text);
    };
    return checkpoints_.restore(model_, adam_, notice).value_or(LoopState{});
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
    const double rate = learning_rate(config_.schedule, state_.step, config_.steps);
    adam_.begin_step(rate, config_.clip > 0 && norm > config_.clip ? scale * config_.clip / norm : scale);
    model_.update([&](const std::string& name, Parameter& parameter) { adam_.step(name, parameter); });
    report(rate, norm);

    const bool stop = options_.stop.stop_requested();
    const bool due = state_.step % config_.validate_every == 0;
    if (due) validate();
    if (due || stop) checkpoints_.save(model_, adam_, state_);
    if (stop && !finished()) throw Stopped();
  }

  void expect_finite(const char* what, double value) const {
    if (std::isfinite(value)) return;
    throw std::invalid_argument(
        fmt::format("train: at step {} {} is {}; a lower rate or a clip may help", state_.step, what, value));
  }

  void report(double rate, double norm) {
    using Seconds = std::chrono::duration<double>;
    const double seconds = Seconds(std::chrono::steady_clock::now() - start_).count();
    const TrainingProgress progress{.step = state_.step,
                                    .steps = config_.steps,
                                    .epoch = state_.epoch + 1,
                                    .loss = state_.since_log.sum / static_cast<double>(state_.since_log.tokens),
                                    .nll = state_.since_log.nll / static_cast<double>(state_.since_log.tokens),
                                    .rate = rate,
                                    .gradient_norm = norm,
                                    .tokens_per_second = static_cast<double>(target_tokens_) / seconds,
                                    .seconds_left = seconds / static_cast<double>(state_.step - first_step_) *
                                                    static_cast<double>(config_.steps - state_.step),
                                    .peak_memory = peak_memory()};
    if (state_.step % config_.log_every == 0) {
      log_.add(progress);
      state_.since_log = {};
    }
    if (options_.observer != nullptr) options_.observer->receive(progress);
  }

  void validate() {
    LossSum sum;
    for (const auto& chosen : make_batches(data_.valid, config_.batch_tokens, config_.seed, 0)) {
      const LossSum part = model_.loss(collect(data_.valid, chosen));
      sum.sum += part.sum;
      sum.tokens += part.tokens;
    }
    const double loss = sum.sum / static_cast<double>(sum.tokens);
    expect_finite("the validation loss", loss);
    const bool best = state_.best_step == 0 || loss < state_.best_loss;
    if (best) {
      state_.best_loss = loss;
      state_.best_step = state_.step;
    }
    state_.waits = best ? 0 : state_.waits + 1;
    const Validation validation{.step = state_.step, .loss = loss, .perplexity = std::exp(loss), .best = best};
    log_.add(validation);
    write_file(folder_ + "/loss.svg", loss_curve_svg(log_.training(), log_.validation()));
    if (options_.observer != nullptr) options_.observer->receive(validation);
  }

  Trainable& model_;
  const TrainingData data_;
  const TrainingConfig config_;
  const std::string folder_;
  const TrainingOptions options_;
  const Checkpoints checkpoints_;
  const io::Descriptor lock_;
  Adam adam_;
  LoopState state_;
  TrainingLog log_;
  const std::int64_t first_step_;
  std::int64_t target_tokens_ = 0;  // of this call
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

TrainingResult train(Trainable& model, const TrainingData& data, const TrainingConfig& config,
                     const std::string& folder, const TrainingOptions& options) {
  check(config, data);
  return Training(model, data, config, folder, options).run();
}

}  // namespace qkv
