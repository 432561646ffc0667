// Runs the library's work without the interpreter's lock, and lets Ctrl-C through.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "arguments.h"

namespace qkv::python {

// More work than this is worth a thread that the caller watches over: 50 ms of a slow core.
inline constexpr double kLongOperations = 2e8;
// Less is done before another thread could have made use of the interpreter's lock.
inline constexpr double kTinyOperations = 1e5;

// The effect of a second Ctrl-C on work that was stopped and has not ended yet.
enum class SecondSignal { nothing, ends_the_process };

// Multiplications and additions of the layers of a Transformer with this config, for so many tokens.
template <class Config>
double layers_operations(const Config& config, double tokens) {
  const auto dim = static_cast<double>(config.model_dim), ff = static_cast<double>(config.ff_dim);
  return 2 * tokens * static_cast<double>(config.layers) * (4 * dim * dim + 2 * dim * ff);
}

// Runs `work` with the lock released, unless it is tiny. Where it is long and this is the main thread, the only one
// whose signals Python hears, on a thread of its own: a signal whose handler raises stops all that it does
// (qkv/stop.h), and the exception is the handler's.
void run_erased(double operations, const std::function<void()>& work, SecondSignal second);

template <class Work>
auto run_released(double operations, const Work& work, SecondSignal second = SecondSignal::nothing) {
  if (operations < kTinyOperations) return work();
  if constexpr (std::is_void_v<decltype(work())>) {
    run_erased(operations, std::cref(work), second);  // a reference needs no memory of its own
  } else {
    std::optional<decltype(work())> result;
    const auto keep = [&] { result.emplace(work()); };
    run_erased(operations, std::cref(keep), second);
    return *std::move(result);
  }
}
// The same of work that may be long.
template <class Work>
auto run_released(const Work& work) {
  return run_released(kLongOperations, work);
}

// __init__: opens the model in a folder.
template <class Model>
void load_folder(Model* place, nanobind::handle folder) {
  const std::string path = take_text(folder, "folder");
  new (place) Model(run_released([&] { return Model::load(path); }));
}

}  // namespace qkv::python
