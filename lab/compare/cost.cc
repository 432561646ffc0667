// Counts what the layers say, times updates and answers of a model, and sees how much memory they take.
#include "lab/compare/cost.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "core/mathematics.h"
#include "core/stop.h"
#include "qkv/memory.h"
#include "qkv/threads.h"

namespace qkv::comparison {
namespace {

const std::vector<std::int64_t> kGraphLengths = {16, 32, 64, 128};
const std::vector<std::int64_t> kOperationLengths = {64, 128, 256, 512, 1024};

}  // namespace

ComparedStructure structure_of(const Measurable& model, std::uint64_t seed) {
  ComparedStructure structure{.parameters = model.parameters()};
  structure.sequential_steps = growth_of(kGraphLengths, [&](std::int64_t length) {
    return static_cast<double>(model.graph(length).graph.sequential_steps());
  });
  structure.longest_path = growth_of(
      kGraphLengths, [&](std::int64_t length) { return static_cast<double>(longest_path(model.graph(length))); });
  structure.operations_at_once =
      growth_of(kOperationLengths, [&](std::int64_t length) { return model.operations_at_once(length); });
  structure.operations_in_turn =
      growth_of(kOperationLengths, [&](std::int64_t length) { return model.operations_in_turn(length); });
  structure.reach_length = kGraphLengths.back();
  structure.reach = reach(model.graph(structure.reach_length));
  structure.measured_reach = model.measured_reach(structure.reach_length, seed);
  return structure;
}

namespace {

// From /proc/self/status, in bytes.
std::optional<std::int64_t> peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return std::nullopt;
}

// Makes the peak what is in use now.
bool reset_peak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return static_cast<bool>(file);
}

}  // namespace

std::optional<std::int64_t> peak_growth(const std::function<void()>& work) {
  trim_memory();
  malloc_trim(0);  // the end of the heap, too
  const bool is_reset = reset_peak();
  const std::optional<std::int64_t> before = peak_memory();
  work();
  const std::optional<std::int64_t> after = peak_memory();
  if (!is_reset || !before || !after) return std::nullopt;
  return std::max<std::int64_t>(0, *after - *before);
}

std::int64_t allocated_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

std::optional<ComparedExponent> fitted_exponent(const std::vector<std::int64_t>& lengths,
                                                const std::vector<double>& values) {
  constexpr std::size_t kLeast = 4;  // two lengths fix a power exactly, despite noise
  if (lengths.size() < kLeast) return {};
  std::vector<double> x, y;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (!(values[i] > 0)) return {};
    x.push_back(log(static_cast<double>(lengths[i])));
    y.push_back(log(values[i]));
  }
  const auto count = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / count;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / count;
  double xx = 0, xy = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  const double slope = xy / xx;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double rest = y[i] - mean_y - slope * (x[i] - mean_x);
    squares += rest * rest;
  }
  return ComparedExponent{.value = slope, .error = std::sqrt(squares / (count - 2) / xx)};
}

ComparedGrowth growth_of(const std::vector<std::int64_t>& lengths, const std::function<double(std::int64_t)>& value) {
  ComparedGrowth growth{.lengths = lengths};
  for (const std::int64_t length : lengths) growth.values.push_back(value(length));
  growth.exponent = fitted_exponent(lengths, growth.values);
  return growth;
}

namespace {

constexpr std::int64_t kSequences = 8;  // of an update
constexpr double kLeastSeconds = 0.05;
constexpr int kLeastRuns = 3;

// Time of the fastest run, after warm-up.
double fastest(const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  double best = std::numeric_limits<double>::infinity();
  const Clock::time_point begin = Clock::now();
  for (int run = 0; run < kLeastRuns || since(begin) < kLeastSeconds; ++run) {
    const Clock::time_point start = Clock::now();
    work();
    best = std::min(best, since(start));
  }
  return best;
}

struct Measured {
  double seconds = 0;
  std::optional<double> bytes{};
};

Measured per_token(double seconds, std::optional<std::int64_t> bytes, std::int64_t tokens) {
  const auto count = static_cast<double>(tokens);
  return {seconds / count, bytes ? std::optional(static_cast<double>(*bytes) / count) : std::nullopt};
}

Measured of_training(Measurable& model, std::int64_t length) {
  const auto work = [&] { model.train(kSequences, length); };
  work();  // what is allocated once and kept is not of this length
  const std::optional<std::int64_t> bytes = peak_growth(work);
  return per_token(fastest(work), bytes, kSequences * length);
}

// The memory is what is kept in the end.
Measured of_answering(const Measurable& model, std::int64_t length) {
  std::int64_t bytes = 0;
  const double seconds = fastest([&] {
    const std::int64_t before = allocated_bytes();
    const std::shared_ptr<void> kept = model.answer(length);
    bytes = allocated_bytes() - before;
  });
  return per_token(seconds, bytes, length);
}

// Sets the number of threads for as long as it lives.
class WithThreads {
 public:
  explicit WithThreads(int count) : before_(threads()) { set_threads(count); }
  ~WithThreads() { set_threads(before_); }
  WithThreads(const WithThreads&) = delete;

 private:
  int before_;
};

ComparedCost measure(const std::string& phase, int count, const std::vector<std::int64_t>& lengths,
                     const std::function<Measured(std::int64_t)>& at_length) {
  const WithThreads with(count);
  ComparedCost cost{.phase = phase, .threads = count};
  ComparedGrowth memory{.lengths = lengths};
  cost.seconds = growth_of(lengths, [&](std::int64_t length) {
    check_stop();
    const Measured measured = at_length(length);
    if (measured.bytes) memory.values.push_back(*measured.bytes);
    return measured.seconds;
  });
  if (memory.values.size() == lengths.size()) {
    memory.exponent = fitted_exponent(lengths, memory.values);
    cost.memory = std::move(memory);
  }
  return cost;
}

}  // namespace

std::vector<ComparedCost> cost_of(Measurable& model, const std::vector<std::int64_t>& lengths) {
  std::vector<ComparedCost> costs;
  for (const int count : {1, 2}) {
    costs.push_back(
        measure("training", count, lengths, [&](std::int64_t length) { return of_training(model, length); }));
    costs.push_back(
        measure("answering", count, lengths, [&](std::int64_t length) { return of_answering(model, length); }));
  }
  return costs;
}

}  // namespace qkv::comparison
