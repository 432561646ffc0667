// Our side of bench/peers: answers one line on standard output for each line on standard input, so that a script can
// run ours and others in turns.
//
//   case FILE THREADS CAUSAL DROPOUT REDUCED
//                             query, key, value, and if there: lengths, window, documents, visible, grad_out
//                             (safetensors); CAUSAL is 0 or 1, DROPOUT a probability, REDUCED 1 to multiply in bf16
//   run SECONDS PASS          attention again and again, PASS forward, backward or both; the best seconds
//   sum SECONDS               reads the keys and values once, no more: the best seconds
//   save FILE                 the output as f32 (.npy), or the gradient of the query after a backward pass
//   peak THREADS              billions of f32 operations per second
//   bandwidth THREADS         billions of bytes read from memory per second
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <iostream>
#include <sstream>

#include "plain_sum.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/files.h"
#include "qkv/threads.h"
#include "simd/dispatch.h"

namespace qkv::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Best of the runs that fit into `seconds`, at least one. On one thread the processor's time counts where it is less
// than the wall's, so that other programs' turns do not.
template <class Work>
double best_seconds(double seconds, int threads, Work work) {
  double best = 1e9;
  const double begin = seconds_of(CLOCK_MONOTONIC);
  double end = begin;
  do {
    const double wall = seconds_of(CLOCK_MONOTONIC), processor = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    work();
    const double spent = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - processor;
    end = seconds_of(CLOCK_MONOTONIC);
    best = std::min(best, threads == 1 ? std::min(spent, end - wall) : end - wall);
  } while (end - begin < seconds);
  return best;
}

void read(std::initializer_list<Words> buffers, int threads) {
  constexpr std::int64_t kPiece = 1 << 13;  // words: 64 KiB
  std::atomic<std::uint64_t> total{0};      // depends on all of them, so that none is left out
  for (const Words words : buffers) {
    const auto count = static_cast<std::int64_t>(words.size());
    parallel_for((count + kPiece - 1) / kPiece, threads, [&](std::int64_t piece, int) {
      total += sum_of(words.data() + piece * kPiece, std::min(kPiece, count - piece * kPiece));
    });
  }
}

double peak(int threads) {
  std::atomic<double> sum{0};
  parallel_for(threads, threads, [&](std::int64_t, int) { sum += peak_gflops(Dtype::f32); });
  return sum;
}

double bandwidth(int threads) {
  const Tensor buffer = Tensor::zeros({std::int64_t{1} << 28}, Dtype::u8);
  return 1e-9 * (1 << 28) / best_seconds(1, threads, [&] { read({words_of(buffer)}, threads); });
}

class Case {
 public:
  Case(const std::string& path, int threads, bool causal, double dropout, bool reduced)
      : arrays_(read_safetensors(path).tensors) {
    out_ = Tensor::zeros(query().shape(), query().dtype());
    options_.threads = threads;
    options_.dropout = {.p = dropout, .seed = 1};
    options_.precision = reduced ? Precision::reduced : Precision::exact;
    if (causal) options_.mask = Mask::causal();
    if (arrays_.contains("lengths")) options_.mask = options_.mask & Mask::lengths(arrays_.at("lengths"));
    if (arrays_.contains("window")) {
      const std::int64_t* window = arrays_.at("window").data<std::int64_t>();
      options_.mask = options_.mask & Mask::window(window[0], window[1]);
    }
    if (arrays_.contains("documents")) options_.mask = options_.mask & Mask::documents(arrays_.at("documents"));
    if (arrays_.contains("visible")) options_.mask = options_.mask & Mask::boolean(arrays_.at("visible"));
    if (!arrays_.contains("grad_out")) return;
    Dims rows = query().shape();
    rows = {rows[0], rows[1], rows[2]};
    log_sum_exp_ = Tensor::zeros(rows);
    grad_query_ = Tensor::zeros(query().shape(), query().dtype());
    grad_key_ = Tensor::zeros(key().shape(), key().dtype());
    grad_value_ = Tensor::zeros(value().shape(), value().dtype());
  }

  double run(double seconds, const std::string& pass) {
    if (pass == "backward") forward();
    return best_seconds(seconds, options_.threads, [&] {
      if (pass != "backward") forward();
      if (pass != "forward") backward();
    });
  }
  double sum(double seconds) const {
    return best_seconds(seconds, options_.threads,
                        [&] { read({words_of(key()), words_of(value())}, options_.threads); });
  }
  void save(const std::string& path) const {
    write_npy(path, convert(arrays_.contains("grad_out") ? grad_query_ : out_, Dtype::f32));
  }

 private:
  const Tensor& query() const { return arrays_.at("query"); }
  const Tensor& key() const { return arrays_.at("key"); }
  const Tensor& value() const { return arrays_.at("value"); }

  void forward() {
    AttentionExtras extras;
    if (arrays_.contains("grad_out")) extras.log_sum_exp = log_sum_exp_;
    attention(query(), key(), value(), out_, options_, extras);
  }
  void backward() {
    attention_backward(query(), key(), value(), out_, log_sum_exp_, arrays_.at("grad_out"), options_,
                       {.query = grad_query_, .key = grad_key_, .value = grad_value_});
  }

  std::map<std::string, Tensor> arrays_;
  Tensor out_, log_sum_exp_, grad_query_, grad_key_, grad_value_;
  AttentionOptions options_;
};

std::string answer(const std::string& line, std::optional<Case>& current) {
  std::istringstream words(line);
  std::string command, path;
  int threads = 1;
  double seconds = 0;
  words >> command;
  if (command == "peak" && words >> threads) return fmt::format("{}", peak(threads));
  if (command == "bandwidth" && words >> threads) return fmt::format("{}", bandwidth(threads));
  bool causal = false, reduced = false;
  double dropout = 0;
  if (command == "case" && words >> path >> threads >> causal >> dropout >> reduced) {
    current.emplace(path, threads, causal, dropout, reduced);
    return "ready";
  }
  std::string pass;
  if (current && command == "run" && words >> seconds >> pass) return fmt::format("{}", current->run(seconds, pass));
  if (current && command == "sum" && words >> seconds) return fmt::format("{}", current->sum(seconds));
  if (current && command == "save" && words >> path) {
    current->save(path);
    return "saved";
  }
  throw std::invalid_argument(fmt::format("\"{}\" is no command, or comes before its case", line));
}

}  // namespace
}  // namespace qkv::bench

int main() {
  std::optional<qkv::bench::Case> current;
  std::string line;
  while (std::getline(std::cin, line)) {
    try {
      std::cout << qkv::bench::answer(line, current) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error: " << error.what() << std::endl;
    }
  }
}
