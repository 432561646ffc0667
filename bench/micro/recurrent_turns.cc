// Our side of bench/peers/recurrent_peers.py: answers one line on standard output for each line on standard input, so
// that a script can run ours and torch's in turns.
//
//   case CELL THREADS BATCH LENGTH SIZE    lstm, gru, rnn; as many inputs as the states have
//   run SECONDS PASS                       PASS forward, or both for forward with what backward needs, and backward;
//   the
//                                          best seconds
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iostream>
#include <optional>
#include <sstream>

#include "lab/layers/recurrent.h"
#include "qkv/layers/initial_weights.h"
#include "qkv/random.h"

namespace qkv::bench {
namespace {

Tensor random_rows(const Dims& shape) {
  Random random(1);
  Tensor rows = Tensor::uninitialized(shape);
  for (std::int64_t i = 0; i < rows.element_count(); ++i) rows.data<float>()[i] = static_cast<float>(random.normal());
  return rows;
}

Recurrent make(const std::string& cell, std::int64_t size) {
  Weights weights = initial_weights(1);
  if (cell == "lstm") return Recurrent({.cell = RecurrentCell::lstm, .in = size, .hidden = size}, weights);
  if (cell == "gru") return Recurrent({.cell = RecurrentCell::gru, .in = size, .hidden = size}, weights);
  if (cell == "rnn") return Recurrent({.cell = RecurrentCell::rnn_tanh, .in = size, .hidden = size}, weights);
  throw std::invalid_argument(fmt::format("\"{}\" is no cell; it must be lstm, gru or rnn", cell));
}

class Case {
 public:
  Case(const std::string& cell, int threads, std::int64_t batch, std::int64_t length, std::int64_t size)
      : layer_(make(cell, size)),
        x_(random_rows({batch, length, size})),
        grad_x_(Tensor::zeros(x_.shape())),
        threads_(threads) {
    layer_.update([](const std::string&, Parameter& own) { own.want_gradient(); });
  }

  double run(double seconds, const std::string& pass) {
    double best = 1e9;
    for (const double begin = now(); now() - begin < seconds || best == 1e9;) {
      const double turn = now();
      if (pass == "forward") {
        layer_.forward(x_, {}, threads_);
      } else {
        RecurrentSaved saved;
        const RecurrentOutput result = layer_.forward(x_, {}, {}, saved, threads_);
        layer_.backward(x_, {}, {}, saved, {.out = x_}, {.x = grad_x_}, threads_);
      }
      best = std::min(best, now() - turn);
    }
    return best;
  }

 private:
  // Seconds; on one thread those of the processor, so that other programs' turns do not count.
  double now() const {
    timespec time;
    clock_gettime(threads_ == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  Recurrent layer_;
  Tensor x_, grad_x_;
  int threads_;
};

std::string answer(const std::string& line, std::optional<Case>& current) {
  std::istringstream words(line);
  std::string command, word;
  int threads = 1;
  std::int64_t batch = 0, length = 0, size = 0;
  double seconds = 0;
  words >> command;
  if (command == "case" && words >> word >> threads >> batch >> length >> size) {
    current.emplace(word, threads, batch, length, size);
    return "ready";
  }
  if (current && command == "run" && words >> seconds >> word) return fmt::format("{}", current->run(seconds, word));
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
