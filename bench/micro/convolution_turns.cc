// Our side of bench/peers/convolution_peers.py: answers one line on standard output for each line on standard input, so
// that a script can run ours and others in turns.
//
//   case THREADS BATCH LENGTH IN OUT KERNEL DILATION
//                             f32, outputs as long as inputs
//   run SECONDS PASS          again and again, PASS forward, or both: forward and all gradients; the best seconds
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>

#include "lab/layers/convolution.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/random.h"

namespace qkv::bench {
namespace {

double seconds_of(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Tensor random_tensor(const Dims& shape) {
  Random random(1);
  Tensor tensor = Tensor::uninitialized(shape);
  for (std::int64_t i = 0; i < tensor.element_count(); ++i) {
    tensor.data<float>()[i] = static_cast<float>(random.normal());
  }
  return tensor;
}

struct Sizes {
  int threads;
  std::int64_t batch, length, in, out, kernel, dilation;
};

// One pass: forward, and backward too if it is wanted.
using Pass = std::function<void(bool)>;

Pass pass_of(const Sizes& own) {
  Weights weights = initial_weights(1);
  auto layer = std::make_shared<Conv1d>(
      Conv1dConfig{.in = own.in, .out = own.out, .kernel = own.kernel, .dilation = own.dilation, .causal = true},
      weights);
  layer->update([](const std::string&, Parameter& parameter) { parameter.want_gradient(); });
  const Dims shape{own.batch, own.length, own.in};
  const auto x = std::make_shared<Tensor>(random_tensor(shape));
  const auto grad_out = std::make_shared<Tensor>(random_tensor(layer->forward(*x).shape()));
  const auto grad_x = std::make_shared<Tensor>(Tensor::zeros(shape));
  return [=, threads = own.threads](bool backward) {
    layer->forward(*x, threads);
    if (backward) layer->backward(*x, *grad_out, *grad_x, threads);
  };
}

// On one thread the processor's time counts, so that other programs' turns do not.
double best_seconds(double seconds, int threads, const std::function<void()>& work) {
  const clockid_t clock = threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  const double end = seconds_of(clock) + seconds;
  double best = 1e9;
  do {
    const double begin = seconds_of(clock);
    work();
    best = std::min(best, seconds_of(clock) - begin);
  } while (seconds_of(clock) < end);
  return best;
}

std::string answer(const std::string& line, Sizes& sizes, Pass& pass) {
  std::istringstream words(line);
  std::string command, wanted;
  double seconds = 0;
  words >> command;
  Sizes own{};
  if (command == "case" &&
      words >> own.threads >> own.batch >> own.length >> own.in >> own.out >> own.kernel >> own.dilation) {
    sizes = own;
    pass = pass_of(own);
    return "ready";
  }
  if (command == "run" && pass && words >> seconds >> wanted) {
    return fmt::format("{}", best_seconds(seconds, sizes.threads, [&] { pass(wanted == "both"); }));
  }
  return "error: no such command";
}

}  // namespace
}  // namespace qkv::bench

int main() {
  qkv::bench::Sizes sizes{};
  qkv::bench::Pass pass;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << qkv::bench::answer(line, sizes, pass) << std::endl;
    } catch (const std::exception& error) {
      std::cout << "error: " << error.what() << std::endl;
    }
  }
}
