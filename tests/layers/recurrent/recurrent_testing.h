// Recurrent layers of any kind for tests, and the same computation in plain loops.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "attention/attention_testing.h"
#include "qkv/layers/recurrent.h"

namespace qkv::testing {

inline constexpr RecurrentCell kRecurrentCells[] = {RecurrentCell::rnn_tanh, RecurrentCell::rnn_relu,
                                                    RecurrentCell::lstm, RecurrentCell::gru,
                                                    RecurrentCell::gru_reset_first};

inline int gate_count(RecurrentCell cell) {
  if (cell == RecurrentCell::lstm) return 4;
  return cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_first ? 3 : 1;
}

inline Recurrent make_recurrent(const RecurrentConfig& c, Weights& weights) {
  if (c.cell == RecurrentCell::gru_reset_first || c.cell == RecurrentCell::gru) return Recurrent::make(c, weights);
  if (c.cell == RecurrentCell::lstm) {
    return Lstm({.in = c.in, .hidden = c.hidden, .layers = c.layers, .directions = c.directions, .bias = c.bias},
                weights);
  }
  const bool relu = c.cell == RecurrentCell::rnn_relu;
  return Rnn({.in = c.in,
              .hidden = c.hidden,
              .layers = c.layers,
              .directions = c.directions,
              .bias = c.bias,
              .activation = relu ? RnnActivation::relu : RnnActivation::tanh},
             weights);
}

// A layer of random weights; they are f64 numbers, rounded where the layer is of f32.
inline Recurrent random_recurrent(const RecurrentConfig& config, Dtype dtype, std::uint64_t seed = 3) {
  Random random(seed);
  Weights weights(
      [&random](const std::string&, const Dims& shape) {
        return convert(convert(normal(random, shape, Dtype::f64, 0.4), Dtype::f32), Dtype::f64);
      },
      dtype);
  return make_recurrent(config, weights);
}

using Row = std::vector<double>;

// One direction of one layer as the formulas have it.
class PlainRecurrence {
 public:
  PlainRecurrence(const RecurrentConfig& config, std::map<std::string, Tensor>& values, const std::string& suffix)
      : config_(config), ih_(values["weight_ih" + suffix]), hh_(values["weight_hh" + suffix]) {
    if (config.bias) {
      bias_ih_ = values["bias_ih" + suffix];
      bias_hh_ = values["bias_hh" + suffix];
    }
  }

  void step(const Row& x, Row& h, Row& c) const {
    const auto size = h.size();
    const Row before = h;
    for (std::size_t i = 0; i < size; ++i) {
      const auto sum = [&](std::size_t gate) {
        return product(ih_, bias_ih_, gate * size + i, x) + product(hh_, bias_hh_, gate * size + i, before);
      };
      switch (config_.cell) {
        case RecurrentCell::rnn_tanh:
          h[i] = std::tanh(sum(0));
          break;
        case RecurrentCell::rnn_relu:
          h[i] = std::max(0.0, sum(0));
          break;
        case RecurrentCell::lstm:
          c[i] = logistic(sum(1)) * c[i] + logistic(sum(0)) * std::tanh(sum(2));
          h[i] = logistic(sum(3)) * std::tanh(c[i]);
          break;
        case RecurrentCell::gru:
        case RecurrentCell::gru_reset_first: {
          const double z = logistic(sum(1)), in_n = product(ih_, bias_ih_, 2 * size + i, x);
          Row state = before;
          if (config_.cell == RecurrentCell::gru_reset_first) {
            for (std::size_t j = 0; j < size; ++j) {
              state[j] *= logistic(product(ih_, bias_ih_, j, x) + product(hh_, bias_hh_, j, before));
            }
          }
          const double of_state = product(hh_, bias_hh_, 2 * size + i, state);
          const double n =
              std::tanh(in_n + (config_.cell == RecurrentCell::gru ? logistic(sum(0)) * of_state : of_state));
          h[i] = (1 - z) * n + z * before[i];
          break;
        }
      }
    }
  }

 private:
  static double logistic(double x) { return 1 / (1 + std::exp(-x)); }
  static double product(const Tensor& weight, const Tensor& bias, std::size_t row, const Row& x) {
    double sum = bias.element_count() > 0 ? bias.data<double>()[row] : 0;
    for (std::size_t j = 0; j < x.size(); ++j) sum += weight.data<double>()[row * x.size() + j] * x[j];
    return sum;
  }

  RecurrentConfig config_;
  Tensor ih_, hh_, bias_ih_, bias_hh_;
};

// All layers over one sequence; states [layers * directions] rows, in and out.
inline std::vector<Row> plain_recurrence(const Recurrent& layer, std::vector<Row> rows, std::vector<Row>& hidden,
                                         std::vector<Row>& cell) {
  const RecurrentConfig& config = layer.config();
  std::map<std::string, Tensor> values;
  layer.visit([&](const std::string& name, const Parameter& own) { values[name] = convert(own.value, Dtype::f64); });
  for (int l = 0; l < config.layers; ++l) {
    std::vector<Row> out(rows.size());
    for (int d = 0; d < config.directions; ++d) {
      const PlainRecurrence one(config, values, "_l" + std::to_string(l) + (d == 1 ? "_reverse" : ""));
      const auto at = static_cast<std::size_t>(l * config.directions + d);
      for (std::size_t t = 0; t < rows.size(); ++t) {
        const std::size_t place = d == 1 ? rows.size() - 1 - t : t;
        one.step(rows[place], hidden[at], cell[at]);
        out[place].insert(out[place].end(), hidden[at].begin(), hidden[at].end());
      }
    }
    rows = out;
  }
  return rows;
}

}  // namespace qkv::testing
