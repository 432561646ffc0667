// qkv train: from pairs of sentences to a model that translates. Progress goes to standard error.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "qkv/commands.h"
#include "qkv/options.h"
#include "qkv/signals.h"
#include "qkv/train_translator.h"
#include "train/train_keys.h"

namespace qkv::app {
namespace {

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// A bar in the last line of a terminal, and lines that stay above it; no bar elsewhere.
class ProgressBar : public TrainingObserver {
 public:
  ~ProgressBar() override { wipe(); }

  void receive(const TrainingProgress& progress) override {
    using namespace std::chrono_literals;
    peak_memory_ = progress.peak_memory;
    const auto now = std::chrono::steady_clock::now();
    if (!terminal_ || (now - drawn_ < 200ms && progress.step < progress.steps)) return;
    drawn_ = now;
    constexpr std::int64_t kCells = 24;
    const auto full = static_cast<std::size_t>(kCells * progress.step / progress.steps);
    bar_ = fmt::format("[{}{}] {}/{}  epoch {}  loss {:.3f}  {:.0f} tokens/s  {} left", std::string(full, '#'),
                       std::string(kCells - full, '.'), progress.step, progress.steps, progress.epoch, progress.loss,
                       progress.tokens_per_second, clock_time(progress.seconds_left));
    fmt::print(stderr, "\r\x1b[K{}", bar_);
    std::fflush(stderr);
  }
  void receive(const Validation& validation) override {
    line(fmt::format("step {}: validation loss {:.4f}, perplexity {:.2f}{}", validation.step, validation.loss,
                     validation.perplexity, validation.best ? ", the best so far" : ""));
  }
  void notice(const std::string& text) override { line(text); }

  std::int64_t peak_memory() const { return peak_memory_; }  // bytes; 0: there was nothing to do

 private:
  void wipe() {
    if (!bar_.empty()) fmt::print(stderr, "\r\x1b[K");
    bar_.clear();
  }
  void line(const std::string& text) {
    wipe();
    fmt::print(stderr, "{}\n", text);
  }

  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::chrono::steady_clock::time_point drawn_{};
  std::string bar_;
  std::int64_t peak_memory_ = 0;
};

void run(const TrainTranslatorFiles& files) {
  TrainingResult result;
  std::string memory;
  {
    ProgressBar bar;
    result = train_translator(files, {.observer = &bar, .stop = interruption()});
    if (bar.peak_memory() > 0) memory = fmt::format(", {} MiB of memory", bar.peak_memory() >> 20);
  }
  fmt::print("{}: {} updates, best validation loss {:.4f} at {}{}\n", files.out, result.step, result.best_loss,
             result.best_step, memory);
}

}  // namespace

void add_train(CLI::App& program) {
  CLI::App& command = *program.add_subcommand(
      "train", "Train a model that translates; started again after an interruption, it goes on where it was");
  const auto files = std::make_shared<TrainTranslatorFiles>();
  add_file(command, "--config", files->config, "What to train and how, as JSON (configs/)")->required();
  add_file(command, "--train", files->train, "Pairs to train on, a pair a line: text, tab, translation")->required();
  add_file(command, "--valid", files->valid, "Pairs that measure it meanwhile")->required();
  add_file(command, "--tokenizer", files->tokenizer,
           "tokenizer.json (default: one is trained on the pairs to train on)");
  add_file(command, "--from", files->from,
           "Folder of a model to begin with, its tokenizer included (default: random weights)");
  add_file(command, "--out", files->out, "Folder for the model, its checkpoints, log.jsonl and loss.svg")->required();
  add_threads(command);
  command.footer(training::train_keys_text());
  command.callback([files] { run(*files); });
}

}  // namespace qkv::app
