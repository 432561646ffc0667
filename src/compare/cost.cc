// Times updates and answers of a model, and how much memory they take.
#include "compare/cost.h"

#include <chrono>
#include <functional>
#include <limits>

#include "compare/growth.h"
#include "compare/memory_use.h"
#include "core/stop.h"
#include "qkv/random.h"
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

std::vector<std::int32_t> random_tokens(const SequenceModel& model, std::int64_t count) {
  Random random(1);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(model.config().vocab))));
  }
  return tokens;
}

struct Measured {
  double seconds = 0;
  std::optional<double> bytes{};
};

Measured per_token(double seconds, std::optional<std::int64_t> bytes, std::int64_t tokens) {
  const auto count = static_cast<double>(tokens);
  return {seconds / count, bytes ? std::optional(static_cast<double>(*bytes) / count) : std::nullopt};
}

// Forward and backward over several sequences of one length, each token a target.
Measured of_training(SequenceModel& model, std::int64_t length) {
  SequenceBatch batch{.tokens = random_tokens(model, kSequences * length)};
  batch.targets = batch.tokens;
  batch.offsets = offsets_of(std::vector<std::int64_t>(kSequences, length));
  const auto work = [&] { model.backward(batch, 0); };
  const std::optional<std::int64_t> bytes = peak_growth(work);
  return per_token(fastest(work), bytes, kSequences * length);
}

// One sequence token by token; the memory is what is kept in the end.
Measured of_answering(const SequenceModel& model, std::int64_t length) {
  const std::vector<std::int32_t> tokens = random_tokens(model, length);
  std::int64_t bytes = 0;
  const double seconds = fastest([&] {
    const std::int64_t before = allocated_bytes();
    SequenceModel::Reader reader(model);
    for (const std::int32_t token : tokens) reader.read(token);
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

ComparedCost measure(const std::string& name, const std::string& phase, int count,
                     const std::vector<std::int64_t>& lengths, const std::stop_token& stop,
                     const std::function<Measured(std::int64_t)>& at_length) {
  const WithThreads with(count);
  ComparedCost cost{.model = name, .phase = phase, .threads = count};
  ComparedGrowth memory{.lengths = lengths};
  cost.seconds = growth_of(lengths, [&](std::int64_t length) {
    check_stop(&stop);
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

std::vector<ComparedCost> cost_of(const std::string& name, SequenceModel& model,
                                  const std::vector<std::int64_t>& lengths, const std::stop_token& stop) {
  model.update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
  std::vector<ComparedCost> costs;
  for (const int count : {1, 2}) {
    costs.push_back(measure(name, "training", count, lengths, stop,
                            [&](std::int64_t length) { return of_training(model, length); }));
    costs.push_back(measure(name, "answering", count, lengths, stop,
                            [&](std::int64_t length) { return of_answering(model, length); }));
  }
  return costs;
}

}  // namespace qkv::comparison
