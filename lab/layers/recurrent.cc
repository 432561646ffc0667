// Recurrent: the parameters of all layers and directions, and the way forward through them.
#include "lab/layers/recurrent.h"

#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "lab/layers/recurrent_batch.h"
#include "lab/layers/recurrent_pass.h"
#include "layers/basic/layer_checks.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

constexpr int kMostRecurrentLayers = 1024;

// The suffix of weight_ih and the others.
std::string recurrent_suffix(int layer, int direction) {
  return "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
}

}  // namespace

Recurrent::Recurrent(const RecurrentConfig& config, Weights& weights, const std::string& scope)
    : name_(config.cell == RecurrentCell::lstm  ? "lstm"
            : config.cell == RecurrentCell::gru ? "gru"
                                                : "rnn"),
      config_(config) {
  check_size(name_, "in", config.in);
  check_size(name_, "hidden", config.hidden);
  refuse_unless(config.layers >= 1 && config.layers <= kMostRecurrentLayers, name_, "layers is {}; it must be 1 to {}",
                config.layers, kMostRecurrentLayers);
  refuse_unless(config.directions == 1 || config.directions == 2, name_, "directions is {}; it must be 1 or 2",
                config.directions);
  const std::int64_t wide = gates_of(config.cell) * config.hidden;
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::int64_t in = layer == 0 ? config.in : config.directions * config.hidden;
    for (int direction = 0; direction < config.directions; ++direction) {
      const std::string suffix = recurrent_suffix(layer, direction);
      Direction& own = directions_.emplace_back();
      own.weight_ih =
          PackedParameter(weights.take(scope + "weight_ih" + suffix, {wide, in}), {wide}, weights.storage());
      own.weight_hh =
          PackedParameter(weights.take(scope + "weight_hh" + suffix, {wide, config.hidden}), {wide}, weights.storage());
      if (!config.bias) continue;
      own.bias_ih.value = weights.take(scope + "bias_ih" + suffix, {wide});
      own.bias_hh.value = weights.take(scope + "bias_hh" + suffix, {wide});
    }
  }
}

RecurrentOutput Recurrent::forward(const Sequences& x, const RecurrentStates<TensorView>& initial, int threads) const {
  return run(x, initial, {}, nullptr, threads);
}

RecurrentOutput Recurrent::forward(const Sequences& x, const RecurrentStates<TensorView>& initial,
                                   const Dropout& dropout, RecurrentSaved& saved, int threads) const {
  saved = {};
  return run(x, initial, dropout, &saved, threads);
}

RecurrentOutput Recurrent::run(const Sequences& x, const RecurrentStates<TensorView>& initial, const Dropout& dropout,
                               RecurrentSaved* saved, int threads) const {
  const RecurrentBatch batch(name_, x, config_.in);
  const Dtype dtype = directions_[0].weight_ih.dtype();
  const bool is_lstm = config_.cell == RecurrentCell::lstm;
  const bool keeps = saved != nullptr && gates_of(config_.cell) > 1;
  const std::int64_t tokens = batch.tokens(), hidden = config_.hidden, wide = gates_of(config_.cell) * hidden;
  const auto groups = batch.groups(divide_up(std::int64_t{threads > 0 ? threads : qkv::threads()}, config_.directions));
  const auto directions = static_cast<std::size_t>(config_.directions);
  RecurrentOutput result{.states = copy_states(name_, initial, config_, batch.size(), dtype)};
  Tensor in;
  for (int layer = 0; layer < config_.layers; ++layer) {
    const bool last = layer + 1 == config_.layers;
    const Dims shape = {tokens, config_.directions * hidden};
    Tensor out = Tensor::uninitialized(last ? with_last(x.rows.shape(), shape[1]) : shape, dtype);
    std::vector<RecurrentSaved::Direction> work(directions);
    std::vector<RecurrentForward> passes(directions);
    for (int d = 0; d < config_.directions; ++d) {
      const Direction& own = directions_[index(layer, d)];
      RecurrentSaved::Direction& mine = work[static_cast<std::size_t>(d)];
      mine.gates = Tensor::uninitialized({tokens, wide}, dtype);
      if (keeps) mine.kept = Tensor::uninitialized({tokens, hidden}, dtype);
      matmul(layer == 0 ? batch.rows() : in, own.weight_ih.part(), mine.gates,
             {.bias = config_.bias ? own.bias_ih.value.view() : TensorView(), .threads = threads});
      const auto at = static_cast<std::int64_t>(index(layer, d));
      passes[static_cast<std::size_t>(d)] = {
          .cell = config_.cell,
          .reverse = d == 1,
          .weight = &own.weight_hh.part(),
          .bias = config_.bias ? own.bias_hh.value.view() : TensorView(),
          .gates = mine.gates,
          .kept = keeps ? mine.kept.view() : MutableTensorView(),
          .out = out.view().reshape(shape).slice(1, d * hidden, (d + 1) * hidden),
          .hidden = result.states.hidden.view().select(0, at),
          .cell_state = is_lstm ? result.states.cell.view().select(0, at) : MutableTensorView()};
    }
    parallel_for(static_cast<std::int64_t>(groups.size() * directions), threads, [&](std::int64_t task, int) {
      const auto at = static_cast<std::size_t>(task);
      recurrent_forward(passes[at % directions], batch, groups[at / directions], threads);
    });
    if (saved != nullptr) {
      for (RecurrentSaved::Direction& mine : work) {
        saved->directions.push_back(keeps ? std::move(mine) : RecurrentSaved::Direction());
      }
      saved->out.push_back(Tensor::copy(out.view().reshape(shape)));
    }
    if (last) {
      result.out = std::move(out);
    } else {
      drop_steps(dropout, layer, batch, out, threads);
      in = std::move(out);
    }
  }
  return result;
}

void Recurrent::walk_parameters(const ParameterWalk& walk, const std::string& scope) {
  for (int layer = 0; layer < config_.layers; ++layer) {
    for (int d = 0; d < config_.directions; ++d) {
      Direction& own = directions_[index(layer, d)];
      const std::string suffix = recurrent_suffix(layer, d);
      walk(own.weight_ih, scope + "weight_ih" + suffix);
      walk(own.weight_hh, scope + "weight_hh" + suffix);
      if (!config_.bias) continue;
      walk(own.bias_ih, scope + "bias_ih" + suffix);
      walk(own.bias_hh, scope + "bias_hh" + suffix);
    }
  }
}

}  // namespace qkv
