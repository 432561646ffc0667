// compare(): checks what is wanted, finishes the trainings, and puts together what they and the layers say.
#include "qkv/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "compare/catalog.h"
#include "compare/comparison_drawings.h"
#include "compare/cost.h"
#include "compare/input_gradients.h"
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
        folder_(folder),
        runs_folder_(folder + "/runs"),
        tasks_(chosen(options.tasks, compared_tasks(), "task")),
        models_(chosen(options.models, compared_models(), "model")) {
    for (const std::string& task : tasks_) plan(catalog_task(task));
    refuse_unless(!runs_.empty(), "compare", "none of the models {} does any of the tasks {}; {} is for {}",
                  listed(models_), listed(tasks_), tasks_[0], listed(catalog_task(tasks_[0]).models));
  }

  Comparison run() {
    double total = 0, skipped = 0;
    for (const Run& run : runs_) {
      total += work_of(run);
      if (is_finished(run, runs_folder_)) skipped += work_of(run);
    }
    Progress progress(options_.observer, total + measuring_work() * static_cast<double>(models_.size()));
    progress.skip(skipped, "reading what is done");
    train_all(progress);
    Comparison comparison{.seed = options_.seed, .effort = options_.effort};
    gather_runs(comparison);
    for (const std::string& model : models_) {
      if (is_reader(model)) measure(model, comparison, progress);
    }
    for (const auto& [name, svg] : drawings_of(comparison)) write_file(folder_ + "/" + name, svg);
    write_file(folder_ + "/comparison.json", to_json(comparison) + "\n");
    return comparison;
  }

 private:
  void plan(const CatalogTask& task) {
    const bool quick = options_.effort == CompareEffort::quick;
    for (const std::string& model : task.models) {
      if (!holds(models_, model)) continue;
      for (std::int64_t i = 0; i < task.seeds; ++i) {
        Run run{.task = task.name,
                .model = model,
                .seed = options_.seed + static_cast<std::uint64_t>(i),
                .steps = quick ? kQuickSteps : task.steps,
                .batch_tokens = quick ? kQuickTokens : task.batch_tokens,
                .examples = quick ? kQuickExamples : task.examples};
        runs_.push_back(run);
        if (task.name != "recall" || model != "rnn") continue;
        run.clip = 0;
        runs_.push_back(run);
      }
    }
  }

  double measuring_work() const {
    return options_.effort == CompareEffort::quick ? kQuickMeasuringWork : kMeasuringWork;
  }
  static double work_of(const Run& run) { return static_cast<double>(run.steps * run.batch_tokens); }

  // As many at a time as there are threads: one of these small models keeps one thread busy, not two.
  void train_all(Progress& progress) {
    std::filesystem::create_directories(runs_folder_);
    results_.resize(runs_.size());
    parallel_for(std::ssize(runs_), 0, [&](std::int64_t i, int) {
      const auto index = static_cast<std::size_t>(i);
      const Run& run = runs_[index];
      check_stop(&options_.stop);
      const auto on_step = [&](std::int64_t) { progress.add(static_cast<double>(run.batch_tokens), run.name()); };
      results_[index] = finish(run, runs_folder_, on_step, options_.stop);
    });
  }

  void gather_runs(Comparison& comparison) const {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const Run& run = runs_[i];
      const RunResult& result = results_[i];
      if (run.task == "recall" && run.model == "rnn") add_norm(comparison, run, result);
      if (run.clip == 0) continue;
      auto& tasks = comparison.tasks;
      if (tasks.empty() || tasks.back().task != run.task || tasks.back().model != run.model) {
        tasks.push_back({.task = run.task,
                         .model = run.model,
                         .parameters = result.parameters,
                         .asked = result.asked,
                         .chance = catalog_task(run.task).chance});
      }
      add_points(result.accuracy, tasks.back().accuracy);
      if (result.gradients.empty()) continue;
      add_points(result.gradients, gradient_of(comparison, run.model, "end").norm);
    }
  }

  static void add_norm(Comparison& comparison, const Run& run, const RunResult& result) {
    auto& all = comparison.clipping;
    auto found = std::find_if(all.begin(), all.end(), [&](const auto& c) { return c.clip == run.clip; });
    if (found == all.end()) found = all.insert(all.end(), {.model = run.model, .clip = run.clip});
    found->largest.push_back(result.largest_norm);
  }

  static ComparedGradient& gradient_of(Comparison& comparison, const std::string& model, const std::string& when) {
    for (ComparedGradient& gradient : comparison.gradients) {
      if (gradient.model == model && gradient.when == when) return gradient;
    }
    return comparison.gradients.emplace_back(ComparedGradient{.model = model, .when = when});
  }

  static void add_points(const std::map<std::int64_t, double>& values, std::vector<ComparedPoint>& points) {
    for (const auto& [at, value] : values) {
      auto found = std::find_if(points.begin(), points.end(), [at = at](const auto& point) { return point.at == at; });
      if (found == points.end()) found = points.insert(points.end(), {.at = at});
      found->values.push_back(value);
    }
  }

  SequenceModel initial(const std::string& model, std::uint64_t seed) const {
    const std::int64_t parameters = catalog_task("recall").parameters;
    return {sized(sequence_kind(model), vocab_of(SequenceTask::recall), parameters), seed};
  }

  // Of a sequence model: gradients at the start, what its layers say, time and memory.
  void measure(const std::string& model, Comparison& comparison, Progress& progress) const {
    const std::string doing = "measuring " + model;
    progress.add(0, doing);
    std::vector<std::string> kinds{model};
    if (model == "lstm") kinds.push_back("lstm-open");
    for (const std::string& kind : kinds) {
      for (std::int64_t i = 0; i < kGradientSeeds; ++i) {
        check_stop(&options_.stop);
        const std::uint64_t seed = options_.seed + static_cast<std::uint64_t>(i);
        add_points(input_gradients(initial(kind, seed), seed), gradient_of(comparison, kind, "start").norm);
      }
    }
    SequenceModel fresh = initial(model, options_.seed);
    comparison.structure.push_back(structure_of(model, fresh, options_.seed));
    const bool quick = options_.effort == CompareEffort::quick;
    for (ComparedCost& cost : cost_of(model, fresh, quick ? kQuickCostLengths : kCostLengths, options_.stop)) {
      comparison.cost.push_back(std::move(cost));
    }
    progress.add(measuring_work(), doing);
  }

  const CompareOptions& options_;
  const std::string folder_, runs_folder_;
  const std::vector<std::string> tasks_, models_;
  std::vector<Run> runs_;
  std::vector<RunResult> results_;
};

}  // namespace

std::vector<std::string> compared_tasks() {
  std::vector<std::string> names;
  for (const CatalogTask& task : catalog()) names.push_back(task.name);
  return names;
}

std::vector<std::string> compared_models() { return model_names(); }

double ComparedPoint::mean() const {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double ComparedGradient::ratio() const {
  double sum = 0;
  const std::vector<double>&near = norm.front().values, &far = norm.back().values;
  for (std::size_t i = 0; i < near.size(); ++i) sum += far[i] / near[i];
  return sum / static_cast<double>(near.size());
}

Comparison compare(const CompareOptions& options, const std::string& folder) {
  return Comparing(options, folder).run();
}

}  // namespace qkv
