// Times updates and answers of a model, and how much memory they take.
#include "compare/cost.h"

#include <chrono>
#include <functional>
#include <limits>

#include "compare/growth.h"
#include "compare/memory_use.h"
#include "core/stop.h"
#include "qkv/threads.h"

namespace qkv::comparison {
namespace {

constexpr std::int64_t kSequences = 8;  // of an update
constexpr double kLeastSeconds = 0.05;
constexpr int kLeastRuns = 3;

// Of the fastest run, after those that warmed up.
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
