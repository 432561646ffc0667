// compare(): checks what is wanted, finishes the trainings, and puts together what they and the layers say.
#include "qkv/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "compare/catalog.h"
#include "compare/comparison_drawings.h"
#include "compare/cost.h"
#include "compare/gather.h"
#include "compare/input_gradients.h"
#include "compare/model_size.h"
#include "compare/pair_tasks.h"
#include "compare/progress.h"
#include "compare/run.h"
#include "compare/structure.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "qkv/files.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

using namespace comparison;

constexpr std::int64_t kQuickSteps = 10, kQuickTokens = 512, kQuickExamples = 20;
constexpr std::int64_t kGradientSeeds = 3;
const std::vector<std::int64_t> kCostLengths = {64, 128, 256, 512, 1024}, kQuickCostLengths = {64, 128};
// Attention step by step takes seconds beyond.
const std::vector<std::int64_t> kTranslatingLengths = {64, 128, 256}, kQuickTranslatingLengths = {16, 32};
// Work of measuring a model, in tokens of training.
constexpr double kMeasuringWork = 300'000, kQuickMeasuringWork = 60'000;

std::string listed(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// What of all there is was asked for, in the order of the catalog.
std::vector<std::string> chosen(const std::vector<std::string>& wanted, const std::vector<std::string>& all,
                                const char* what) {
  for (const std::string& name : wanted) {
    refuse_unless(holds(all, name), "compare", "there is no {} \"{}\"; there are {}", what, name, listed(all));
  }
  if (wanted.empty()) return all;
  std::vector<std::string> names;
  std::copy_if(all.begin(), all.end(), std::back_inserter(names),
               [&](const std::string& name) { return holds(wanted, name); });
  return names;
}

class Comparing {
 public:
  Comparing(const CompareOptions& options, const std::string& folder)
      : options_(options),
        quick_(options.effort == CompareEffort::quick),
        folder_(folder),
        files_{.folder = folder + "/runs", .phrases = options.phrases},
        tasks_(chosen(options.tasks, compared_tasks(), "task")),
        models_(chosen(options.models, compared_models(), "model")) {
    for (const std::string& task : tasks_) plan(catalog_task(task));
    refuse_unless(!runs_.empty(), "compare", "none of the models {} does any of the tasks {}; {} is for {}",
                  listed(models_), listed(tasks_), tasks_[0], listed(catalog_task(tasks_[0]).models));
    for (const std::string& model : models_) {
      if (is_reader(model)) measured_.push_back({model, "reading"});
    }
    for (const std::string& model : models_) {
      if (is_translator(model)) measured_.push_back({model, "translating"});
    }
  }

  Comparison run() {
    double total = measuring_work() * static_cast<double>(measured_.size()), skipped = 0;
    for (const Run& run : runs_) {
      total += work_of(run);
      if (is_finished(run, files_)) skipped += work_of(run);
    }
    Progress progress(options_.observer, total);
    progress.skip(skipped, "reading what is done");
    Comparison comparison{.seed = options_.seed, .effort = options_.effort};
    train_all(progress, comparison);
    for (const auto& [model, work] : measured_) {
      progress.add(0, "measuring " + model);
      work == "reading" ? measure_reader(model, comparison) : measure_translator(model, comparison);
      progress.add(measuring_work(), "measuring " + model);
    }
    for (const auto& [name, svg] : drawings_of(comparison)) write_file(folder_ + "/" + name, svg);
    write_file(folder_ + "/comparison.json", to_json(comparison) + "\n");
    return comparison;
  }

 private:
  void plan(const CatalogTask& task) {
    if (task.name == "phrases") {
      if (options_.phrases.empty() && options_.tasks.empty()) return;
      read_phrase_book(options_.phrases);  // which may be wrong: nothing has been written yet
    }
    for (const std::string& model : task.models) {
      if (!holds(models_, model)) continue;
      for (std::int64_t i = 0; i < task.seeds; ++i) {
        Run run{.task = task.name,
                .model = model,
                .seed = options_.seed + static_cast<std::uint64_t>(i),
                .steps = quick_ ? kQuickSteps : task.steps,
                .batch_tokens = quick_ ? kQuickTokens : task.batch_tokens,
                .examples = quick_ ? std::min(kQuickExamples, task.examples) : task.examples};
        runs_.push_back(run);
        if (!is_clipped_or_not(run)) continue;
        run.clip = 0;
        runs_.push_back(run);
      }
    }
  }

  static double work_of(const Run& run) { return static_cast<double>(run.steps * run.batch_tokens); }
  double measuring_work() const { return quick_ ? kQuickMeasuringWork : kMeasuringWork; }

  // As many at a time as there are threads: one of these small models keeps one thread busy, not two.
  void train_all(Progress& progress, Comparison& comparison) const {
    std::filesystem::create_directories(files_.folder);
    std::vector<RunResult> results(runs_.size());
    parallel_for(std::ssize(runs_), 0, [&](std::int64_t i, int) {
      const auto index = static_cast<std::size_t>(i);
      const Run& run = runs_[index];
      const auto on_step = [&](std::int64_t) { progress.add(static_cast<double>(run.batch_tokens), run.name()); };
      results[index] = finish(run, files_, on_step);
    });
    for (std::size_t i = 0; i < runs_.size(); ++i) add_run(comparison, runs_[i], results[i]);
  }

  SequenceModel initial(const std::string& model, std::uint64_t seed) const {
    const std::int64_t parameters = catalog_task("recall").parameters;
    return {sized(sequence_kind(model), vocab_of(SequenceTask::recall), parameters), seed};
  }

  void measure_reader(const std::string& model, Comparison& comparison) const {
    std::vector<std::string> kinds{model};
    if (model == "lstm") kinds.push_back("lstm-open");
    for (const std::string& kind : kinds) {
      for (std::int64_t i = 0; i < kGradientSeeds; ++i) {
        check_stop();
        const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(i);
        add_gradients(comparison, kind, "start", input_gradients(initial(kind, seed), seed));
      }
    }
    SequenceModel fresh = initial(model, options_.seed);
    measure(model, "reading", fresh, quick_ ? kQuickCostLengths : kCostLengths, comparison);
  }

  void measure_translator(const std::string& model, Comparison& comparison) const {
    const EncoderDecoderTokens tokens = reversal_tokens(kTranslatingLengths.back() + 1);
    TranslatorModel fresh(sized(translator_kind(model), tokens, catalog_task("reversal").parameters), options_.seed);
    measure(model, "translating", fresh, quick_ ? kQuickTranslatingLengths : kTranslatingLengths, comparison);
  }

  // What its layers say, time and memory.
  template <class Model>
  void measure(const std::string& name, const std::string& work, Model& model, const std::vector<std::int64_t>& lengths,
               Comparison& comparison) const {
    model.update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
    const std::unique_ptr<Measurable> measured = measurable(model);
    ComparedStructure& structure = comparison.structure.emplace_back(structure_of(*measured, options_.seed));
    structure.model = name, structure.work = work;
    for (ComparedCost& cost : cost_of(*measured, lengths)) {
      cost.model = name, cost.work = work;
      comparison.cost.push_back(std::move(cost));
    }
  }

  struct Measured {
    std::string model, work;
  };

  const CompareOptions& options_;
  const bool quick_;
  const std::string folder_;
  const RunFiles files_;
  const std::vector<std::string> tasks_, models_;
  std::vector<Run> runs_;
  std::vector<Measured> measured_;
};

}  // namespace

std::vector<std::string> compared_tasks() {
  std::vector<std::string> names;
  for (const CatalogTask& task : catalog()) names.push_back(task.name);
  return names;
}

std::vector<std::string> compared_models() { return model_names(); }

Comparison compare(const CompareOptions& options, const std::string& folder) {
  const StopScope stop(options.stop);
  return Comparing(options, folder).run();
}

}  // namespace qkv
