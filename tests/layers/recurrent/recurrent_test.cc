// Recurrent layers against plain loops over random shapes, Jacobians, and what must not change any bit.
#include "qkv/layers/recurrent.h"

#include "jacobian.h"
#include "layers/recurrent/recurrent_testing.h"
#include "qkv/error.h"

namespace qkv {
namespace {

using testing::kRecurrentCells;
using testing::random_recurrent;
using testing::same_bits;

// Sequences [tokens, in] of these lengths, and random states.
struct Case {
  Case(const RecurrentConfig& config, const std::vector<std::int64_t>& lengths, Dtype dtype, std::uint64_t seed = 11)
      : offsets(offsets_of(lengths)), is_lstm(config.cell == RecurrentCell::lstm) {
    Random random(seed);
    std::int64_t tokens = 0;
    for (const std::int64_t length : lengths) tokens += length;
    const Dims states = {config.layers * config.directions, static_cast<std::int64_t>(lengths.size()), config.hidden};
    x = testing::normal(random, {tokens, config.in}, dtype);
    hidden = testing::normal(random, states, dtype);
    cell = testing::normal(random, states, dtype);
    grad_out = testing::normal(random, {tokens, config.directions * config.hidden}, dtype);
    grad_hidden = testing::normal(random, states, dtype);
    grad_cell = testing::normal(random, states, dtype);
  }

  Sequences batch() const { return {x.view(), offsets.view()}; }
  RecurrentStates<TensorView> initial() const {
    return {.hidden = hidden, .cell = is_lstm ? cell.view() : TensorView()};
  }
  RecurrentGradientsIn gradients() const {
    return {.out = grad_out, .states = {.hidden = grad_hidden, .cell = is_lstm ? grad_cell.view() : TensorView()}};
  }

  Tensor x, offsets, hidden, cell, grad_out, grad_hidden, grad_cell;
  bool is_lstm;
};

struct Backward {
  Tensor x, hidden, cell;
};

Backward run_backward(Recurrent& layer, const Case& c, const Dropout& dropout, const RecurrentSaved& saved,
                      int threads = 0) {
  Backward to{.x = Tensor::zeros(c.x.shape(), c.x.dtype()),
              .hidden = Tensor::zeros(c.hidden.shape(), c.x.dtype()),
              .cell = Tensor::zeros(c.cell.shape(), c.x.dtype())};
  layer.backward(
      c.batch(), c.initial(), dropout, saved, c.gradients(),
      {.x = to.x, .initial = {.hidden = to.hidden, .cell = c.is_lstm ? to.cell.view() : MutableTensorView()}}, threads);
  return to;
}

std::vector<std::int64_t> random_lengths(Random& random) {
  std::vector<std::int64_t> lengths(random.below(6));
  for (std::int64_t& length : lengths) length = static_cast<std::int64_t>(random.below(9));
  return lengths;
}

TEST(Recurrent, IsThePlainLoop) {
  Random random(1);
  for (const RecurrentCell cell : kRecurrentCells) {
    for (const int directions : {1, 2}) {
      for (const bool bias : {false, true}) {
        for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
          const RecurrentConfig config{.cell = cell,
                                       .in = 1 + static_cast<std::int64_t>(random.below(20)),
                                       .hidden = 1 + static_cast<std::int64_t>(random.below(35)),
                                       .layers = 1 + static_cast<int>(random.below(3)),
                                       .directions = directions,
                                       .bias = bias};
          const Recurrent layer = random_recurrent(config, dtype, random.below(1 << 30));
          const std::vector<std::int64_t> lengths = random_lengths(random);
          const Case c(config, lengths, dtype, random.below(1 << 30));
          const bool starts = random.below(2) == 1;
          const RecurrentOutput given = layer.forward(c.batch(), starts ? c.initial() : RecurrentStates<TensorView>());
          ASSERT_EQ(given.out.shape(), c.grad_out.shape());
          std::vector<double> out = testing::values(given.out), last = testing::values(given.states.hidden);
          std::vector<double> last_cell = testing::values(given.states.cell);
          const double tolerance = dtype == Dtype::f64 ? 1e-13 : 1e-5;
          std::size_t at = 0;
          for (std::int64_t b = 0; b < static_cast<std::int64_t>(lengths.size()); ++b) {
            const auto read = [&](const Tensor& from, std::int64_t count) {
              std::vector<testing::Row> rows;
              for (std::int64_t i = 0; i < count; ++i) {
                const bool state = from.rank() == 3;
                const TensorView row = state ? from.view().select(0, i).select(0, b)
                                             : from.view().select(0, c.offsets.data<std::int32_t>()[b] + i);
                rows.push_back(state && !starts ? testing::Row(static_cast<std::size_t>(config.hidden), 0.0)
                                                : testing::values(row));
              }
              return rows;
            };
            const std::int64_t states = config.layers * config.directions;
            std::vector<testing::Row> hidden = read(c.hidden, states), cells = read(c.cell, states);
            const auto rows = read(c.x, lengths[static_cast<std::size_t>(b)]);
            for (const testing::Row& row : testing::plain_recurrence(layer, rows, hidden, cells)) {
              for (const double value : row) ASSERT_NEAR(out[at++], value, tolerance * std::max(1.0, std::abs(value)));
            }
            for (std::int64_t s = 0; s < states; ++s) {
              for (std::int64_t i = 0; i < config.hidden; ++i) {
                const auto place =
                    static_cast<std::size_t>((s * static_cast<std::int64_t>(lengths.size()) + b) * config.hidden + i);
                const auto row = static_cast<std::size_t>(s), column = static_cast<std::size_t>(i);
                ASSERT_NEAR(last[place], hidden[row][column], tolerance * std::max(1.0, std::abs(hidden[row][column])));
                if (cell != RecurrentCell::lstm) continue;
                ASSERT_NEAR(last_cell[place], cells[row][column], 4 * tolerance);
              }
            }
          }
          ASSERT_EQ(at, out.size());
        }
      }
    }
  }
}

TEST(Recurrent, Jacobians) {
  for (const RecurrentCell cell : kRecurrentCells) {
    for (const int directions : {1, 2}) {
      for (const bool bias : {false, true}) {
        SCOPED_TRACE(static_cast<int>(cell));
        const RecurrentConfig config{
            .cell = cell, .in = 2, .hidden = 3, .layers = 2, .directions = directions, .bias = bias};
        Recurrent layer = random_recurrent(config, Dtype::f64);
        Case c(config, {3, 0, 1, 2}, Dtype::f64);
        const Dropout dropout{.p = 0.3, .seed = 7};
        RecurrentSaved saved;
        const auto loss = [&] {
          RecurrentSaved again;
          const RecurrentOutput result = layer.forward(c.batch(), c.initial(), dropout, again);
          const double cells = c.is_lstm ? testing::dot(result.states.cell, c.grad_cell) : 0;
          return testing::dot(result.out, c.grad_out) + testing::dot(result.states.hidden, c.grad_hidden) + cells;
        };
        layer.forward(c.batch(), c.initial(), dropout, saved);
        testing::want_gradients(layer);
        const Backward given = run_backward(layer, c, dropout, saved);
        testing::expect_gradient(loss, c.x, given.x);
        testing::expect_gradient(loss, c.hidden, given.hidden);
        if (c.is_lstm) testing::expect_gradient(loss, c.cell, given.cell);
        testing::expect_parameter_gradients(layer, loss);
      }
    }
  }
}

// All gradients on one thread, two and five; the first sequences with others behind them and without.
TEST(Recurrent, SameBitsOnAnyThreadsAndInAnyCompany) {
  for (const RecurrentCell cell : kRecurrentCells) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const RecurrentConfig config{.cell = cell, .in = 9, .hidden = 37, .layers = 2, .directions = 2};
      const Case c(config, {5, 0, 9, 3, 1, 9, 14}, dtype);
      const Dropout dropout{.p = 0.25, .seed = 5};
      std::vector<std::vector<Tensor>> results;
      for (const int threads : {1, 2, 5}) {
        Recurrent layer = random_recurrent(config, dtype);
        testing::want_gradients(layer);
        RecurrentSaved saved;
        RecurrentOutput out = layer.forward(c.batch(), c.initial(), dropout, saved, threads);
        Backward back = run_backward(layer, c, dropout, saved, threads);
        results.push_back({out.out, out.states.hidden, out.states.cell, back.x, back.hidden, back.cell});
        layer.visit([&](const std::string&, const Parameter& own) { results.back().push_back(own.gradient); });
        for (std::size_t i = 0; i < results[0].size(); ++i) ASSERT_TRUE(same_bits(results.back()[i], results[0][i]));
      }
      Recurrent layer = random_recurrent(config, dtype);
      Case few(config, {5, 0, 9}, dtype);
      const auto first = [](const Tensor& from, const Tensor& to) {
        return Tensor::copy(to.rank() == 3 ? from.view().slice(1, 0, 3) : from.view().slice(0, 0, 14));
      };
      for (const auto part :
           {&Case::x, &Case::hidden, &Case::cell, &Case::grad_out, &Case::grad_hidden, &Case::grad_cell}) {
        few.*part = first(c.*part, few.*part);
      }
      RecurrentSaved saved;
      const RecurrentOutput out = layer.forward(few.batch(), few.initial(), dropout, saved);
      const Backward back = run_backward(layer, few, dropout, saved);
      const Tensor alone[] = {out.out, out.states.hidden, out.states.cell, back.x, back.hidden, back.cell};
      for (std::size_t i = 0; i < 6; ++i) {
        if (alone[i].element_count() == 0) continue;
        EXPECT_TRUE(same_bits(alone[i], first(results[0][i], alone[i]))) << i;
      }
    }
  }
}

TEST(Recurrent, PaddedIsRaggedOfEqualLengths) {
  const RecurrentConfig config{.in = 4, .hidden = 6, .directions = 2};
  const Recurrent layer = random_recurrent(config, Dtype::f32);
  const Case c(config, {5, 5, 5}, Dtype::f32);
  const RecurrentOutput ragged = layer.forward(c.batch(), c.initial());
  const RecurrentOutput padded = layer.forward(c.x.view().reshape({3, 5, 4}), c.initial());
  EXPECT_EQ(padded.out.shape(), (Dims{3, 5, 12}));
  EXPECT_TRUE(same_bits(padded.out.view().reshape({15, 12}), ragged.out));
  EXPECT_TRUE(same_bits(padded.states.hidden, ragged.states.hidden));
  const RecurrentOutput single = layer.forward(c.x.view().slice(0, 0, 5));
  EXPECT_EQ(single.out.shape(), (Dims{5, 12}));
  EXPECT_EQ(single.states.cell.shape(), (Dims{2, 1, 6}));
}

TEST(Recurrent, NothingToDo) {
  for (const RecurrentCell cell : kRecurrentCells) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
      const RecurrentConfig config{.cell = cell, .in = 4, .hidden = 3, .layers = 2, .directions = 2};
      Recurrent layer = random_recurrent(config, dtype);
      testing::want_gradients(layer);
      const RecurrentOutput none = layer.forward(Tensor::zeros({0, 7, 4}, dtype));
      EXPECT_EQ(none.out.shape(), (Dims{0, 7, 6}));
      EXPECT_EQ(none.states.hidden.shape(), (Dims{4, 0, 3}));
      // Sequences without steps hand their states through, and the gradients back.
      for (const std::vector<std::int64_t>& lengths : {std::vector<std::int64_t>{}, {0}, {0, 0}}) {
        const Case c(config, lengths, dtype);
        RecurrentSaved saved;
        const RecurrentOutput out = layer.forward(c.batch(), c.initial(), {}, saved);
        EXPECT_TRUE(same_bits(out.states.hidden, c.hidden));
        const Backward back = run_backward(layer, c, {}, saved);
        EXPECT_EQ(testing::difference(back.hidden, c.grad_hidden), 0.0);
        if (!c.is_lstm) continue;
        EXPECT_EQ(testing::difference(back.cell, c.grad_cell), 0.0);
      }
      layer.visit([](const std::string&, const Parameter& own) { testing::expect_zeros(own.gradient); });
    }
  }
}

// Dropout is on the way from layer to layer: p = 1 hides the input from the second one, and a single one has none.
TEST(Recurrent, DropoutBetweenLayers) {
  const Dropout all{.p = 1, .seed = 1};
  RecurrentConfig config{.cell = RecurrentCell::gru, .in = 4, .hidden = 20, .layers = 2};
  const Recurrent two = random_recurrent(config, Dtype::f64);
  const Case c(config, {3, 2}, Dtype::f64), other(config, {3, 2}, Dtype::f64, 12);
  RecurrentSaved saved;
  const RecurrentOutput out = two.forward(c.batch(), c.initial(), all, saved);
  EXPECT_TRUE(same_bits(two.forward(other.batch(), c.initial(), all, saved).out, out.out));
  EXPECT_FALSE(same_bits(two.forward(c.batch(), c.initial()).out, out.out));
  // The length of a sequence before it does not matter to another one.
  const Dropout half{.p = 0.5, .seed = 2};
  Case shorter(config, {1, 2}, Dtype::f64);
  shorter.x = Tensor::copy(c.x.view().slice(0, 2, 5));
  const RecurrentOutput behind_three = two.forward(c.batch(), c.initial(), half, saved);
  const RecurrentOutput behind_one = two.forward(shorter.batch(), c.initial(), half, saved);
  EXPECT_TRUE(same_bits(behind_three.out.view().slice(0, 3, 5), behind_one.out.view().slice(0, 1, 3)));
  config.layers = 1;
  const Recurrent one = random_recurrent(config, Dtype::f64);
  EXPECT_TRUE(same_bits(one.forward(c.batch(), {}, all, saved).out, one.forward(c.batch()).out));
  EXPECT_THROW(two.forward(c.batch(), {}, {.p = 1.5}, saved), std::invalid_argument);
}

TEST(Recurrent, NanStaysInItsSequence) {
  for (const RecurrentCell cell : kRecurrentCells) {
    const RecurrentConfig config{.cell = cell, .in = 3, .hidden = 5, .layers = 2, .directions = 2};
    Recurrent layer = random_recurrent(config, Dtype::f32);
    const Case clean(config, {4, 6, 2}, Dtype::f32);
    Case c = clean;
    c.x.data<float>()[5 * 3] = std::numeric_limits<float>::quiet_NaN();  // in the second sequence
    RecurrentSaved saved, clean_saved;
    const RecurrentOutput out = layer.forward(c.batch(), c.initial(), {}, saved);
    const RecurrentOutput wanted = layer.forward(clean.batch(), clean.initial(), {}, clean_saved);
    const Backward back = run_backward(layer, c, {}, saved), clean_back = run_backward(layer, clean, {}, clean_saved);
    for (const auto& [begin, end] : {std::pair{0, 4}, std::pair{10, 12}}) {
      EXPECT_TRUE(same_bits(out.out.view().slice(0, begin, end), wanted.out.view().slice(0, begin, end)));
      EXPECT_TRUE(same_bits(back.x.view().slice(0, begin, end), clean_back.x.view().slice(0, begin, end)));
    }
    for (const double value : testing::values(out.out.view().slice(0, 5, 10).slice(1, 0, 5))) {
      EXPECT_TRUE(std::isnan(value));
    }
  }
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  Weights none(std::map<std::string, Tensor>{});
  EXPECT_THROW(Lstm({.in = 0, .hidden = 2}, none), std::invalid_argument);
  EXPECT_THROW(Lstm({.in = 2, .hidden = 2, .layers = 0}, none), std::invalid_argument);
  EXPECT_THROW(Lstm({.in = 2, .hidden = 2, .directions = 3}, none), std::invalid_argument);
  EXPECT_THROW(Lstm({.in = 2, .hidden = 2}, none), FormatError);
  const RecurrentConfig config{.cell = RecurrentCell::gru, .in = 3, .hidden = 2};
  Recurrent layer = random_recurrent(config, Dtype::f32);
  const Case c(config, {2, 1}, Dtype::f32);
  EXPECT_THROW(layer.forward(Tensor::zeros({2, 2})), std::invalid_argument);
  EXPECT_THROW(layer.forward(Tensor::zeros({2, 3}, Dtype::f64)), std::invalid_argument);
  EXPECT_THROW(layer.forward(Tensor::zeros({1, 1, 2, 3})), std::invalid_argument);
  for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{0, 2}, {1, 3}, {0, 4, 3}, {0, 2, 4}}) {
    const Tensor offsets = Tensor::of<std::int32_t>({static_cast<std::int64_t>(bad.size())}, bad);
    EXPECT_THROW(layer.forward({c.x.view(), offsets.view()}), std::invalid_argument);
  }
  const Tensor wrong = Tensor::zeros({1, 3, 2});
  EXPECT_THROW(layer.forward(c.batch(), {.hidden = wrong}), std::invalid_argument);
  EXPECT_THROW(layer.forward(c.batch(), {.cell = c.cell}), std::invalid_argument);
  RecurrentSaved saved;
  EXPECT_THROW(run_backward(layer, c, {}, saved), std::invalid_argument);
  layer.forward(c.batch(), {}, {}, saved);
  EXPECT_THROW(layer.backward(c.batch(), {}, {}, saved, {.out = c.x}), std::invalid_argument);
  Tensor place = Tensor::zeros({1, 3, 2});
  EXPECT_THROW(layer.backward(c.batch(), {}, {}, saved, {}, {.initial = {.hidden = place}}), std::invalid_argument);
  EXPECT_THROW(layer.backward(c.batch(), {}, {}, saved, {}, {.initial = {.cell = place}}), std::invalid_argument);
}

}  // namespace
}  // namespace qkv
