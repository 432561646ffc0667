// qkv train: from pairs of sentences to a model that translates, from texts to one that writes, or from pictures to one
// that classifies. Progress goes to standard error.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "commands.h"
#include "core/counted.h"
#include "inputs/lines.h"
#include "inputs/options.h"
#include "notes.h"
#include "qkv/models/find_model.h"
#include "qkv/train/train_files.h"
#include "signals.h"
#include "train/config/classifier_config.h"
#include "train/config/language_config.h"
#include "train/config/sentence_config.h"
#include "train/config/text_config.h"
#include "train/config/train_config.h"

namespace qkv::app {
namespace {

std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds + 0.5);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}

// A diverged training has one of hundreds of digits, or infinity.
std::string perplexity_text(double perplexity) {
  return perplexity < 1e6 ? fmt::format("{:.2f}", perplexity) : "above a million";
}

// A bar in the last line of a terminal, and lines that stay above it; no bar elsewhere.
class ProgressBar : public TrainingObserver {
 public:
  ~ProgressBar() override { wipe(); }

  void receive(const TrainingProgress& progress) override {
    using namespace std::chrono_literals;
    peak_memory_ = progress.peak_memory;
    const auto now = std::chrono::steady_clock::now();
    reading_.reset();
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
    const std::string measure =
        validation.metric          ? fmt::format("{} {:.4f}", validation.metric->name, validation.metric->value)
        : validation.bits_per_byte ? fmt::format("{:.4f} bits per byte", *validation.bits_per_byte)
                                   : "perplexity " + perplexity_text(validation.perplexity);
    line(fmt::format("step {}: validation loss {:.4f}, {}{}", validation.step, validation.loss, measure,
                     validation.best ? ", the best so far" : ""));
  }
  void notice(const std::string& text) override { line(text); }

  std::int64_t peak_memory() const { return peak_memory_; }  // bytes; 0: there was nothing to do

 private:
  void wipe() {
    if (!bar_.empty()) fmt::print(stderr, "\r\x1b[K");
    bar_.clear();
  }
  void line(const std::string& text) {
    reading_.reset();
    wipe();
    fmt::print(stderr, "{}\n", text);
  }

  const bool terminal_ = isatty(STDERR_FILENO) != 0 && !is_quiet();
  std::optional<WorkingLine> reading_{std::in_place, "reading"};  // until the first update
  std::chrono::steady_clock::time_point drawn_{};
  std::string bar_;
  std::int64_t peak_memory_ = 0;
};

struct TrainRequest {
  TrainTranslatorFiles files{};
  bool change = false;

  // The kind that the config trains; UsageError for options that it does not use.
  TrainedKind kind() const {
    const TrainedKind kind = trained_kind(files.config);
    const bool text = kind != TrainedKind::pictures, pairs = kind == TrainedKind::translator,
               learns_vocabulary = pairs || kind == TrainedKind::language;
    struct Option {
      const char* name;
      bool is_given, is_useful;
    };
    const Option options[] = {{"--tokenizer", !files.tokenizer.empty(), learns_vocabulary},
                              {"--target-tokenizer", !files.target_tokenizer.empty(), pairs},
                              {"--from", !files.from.empty(), text},
                              {"--skip-bad", files.bad_lines == BadLines::leave_out, pairs},
                              {"--exact-text", files.lines.exact, text},
                              {"--replace-invalid", files.lines.replace_invalid, text}};
    for (const Option& option : options) {
      if (!option.is_given || option.is_useful) continue;
      throw UsageError(option.name, text ? "does not apply to the \"kind\" of the config"
                                         : "applies to text models; the config has \"pictures\"");
    }
    if (text && !learns_vocabulary && files.from.empty()) {
      throw UsageError("--from", "is required: the \"kind\" of the config trains an existing encoder");
    }
    return kind;
  }
};

// "its model is step 60, validation loss 2.1000 (mean of 3 checkpoints up to it: 2.2000)"
std::string to_text(const TrainingResult& result) {
  const auto best = fmt::format("step {}", result.best_step);
  if (result.averaged < 2) return fmt::format("its model is {}, validation loss {:.4f}", best, result.best_loss);
  const auto mean = fmt::format("the mean of {} checkpoints up to {}", result.averaged, best);
  return result.is_mean ? fmt::format("its model is {}, validation loss {:.4f} ({} alone: {:.4f})", mean,
                                      result.mean_loss, best, result.best_loss)
                        : fmt::format("its model is {}, validation loss {:.4f} ({}: {:.4f})", best, result.best_loss,
                                      mean, result.mean_loss);
}

// The command that opens the trained model.
const char* command_of(TrainedKind kind) {
  switch (kind) {
    case TrainedKind::translator:
      return "translate";
    case TrainedKind::language:
      return "generate";
    case TrainedKind::tokens:
      return "tag";
    case TrainedKind::masked:
      return "fill";
    case TrainedKind::contrast:
      return "embed";
    default:
      return "classify";
  }
}

void run(const TrainRequest& request) {
  TrainTranslatorFiles files = request.files;
  if (!files.from.empty()) files.from = find_model(files.from);
  TrainingResult result;
  std::string memory;
  const TrainedKind kind = request.kind();
  {
    ProgressBar bar;
    const TrainingOptions options{.observer = &bar, .stop = interruption(), .change = request.change};
    result = train_files(files, options);
    if (bar.peak_memory() > 0) memory = fmt::format(", {} MiB of memory", bar.peak_memory() >> 20);
  }
  if (!memory.empty()) {  // else it was done before
    note_written(files.out,
                 fmt::format("qkv {} --model opens it; only resuming needs its checkpoints/", command_of(kind)));
  }
  fmt::print("{}: {}; {}{}\n", files.out, counted(result.step, "update"), to_text(result), memory);
}

}  // namespace

void add_train(Command& program) {
  Command& command = program.add_command(
      "train", "Train a translator, a language model or a classifier of texts or pictures; an interrupted run resumes");
  command.add_examples(
      {{"A translator of your own", "qkv train --config config.json --train a.tsv --valid b.tsv --out model"},
       {"A classifier of texts", "qkv train --config c.json --from encoder --train a.tsv --valid b.tsv --out x"}});
  const auto request = std::make_shared<TrainRequest>();
  TrainTranslatorFiles& files = request->files;
  const auto skip_bad = [&files] { files.bad_lines = BadLines::leave_out; };
  command.add(
      {{"--config", file(files.config), "What to train and how, as JSON (configs/)", required()},
       {"--train", file(files.train),
        "Training pairs, one per line: text, tab, translation. For a language model: documents with a blank line "
        "between "
        "them. For a text classifier: text, tab, label, or CSV or JSON lines. For pictures: a folder with one folder "
        "of PNG and JPEG files per class, or CSV: class, then the "
        "gray "
        "pixels of a square picture",
        required()},
       {"--valid", file(files.valid), "Validation data in the same form, evaluated during training", required()},
       {"--tokenizer", file(files.tokenizer), "tokenizer.json (default: one is learned from the training data)"},
       {"--target-tokenizer", file(files.target_tokenizer),
        "tokenizer.json of the target side, for separate vocabularies"},
       {"--from", file(files.from, "FOLDER"),
        "Folder of a model to start from, with its tokenizer (default: random weights; a text classifier needs one)"},
       {"--out", file(files.out, "FOLDER"),
        "Folder for the model (the best so far, at any time), its checkpoints, log.jsonl and loss.svg", required()},
       {"--change", flag(request->change),
        "Resume even if rate, schedule, clip, dropout, batch and the like have changed; the log says what changed. "
        "Not needed for more steps (except with a cosine schedule) or more patience"},
       {"--skip-bad", flag(skip_bad),
        "Skip lines that are not pairs or contain a special token, and report how many (default: refuse them)"}});
  command.add(line_options(files.lines));
  command.add({threads_option()});
  command.add_footer(training::train_keys_text() + "\n" + training::language_keys().text() + "\n" +
                     training::text_keys().text() + "\n" + training::sentence_keys().text() + "\n" +
                     training::classifier_keys().text());
  command.on_run([request] { run(*request); });
}

}  // namespace qkv::app
