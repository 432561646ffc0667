// qkv compare: trains RNNs, CNNs and Transformers on the same tasks and compares them. Progress goes to standard error.
#include "lab/compare/compare.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "commands.h"
#include "inputs/options.h"
#include "notes.h"
#include "signals.h"
#include "surroundings.h"

namespace qkv::app {
namespace {

// The share that is done, in the last line of a terminal; elsewhere a line for each tenth.
class CompareProgressLine : public CompareObserver {
 public:
  ~CompareProgressLine() override {
    if (terminal_ && drawn_) fmt::print(stderr, "\r\x1b[K");
  }

  void receive(const CompareProgress& progress) override {
    if (is_quiet()) return;
    using namespace std::chrono_literals;
    const std::string line =
        fmt::format("{:3.0f} %  {}  about {:.0f} s left", 100 * progress.done, progress.doing, progress.seconds_left);
    if (terminal_) {
      const auto now = std::chrono::steady_clock::now();
      if (drawn_ && now - *drawn_ < 200ms) return;
      drawn_ = now;
      fmt::print(stderr, "\r\x1b[K{}", line);
      std::fflush(stderr);
    } else if (const int tenth = static_cast<int>(10 * progress.done); tenth > tenths_) {
      tenths_ = tenth;
      fmt::print(stderr, "{}\n", line);
    }
  }

 private:
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::optional<std::chrono::steady_clock::time_point> drawn_{};
  int tenths_ = 0;
};

struct CompareRequest {
  CompareOptions options{};
  std::string out = "comparison";
  bool quick = false;
  bool json = false;
};

Value names_value(std::vector<std::string>& names, const char* type, const std::vector<std::string>& all) {
  Value value = comma_list(names, type);
  value.check = [all](const std::string& text) {
    for (const std::string& name : all) {
      if (name == text) return std::string();
    }
    return fmt::format("\"{}\" must be one of {}", text, fmt::join(all, ", "));
  };
  return value;
}

void run_compare(CompareRequest& request) {
  request.options.effort = request.quick ? CompareEffort::quick : CompareEffort::full;
  request.options.phrases = phrase_book();
  request.options.stop = interruption();
  Comparison comparison;
  {
    CompareProgressLine line;
    request.options.observer = &line;
    comparison = compare(request.options, request.out);
  }
  note_written(request.out, "it has comparison.json and charts, .svg, for a browser");
  write_output(request.json ? to_json(comparison) + "\n" : to_text(comparison));
}

}  // namespace

void add_compare(Command& program) {
  Command& command = program.add_command(
      "compare",
      "Train RNNs, CNNs and Transformers of equal size on the same tasks; compare accuracy, memory and speed");
  command.add_examples({{"See that everything runs", "qkv compare --quick --tasks recall --models gru,transformer"},
                        {"Everything, in minutes", "qkv compare"}});
  const auto request = std::make_shared<CompareRequest>();
  command.add({{"--tasks", names_value(request->options.tasks, "TASK,...", compared_tasks()),
                "Only these tasks (default: all)"},
               {"--models", names_value(request->options.models, "MODEL,...", compared_models()),
                "Only these models (default: all)"},
               {"--seed", seed(request->options.seed), "First of three seeds, for weights and data (default: 1)"},
               {"--out", file(request->out, "FOLDER"),
                "Folder for checkpoints, comparison.json and charts; an interrupted run resumes (default: comparison)"},
               {"--quick", flag(request->quick), "Smoke test: a few updates per model"},
               {"--json", flag(request->json), "Write JSON"}});
  command.add({threads_option()});
  command.add_footer(
      fmt::format("Tasks: {}.\nModels: {}.", fmt::join(compared_tasks(), ", "), fmt::join(compared_models(), ", ")));
  command.on_run([request] { run_compare(*request); });
}

}  // namespace qkv::app
