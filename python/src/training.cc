// train() and compare(): long work that tells how far it is.
#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "lab/compare/compare.h"
#include "qkv/stop.h"
#include "qkv/train/train_files.h"
#include "surroundings.h"

namespace qkv::python {
namespace {

// Calls a function of Python from any thread. What it raises asks the work to stop, and is raised when that has ended.
class Teller {
 public:
  explicit Teller(nb::handle function) : function_(nb::borrow(function)) {
    if (!function_.is_none() && PyCallable_Check(function_.ptr()) == 0) {
      throw TypeError("progress must be callable, got " + name_of_type(function));
    }
  }

  // `fields` makes the keywords of the call.
  template <class Fields>
  void tell(const Fields& fields) {
    if (function_.is_none()) return;
    const nb::gil_scoped_acquire acquired;
    if (raised_) return;
    try {
      function_(fields());
    } catch (nb::python_error& error) {
      raised_.emplace(std::move(error));
      stop_.request_stop();
    }
  }

  // Runs `work`, which a signal stops, or what the function raised.
  template <class Work>
  auto run(const Work& work) {
    try {
      const auto scoped = [&] {
        const StopScope scope(stop_.get_token());
        return work();
      };
      return run_released(kLongOperations, scoped, SecondSignal::ends_the_process);
    } catch (...) {
      if (raised_) throw std::move(*raised_);
      throw;
    }
  }

 private:
  nb::object function_;
  std::stop_source stop_{};
  std::optional<nb::python_error> raised_{};
};

class Observer : public TrainingObserver, public CompareObserver {
 public:
  explicit Observer(Teller& teller) : teller_(teller) {}

  void receive(const TrainingProgress& progress) override {
    teller_.tell([&] {
      return dict_of("step", progress.step, "steps", progress.steps, "epoch", progress.epoch, "loss", progress.loss,
                     "rate", progress.rate, "tokens_per_second", progress.tokens_per_second, "seconds_left",
                     progress.seconds_left);
    });
  }
  void receive(const Validation& validation) override {
    teller_.tell([&] {
      nb::dict said = dict_of("step", validation.step, "validation_loss", validation.loss, "best", validation.best);
      if (validation.bits_per_byte) said["bits_per_byte"] = *validation.bits_per_byte;
      if (validation.metric) said[validation.metric->name.c_str()] = validation.metric->value;
      return said;
    });
  }
  void notice(const std::string& text) override {
    teller_.tell([&] { return dict_of("notice", text); });
  }
  void receive(const CompareProgress& progress) override {
    teller_.tell(
        [&] { return dict_of("doing", progress.doing, "done", progress.done, "seconds_left", progress.seconds_left); });
  }

 private:
  Teller& teller_;
};

nb::dict result_of_training(const TrainingResult& result) {
  nb::dict given = dict_of("step", result.step, "best_step", result.best_step, "best_loss", result.best_loss,
                           "averaged", result.averaged, "is_mean", result.is_mean);
  if (result.best_metric) given[("best_" + result.best_metric->name).c_str()] = result.best_metric->value;
  return given;
}

nb::dict train_from_files(nb::handle config, nb::handle train, nb::handle valid, nb::handle out, nb::handle progress,
                          const nb::kwargs& given) {
  TrainTranslatorFiles files{.config = take_text(config, "config"),
                             .train = take_text(train, "train"),
                             .valid = take_text(valid, "valid"),
                             .out = take_text(out, "out")};
  Keywords keywords("train", given);
  bool change = false, skip_bad = false;
  keywords.read("change", change);
  const TrainedKind kind = trained_kind(files.config);
  if (kind == TrainedKind::translator) {
    keywords.read("target_tokenizer", files.target_tokenizer, "skip_bad", skip_bad);
  }
  if (kind == TrainedKind::translator || kind == TrainedKind::language) keywords.read("tokenizer", files.tokenizer);
  if (kind != TrainedKind::pictures) {
    keywords.read("start_from", files.from, "exact_text", files.lines.exact, "replace_invalid",
                  files.lines.replace_invalid);
  }
  keywords.finish();
  if (skip_bad) files.bad_lines = BadLines::leave_out;
  Teller teller(progress);
  Observer observer(teller);
  const TrainingOptions options{.observer = &observer, .change = change};
  return result_of_training(teller.run([&] { return train_files(files, options); }));
}

std::string compare_models(nb::handle out, nb::handle progress, const nb::kwargs& given) {
  const std::string folder = take_text(out, "out");
  CompareOptions options;
  Keywords keywords("compare", given);
  std::optional<std::uint64_t> seed;
  bool quick = false;
  keywords.read("tasks", options.tasks, "models", options.models, "seed", seed, "quick", quick);
  keywords.finish();
  if (seed) options.seed = *seed;
  options.effort = quick ? CompareEffort::quick : CompareEffort::full;
  options.phrases = app::phrase_book();
  Teller teller(progress);
  Observer observer(teller);
  options.observer = &observer;
  return to_json(teller.run([&] { return compare(options, folder); }));
}

}  // namespace

void bind_training(nb::module_& module) {
  Described(module)
      .def("_train", &train_from_files, "config"_a, "train"_a, "valid"_a, "out"_a, "progress"_a, "keywords"_a)
      .def("_compare", &compare_models, "out"_a, "progress"_a, "keywords"_a);
}

}  // namespace qkv::python
