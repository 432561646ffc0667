// Recurrent layers against plain loops over random shapes; states, dropout, NaN; first weights; refusals.
#include "lab/layers/recurrent.h"

#include "layers/asked_layer.h"
#include "qkv/error.h"
#include "qkv/layers/initial_weights.h"

namespace qkv::testing {
namespace {

using Rows = std::vector<std::vector<double>>;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

// One step of one direction of a layer, as the formulas have it.
void step_plainly(const RecurrentConfig& config, const Tensors& own, const std::string& suffix,
                  const std::vector<double>& x, std::vector<double>& h, std::vector<double>& c) {
  const std::size_t size = h.size();
  const std::vector<double> before = h;
  const auto product = [&](const std::string& side, std::size_t row, const std::vector<double>& of) {
    const double* weight = own.at("weight_" + side + suffix).data<double>() + row * of.size();
    double sum = config.bias ? own.at("bias_" + side + suffix).data<double>()[row] : 0;
    for (std::size_t j = 0; j < of.size(); ++j) sum += weight[j] * of[j];
    return sum;
  };
  const auto sum = [&](std::size_t row) { return product("ih", row, x) + product("hh", row, before); };
  for (std::size_t i = 0; i < size; ++i) {
    const double gate = sum(i), second = config.cell >= RecurrentCell::lstm ? logistic(sum(size + i)) : 0;
    if (config.cell == RecurrentCell::rnn_tanh) {
      h[i] = std::tanh(gate);
    } else if (config.cell == RecurrentCell::rnn_relu) {
      h[i] = std::max(0.0, gate);
    } else if (config.cell == RecurrentCell::lstm) {
      c[i] = second * c[i] + logistic(gate) * std::tanh(sum(2 * size + i));
      h[i] = logistic(sum(3 * size + i)) * std::tanh(c[i]);
    } else {
      const double of_state = product("hh", 2 * size + i, before) * logistic(gate);
      h[i] = (1 - second) * std::tanh(product("ih", 2 * size + i, x) + of_state) + second * before[i];
    }
  }
}

// All layers over one sequence; states [layers * directions], in and out.
Rows run_plainly(const RecurrentConfig& config, const Tensors& own, Rows rows, Rows& hidden, Rows& cell) {
  for (int l = 0; l < config.layers; ++l) {
    Rows out(rows.size());
    for (int d = 0; d < config.directions; ++d) {
      const std::string suffix = "_l" + std::to_string(l) + (d == 1 ? "_reverse" : "");
      const auto at = static_cast<std::size_t>(l * config.directions + d);
      for (std::size_t t = 0; t < rows.size(); ++t) {
        const std::size_t place = d == 1 ? rows.size() - 1 - t : t;
        step_plainly(config, own, suffix, rows[place], hidden[at], cell[at]);
        out[place].insert(out[place].end(), hidden[at].begin(), hidden[at].end());
      }
    }
    rows = out;
  }
  return rows;
}

// Of [n, size].
Rows rows_of(const TensorView& tensor) {
  Rows rows;
  for (std::int64_t i = 0; i < tensor.size(0); ++i) rows.push_back(values(tensor.select(0, i)));
  return rows;
}

// Of the largest of a row: each number is a sum over those of the step before, which grow under max(0, .).
void expect_rows(const TensorView& given, const Rows& wanted, double tolerance) {
  const Rows own = rows_of(given);
  ASSERT_EQ(own.size(), wanted.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    ASSERT_EQ(own[i].size(), wanted[i].size());
    double largest = 1;
    for (const double x : wanted[i]) largest = std::max(largest, std::abs(x));
    for (std::size_t j = 0; j < own[i].size(); ++j) ASSERT_NEAR(own[i][j], wanted[i][j], tolerance * largest);
  }
}

TEST(Recurrent, IsThePlainLoop) {
  Random random(1);
  for (const auto& [name, cell] : recurrent_cells()) {
    for (int turn = 0; turn < 8; ++turn) {
      const RecurrentConfig config{.cell = cell,
                                   .in = 1 + static_cast<std::int64_t>(random.below(20)),
                                   .hidden = 1 + static_cast<std::int64_t>(random.below(35)),
                                   .layers = 1 + static_cast<int>(random.below(turn < 4 ? 2 : 3)),
                                   .directions = 1 + turn % 2,
                                   .bias = turn % 4 < 2};
      std::vector<std::int64_t> lengths(random.below(6));
      for (std::int64_t& length : lengths) length = static_cast<std::int64_t>(random.below(9));
      RecurrentAsked asked(config, {.dtype = turn < 4 ? Dtype::f32 : Dtype::f64, .lengths = lengths});
      const bool starts = random.below(2) == 1;
      for (std::size_t i = 1; !starts && i < asked.inputs.size(); ++i) asked.inputs[i] = zeros_like(asked.inputs)[i];
      const RecurrentOutput given = asked.layer.forward(
          asked.sequences(0), starts ? asked.states<TensorView>(asked.inputs) : RecurrentStates<TensorView>());
      Tensors own;
      for (const auto& [key, tensor] : asked.drawn.tensors) own[key] = convert(tensor, Dtype::f64);
      const double tolerance = turn < 4 ? 1e-5 : 1e-13;
      for (std::int64_t b = 0; b < std::ssize(lengths); ++b) {
        SCOPED_TRACE(name + " " + std::to_string(turn));
        const std::int32_t* ends = asked.offsets.data<std::int32_t>() + b;
        Rows hidden = rows_of(asked.inputs[1].view().select(1, b)), cells = hidden;
        if (asked.has_cell()) cells = rows_of(asked.inputs[2].view().select(1, b));
        const Rows out =
            run_plainly(config, own, rows_of(asked.inputs[0].view().slice(0, ends[0], ends[1])), hidden, cells);
        expect_rows(given.out.view().slice(0, ends[0], ends[1]), out, tolerance);
        expect_rows(given.states.hidden.view().select(1, b), hidden, tolerance);
        if (asked.has_cell()) expect_rows(given.states.cell.view().select(1, b), cells, 4 * tolerance);
      }
    }
  }
}

// h' of a layer of one element without weights but `gate`, its input's to that gate (and to no other), from state 1.
double gate_of(RecurrentCell cell, std::size_t gates, std::size_t gate, float x) {
  std::map<std::string, Tensor> tensors;
  for (const char* name : {"weight_ih_l0", "weight_hh_l0"}) {
    tensors[name] = Tensor::zeros({static_cast<std::int64_t>(gates), 1});
  }
  tensors["weight_ih_l0"].data<float>()[gate] = 1;
  Weights weights(std::move(tensors));
  const Recurrent layer({.cell = cell, .in = 1, .hidden = 1, .bias = false}, weights);
  const Tensor input = filled({1, 1, 1}, x), state = filled({1, 1, 1}, 1);
  return layer.forward(input, {.hidden = state}).out.data<float>()[0];
}

// What recurrent_cell.h says of the gates. A state of 1 goes through the gate z of a GRU whose n is 0.
TEST(Recurrent, GatesAreAsAccurateAsTheyAreSaidToBe) {
  for (int i = -8700; i <= 8700; ++i) {
    const float x = static_cast<float>(i) / 100 + 0.0013f;
    const double logistic = 1 / (1 + std::exp(-static_cast<double>(x)));
    const double unit = std::nextafter(static_cast<float>(logistic), 2.0f) - static_cast<float>(logistic);
    EXPECT_NEAR(gate_of(RecurrentCell::gru, 3, 1, x), logistic, (1.25 * std::abs(x) + 2) * unit) << x;
    EXPECT_NEAR(gate_of(RecurrentCell::rnn_tanh, 1, 0, x), std::tanh(static_cast<double>(x)), 1.2e-7) << x;
  }
}

// Sequences without steps hand their states through, and the gradients back.
TEST(Recurrent, NothingToDo) {
  for (const auto& [name, cell] : recurrent_cells()) {
    for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {0}, {0, 0}}) {
      RecurrentAsked asked({.cell = cell, .in = 4, .hidden = 3, .layers = 2, .directions = 2}, {.lengths = lengths});
      EXPECT_EQ(asked.layer.forward(Tensor::zeros({0, 7, 4}, Dtype::f64)).out.shape(), (Dims{0, 7, 6}));
      const Training done(asked, 0);
      for (std::size_t i = 1; i < done.out.size(); ++i) {
        EXPECT_TRUE(same_bits(done.out[i], asked.inputs[i])) << name;
        EXPECT_EQ(difference(done.grad_in[i], done.grad_out[i]), 0.0) << name;
      }
      asked.visit([](const std::string&, const Parameter& own) { expect_zeros(own.gradient); });
    }
  }
}

// Dropout is on the way from layer to layer: p = 1 hides the input from the second one, and a single one has none.
TEST(Recurrent, DropoutBetweenLayers) {
  const auto out = [](int layers, double p, std::vector<std::int64_t> lengths, const Tensor& x) {
    RecurrentAsked asked({.cell = RecurrentCell::gru, .in = 4, .hidden = 20, .layers = layers},
                         {.lengths = std::move(lengths), .dropout = {.p = p, .seed = 2}});
    asked.inputs[0] = x;
    return asked.run(Pass::train, 0)[0];
  };
  Random random(4);
  const Tensor x = normal(random, {5, 4}, Dtype::f64), other = normal(random, {5, 4}, Dtype::f64);
  EXPECT_TRUE(same_bits(out(2, 1, {3, 2}, x), out(2, 1, {3, 2}, other)));
  EXPECT_FALSE(same_bits(out(2, 1, {3, 2}, x), out(2, 0, {3, 2}, x)));
  EXPECT_TRUE(same_bits(out(1, 1, {3, 2}, x), out(1, 0, {3, 2}, x)));
  EXPECT_THROW(out(2, 1.5, {3, 2}, x), std::invalid_argument);
  // The length of a sequence before it does not matter to another one.
  const Tensor fewer = Tensor::copy(x.view().slice(0, 2, 5));
  EXPECT_TRUE(
      same_bits(out(2, 0.5, {3, 2}, x).view().slice(0, 3, 5), out(2, 0.5, {1, 2}, fewer).view().slice(0, 1, 3)));
}

// From its step on; the way there has none.
TEST(Recurrent, NanGoesOn) {
  for (const auto& [name, cell] : recurrent_cells()) {
    RecurrentAsked asked({.cell = cell, .in = 3, .hidden = 5, .layers = 2}, {.dtype = Dtype::f32, .lengths = {6}});
    put(asked.inputs[0], {2, 0}, kNan);
    const Rows out = rows_of(asked.run(Pass::use, 0)[0]);
    for (std::size_t t = 0; t < 6; ++t) {
      for (const double value : out[t]) EXPECT_EQ(std::isnan(value), t >= 2) << name << " " << t;
    }
  }
}

Recurrent first_weights(RecurrentCell cell, std::uint64_t seed, double forget_bias = 0) {
  RecurrentAsked asked({.cell = cell, .in = 9, .hidden = 25}, {});
  draw_recurrent(asked.layer, seed, forget_bias);
  return asked.layer;
}

std::map<std::string, std::vector<double>> numbers_of(const Recurrent& layer) {
  std::map<std::string, std::vector<double>> all;
  layer.visit([&](const std::string& name, const Parameter& own) { all[name] = values(own.value); });
  return all;
}

// Uniform within 1/5: no number is beyond, some are beyond 0.15, their mean square is 1/75. The fewest, 25, have a mean
// square that varies by 0.9 / sqrt(25) of itself.
TEST(DrawRecurrent, IsUniformWithinTheRootOfTheStates) {
  for (const auto& [cell_name, cell] : recurrent_cells()) {
    for (const auto& [name, numbers] : numbers_of(first_weights(cell, 1))) {
      double square = 0, most = 0;
      for (const double value : numbers) {
        square += value * value / static_cast<double>(numbers.size());
        most = std::max(most, std::abs(value));
      }
      EXPECT_LE(most, 0.2) << name;
      EXPECT_GT(most, 0.15) << name;
      EXPECT_NEAR(square * 75, 1, 0.6) << name;
    }
  }
  const auto gru = [](std::uint64_t seed) { return numbers_of(first_weights(RecurrentCell::gru, seed)); };
  EXPECT_EQ(gru(1), gru(1));
  EXPECT_NE(gru(1), gru(2));
}

TEST(DrawRecurrent, OpensTheForgetGate) {
  const auto open = numbers_of(first_weights(RecurrentCell::lstm, 1, 1));
  auto closed = numbers_of(first_weights(RecurrentCell::lstm, 1));
  for (std::size_t i = 25; i < 50; ++i) closed["bias_ih_l0"][i] += 1;
  EXPECT_EQ(open, closed);
  EXPECT_THROW(first_weights(RecurrentCell::gru, 1, 1), std::invalid_argument);
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  Weights none(Tensors{});
  EXPECT_THROW(Recurrent({.in = 0, .hidden = 2}, none), std::invalid_argument);
  EXPECT_THROW(Recurrent({.in = 2, .hidden = 2, .layers = 0}, none), std::invalid_argument);
  EXPECT_THROW(Recurrent({.in = 2, .hidden = 2, .directions = 3}, none), std::invalid_argument);
  EXPECT_THROW(Recurrent({.in = 2, .hidden = 2}, none), FormatError);
  RecurrentAsked asked({.cell = RecurrentCell::gru, .in = 3, .hidden = 2}, {.dtype = Dtype::f32, .lengths = {2, 1}});
  Recurrent& layer = asked.layer;
  EXPECT_THROW(layer.forward(Tensor::zeros({2, 2})), std::invalid_argument);
  EXPECT_THROW(layer.forward(Tensor::zeros({2, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(layer.forward(Tensor::zeros({1, 1, 2, 3})), std::invalid_argument);
  for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{0, 2}, {1, 3}, {0, 4, 3}, {0, 2, 4}}) {
    const Tensor offsets = Tensor::of<std::int32_t>({std::ssize(bad)}, bad);
    EXPECT_THROW(layer.forward({asked.inputs[0].view(), offsets.view()}), std::invalid_argument);
  }
  const Sequences x = asked.sequences(0);
  Tensor wrong = Tensor::zeros({1, 3, 2}), state = Tensor::zeros({1, 2, 2});
  EXPECT_THROW(layer.forward(x, {.hidden = wrong}), std::invalid_argument);
  EXPECT_THROW(layer.forward(x, {.cell = state}), std::invalid_argument);
  RecurrentSaved& saved = asked.saved;
  EXPECT_THROW(layer.backward(x, {}, {}, saved, {.out = Tensor::zeros({3, 2})}), std::invalid_argument);
  layer.forward(x, {}, {}, saved);
  EXPECT_THROW(layer.backward(x, {}, {}, saved, {.out = asked.inputs[0]}), std::invalid_argument);
  EXPECT_THROW(layer.backward(x, {}, {}, saved, {}, {.initial = {.hidden = wrong}}), std::invalid_argument);
  EXPECT_THROW(layer.backward(x, {}, {}, saved, {}, {.initial = {.cell = wrong}}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv::testing
