// compare(): checks what is wanted, finishes the trainings, and puts together and draws what they and the layers say.
#include "lab/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "core/refuse.h"
#include "core/stop.h"
#include "io/files/descriptor.h"
#include "lab/compare/catalog.h"
#include "lab/compare/chart.h"
#include "lab/compare/cost.h"
#include "lab/compare/pair_tasks.h"
#include "lab/compare/run.h"
#include "qkv/files.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

using namespace comparison;

// The row for which `is_it` holds; `fresh`, behind the others, if there is none yet.
template <class Row, class IsIt>
Row& row_of(std::vector<Row>& rows, const IsIt& is_it, Row fresh) {
  const auto found = std::find_if(rows.begin(), rows.end(), is_it);
  return found == rows.end() ? rows.emplace_back(std::move(fresh)) : *found;
}

void add_points(const std::map<std::int64_t, double>& values, std::vector<ComparedPoint>& points) {
  for (const auto& [at, value] : values) {
    row_of(points, [wanted = at](const ComparedPoint& point) { return point.at == wanted; }, {.at = at})
        .values.push_back(value);
  }
}

double mean_of(const std::map<std::int64_t, double>& values) {
  double sum = 0;
  for (const auto& [at, value] : values) sum += value;
  return sum / static_cast<double>(values.size());
}

void add_gradients(Comparison& comparison, const std::string& model, const std::string& when,
                   const std::map<std::int64_t, double>& norms) {
  const auto is_it = [&](const ComparedGradient& row) { return row.model == model && row.when == when; };
  add_points(norms, row_of(comparison.gradients, is_it, {.model = model, .when = when}).norm);
}

// The results of one seed.
void add_run(Comparison& comparison, const Run& run, const RunResult& result) {
  if (is_clipped_or_not(run)) {
    const auto is_it = [&](const ComparedClipping& row) { return row.clip == run.clip; };
    ComparedClipping& row = row_of(comparison.clipping, is_it, {.model = run.model, .clip = run.clip});
    row.largest.push_back(result.norms.largest);
    row.median.push_back(result.norms.median);
    row.accuracy.push_back(mean_of(result.accuracy));
  }
  if (run.clip == 0) return;
  const auto is_it = [&](const ComparedTask& row) { return row.task == run.task && row.model == run.model; };
  add_points(result.accuracy, row_of(comparison.tasks, is_it,
                                     {.task = run.task,
                                      .model = run.model,
                                      .parameters = result.parameters,
                                      .asked = result.asked,
                                      .chance = catalog_task(run.task).chance})
                                  .accuracy);
  if (!result.gradients.empty()) add_gradients(comparison, run.model, "end", result.gradients);
}

// Work is counted in tokens of training. Safe for concurrent calls.
class Progress {
 public:
  Progress(CompareObserver* observer, double total) : observer_(observer), total_(total) {}

  void add(double work, const std::string& doing) { advance(work, doing, true); }
  // The share done by an earlier call, which does not count for speed.
  void skip(double work, const std::string& doing) { advance(work, doing, false); }

 private:
  void advance(double work, const std::string& doing, bool counts) {
    const std::lock_guard lock(mutex_);
    (counts ? done_ : skipped_) += work;
    if (observer_ == nullptr) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    const double left = std::max(0.0, total_ - done_ - skipped_);
    observer_->receive(
        {.doing = doing, .done = 1 - left / total_, .seconds_left = done_ > 0 ? seconds / done_ * left : 0});
  }

  CompareObserver* observer_;
  const double total_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  double done_ = 0, skipped_ = 0;
};

ChartSeries series_of(const std::string& model, const std::vector<ComparedPoint>& points) {
  ChartSeries series{.name = model};
  for (const ComparedPoint& point : points) {
    const auto [least, most] = std::minmax_element(point.values.begin(), point.values.end());
    series.points.push_back({.x = static_cast<double>(point.at), .y = point.mean(), .low = *least, .high = *most});
  }
  return series;
}

ChartSeries series_of(const std::string& model, const ComparedGrowth& growth, double scale) {
  ChartSeries series{.name = model};
  for (std::size_t i = 0; i < growth.lengths.size(); ++i) {
    const double y = growth.values[i] * scale;
    series.points.push_back({.x = static_cast<double>(growth.lengths[i]), .y = y, .low = y, .high = y});
  }
  return series;
}

std::vector<Chart> accuracy_charts(const Comparison& comparison) {
  std::vector<Chart> charts;
  for (const ComparedTask& result : comparison.tasks) {
    const CatalogTask& task = catalog_task(result.task);
    if (charts.empty() || !charts.back().title.starts_with(task.name + ":")) {
      charts.push_back({.title = task.name + ": share of right answers", .x_name = task.at, .rule = result.chance});
    }
    charts.back().series.push_back(series_of(result.model, result.accuracy));
  }
  return charts;
}

std::vector<Chart> gradient_charts(const Comparison& comparison) {
  constexpr double kLeast = 1e-16;
  std::vector<Chart> charts;
  for (const std::string when : {"start", "end"}) {
    Chart chart{.title = fmt::format("gradient of the loss at a token, at the {} of training", when),
                .x_name = "how many tokens before",
                .scale = ChartScale::decades,
                .least = kLeast};
    for (const ComparedGradient& gradient : comparison.gradients) {
      if (gradient.when == when) chart.series.push_back(series_of(gradient.model, gradient.norm));
    }
    if (!chart.series.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

// Charts of sequence models and of translators.
std::vector<Chart> cost_charts(const Comparison& comparison, const std::string& work) {
  const auto chart_of = [&](const std::string& title) {
    return Chart{.title = work + ": " + title, .x_name = "tokens of the sequence", .scale = ChartScale::decades};
  };
  Chart steps = chart_of("sequential steps"), operations = chart_of("operations per token, after N others");
  for (const ComparedStructure& one : comparison.structure) {
    if (one.work != work) continue;
    steps.series.push_back(series_of(one.model, one.sequential_steps, 1));
    operations.series.push_back(series_of(one.model, one.operations_in_turn, 1));
  }
  if (steps.series.empty()) return {};
  std::vector<Chart> charts{std::move(steps), std::move(operations)};
  for (const std::string phase : {"training", "answering"}) {
    Chart time = chart_of(phase + ", microseconds per token, one thread");
    Chart memory = chart_of(phase + ", bytes per token");
    for (const ComparedCost& cost : comparison.cost) {
      if (cost.work != work || cost.phase != phase || cost.threads != 1) continue;
      time.series.push_back(series_of(cost.model, cost.seconds, 1e6));
      if (cost.memory) memory.series.push_back(series_of(cost.model, *cost.memory, 1));
    }
    charts.push_back(std::move(time));
    if (!memory.series.empty()) charts.push_back(std::move(memory));
  }
  return charts;
}

// SVG by the name of its file: accuracy.svg, gradient.svg, cost.svg and translating.svg, those that there is something
// to draw for.
std::map<std::string, std::string> drawings_of(const Comparison& comparison) {
  std::map<std::string, std::string> drawings;
  const auto add = [&](const char* name, const std::vector<Chart>& charts) {
    if (!charts.empty()) drawings[name] = charts_svg(charts);
  };
  add("accuracy.svg", accuracy_charts(comparison));
  add("gradient.svg", gradient_charts(comparison));
  add("cost.svg", cost_charts(comparison, "reading"));
  add("translating.svg", cost_charts(comparison, "translating"));
  return drawings;
}

constexpr std::int64_t kQuickSteps = 10, kQuickTokens = 512, kQuickExamples = 20;
constexpr std::int64_t kGradientSeeds = 3;
const std::vector<std::int64_t> kCostLengths = {64, 128, 256, 512, 1024}, kQuickCostLengths = {64, 128};
// Attention step by step takes seconds beyond.
const std::vector<std::int64_t> kTranslatingLengths = {32, 64, 128, 256}, kQuickTranslatingLengths = {16, 32};
// Work of measuring a model, in tokens of training.
constexpr double kMeasuringWork = 300'000, kQuickMeasuringWork = 60'000;

std::string listed(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The requested items, in the order of the catalog.
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
    progress.skip(skipped, "reading earlier results");
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
    io::create_folders(files_.folder);
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

  // Costs counted from its layers, time and memory.
  template <class Model>
  void measure(const std::string& name, const std::string& work, Model& model, const std::vector<std::int64_t>& lengths,
               Comparison& comparison) const {
    model.update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
    ComparedStructure& structure = comparison.structure.emplace_back(structure_of(model, options_.seed));
    structure.model = name, structure.work = work;
    for (ComparedCost& cost : cost_of(model, lengths)) {
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

}  // namespace qkv
