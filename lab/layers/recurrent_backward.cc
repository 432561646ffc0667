// Recurrent: backward through time, layer by layer from the last one.
#include <algorithm>
#include <utility>

#include "core/mathematics.h"
#include "core/refuse.h"
#include "core/visit_dtype.h"
#include "lab/layers/recurrent.h"
#include "lab/layers/recurrent_batch.h"
#include "lab/layers/recurrent_pass.h"
#include "layers/basic/affine.h"
#include "qkv/threads.h"

namespace qkv {
namespace {

// The state that each step began with: [tokens, hidden].
Tensor states_before(const RecurrentBackward& pass, const RecurrentBatch& batch, int threads) {
  const std::int64_t size = pass.out.size(1);
  Tensor before = Tensor::uninitialized({batch.tokens(), size}, pass.out.dtype());
  visit_f32_f64(pass.out.dtype(), [&]<class T>(T) {
    parallel_for(batch.size(), threads, [&](std::int64_t sequence, int) {
      const T* from = pass.initial_hidden.data<T>() + sequence * size;
      for (std::int64_t step = 0; step < batch.length(sequence); ++step) {
        const std::int64_t token = token_at(batch, sequence, step, pass.reverse);
        std::copy_n(from, size, before.data<T>() + token * size);
        from = pass.out.data<T>() + token * pass.out.stride(0);
      }
    });
  });
  return before;
}

// Adds what the sums of all steps give to W_hh and b_hh.
void add_state_gradients(const RecurrentBackward& pass, const RecurrentBatch& batch, PackedParameter& weight,
                         const MutableTensorView& bias, int threads) {
  const MutableTensorView to = weight.gradient();
  if (!to && !bias) return;
  const Tensor before = states_before(pass, batch, threads);
  PackedRows states(before);
  const auto add = [&](const TensorView& gradient, std::int64_t begin) {
    const std::int64_t end = begin + gradient.size(1);
    affine_backward(states, {}, gradient,
                    {.weight = to ? to.slice(0, begin, end) : to, .bias = bias ? bias.slice(0, begin, end) : bias},
                    threads);
  };
  if (pass.cell != RecurrentCell::gru) return add(pass.grad_gates, 0);
  const std::int64_t gates = 2 * pass.out.size(1);
  add(pass.grad_gates.slice(1, 0, gates), 0);
  add(pass.grad_kept, gates);
}

void add_states(const MutableTensorView& to, const Tensor& from) {
  if (!to) return;
  visit_f32_f64(from.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < from.element_count(); ++i) to.data<T>()[i] += from.data<T>()[i];
  });
}

// std::invalid_argument unless the output fits.
void check_output(std::string_view layer, std::string_view name, const MutableTensorView& output, const Tensor& like) {
  if (!output) return;
  refuse_unless(output.shape() == like.shape() && output.dtype() == like.dtype() && output.is_row_major(), layer,
                "the output for the gradient of {} is {} {}; it must be {} {}, row-major", name,
                name_of(output.dtype()), to_string(output.shape()), name_of(like.dtype()), to_string(like.shape()));
}

}  // namespace

void Recurrent::backward(const Sequences& x, const RecurrentStates<TensorView>& initial, const Dropout& dropout,
                         const RecurrentSaved& saved, const RecurrentGradientsIn& from, const RecurrentGradientsOut& to,
                         int threads) {
  const RecurrentBatch batch(name_, x, config_.in);
  const Dtype dtype = directions_[0].weight_ih.dtype();
  const std::int64_t tokens = batch.tokens(), hidden = config_.hidden, wide = gates_of(config_.cell) * hidden;
  const std::int64_t out_size = config_.directions * hidden;
  const bool is_lstm = config_.cell == RecurrentCell::lstm;
  const auto groups = batch.groups(divide_up(std::int64_t{threads > 0 ? threads : qkv::threads()}, config_.directions));
  const auto directions = static_cast<std::size_t>(config_.directions);
  refuse_unless(saved.out.size() == static_cast<std::size_t>(config_.layers) &&
                    saved.directions.size() == directions_.size() && saved.out[0].size(0) == tokens,
                name_, "what was saved is of another layer or batch; it must be that of forward");
  const RecurrentStates<Tensor> first = copy_states(name_, initial, config_, batch.size(), dtype);
  RecurrentStates<Tensor> grad_states = copy_states(name_, from.states, config_, batch.size(), dtype);
  check_output(name_, "the hidden state", to.initial.hidden, grad_states.hidden);
  refuse_unless(is_lstm || !to.initial.cell, name_,
                "an output for the gradient of a cell state is given; an LSTM alone has one");
  check_output(name_, "the cell state", to.initial.cell, grad_states.cell);
  const MutableTensorView grad_x = to.x ? output_rows(name_, "grad_x", to.x, x.rows.shape()) : to.x;
  Tensor grad_out = Tensor::zeros({tokens, out_size}, dtype);
  if (from.out) {
    const Dims shape = with_last(x.rows.shape(), out_size);
    refuse_unless(from.out.shape() == shape && from.out.dtype() == dtype, name_,
                  "the gradient of the output is {} {}; it must be {} {}", name_of(from.out.dtype()),
                  to_string(from.out.shape()), name_of(dtype), to_string(shape));
    convert(from.out, grad_out.view().reshape(shape));
  }

  for (int layer = config_.layers - 1; layer >= 0; --layer) {
    const auto level = static_cast<std::size_t>(layer);
    std::vector<RecurrentBackward> passes(directions);
    std::vector<Tensor> storage;
    storage.reserve(4 * directions);
    const auto make = [&](std::int64_t columns) {
      storage.push_back(Tensor::uninitialized({tokens, columns}, dtype));
      return storage.back().view();
    };
    for (std::size_t d = 0; d < directions; ++d) {
      const std::size_t at = level * directions + d;
      const auto state = static_cast<std::int64_t>(at), column = static_cast<std::int64_t>(d) * hidden;
      passes[d] = {.cell = config_.cell,
                   .reverse = d == 1,
                   .gates = saved.directions[at].gates,
                   .kept = saved.directions[at].kept,
                   .out = saved.out[level].view().slice(1, column, column + hidden),
                   .grad_out = std::as_const(grad_out).view().slice(1, column, column + hidden),
                   .initial_hidden = first.hidden.view().select(0, state),
                   .initial_cell = is_lstm ? first.cell.view().select(0, state) : TensorView(),
                   .grad_gates = make(wide),
                   .grad_kept = config_.cell == RecurrentCell::gru ? make(hidden) : MutableTensorView(),
                   .grad_hidden = grad_states.hidden.view().select(0, state),
                   .grad_cell_state = is_lstm ? grad_states.cell.view().select(0, state) : MutableTensorView()};
      Tensor unpacked;
      passes[d].weight = PackedMatrix(directions_[at].weight_hh.value(unpacked), threads);
    }
    parallel_for(static_cast<std::int64_t>(groups.size() * directions), threads, [&](std::int64_t task, int) {
      const auto at = static_cast<std::size_t>(task);
      recurrent_backward(passes[at % directions], batch, groups[at / directions], threads);
    });
    if (tokens == 0) continue;

    Tensor below;  // what the layer below has put out, after dropout
    if (layer > 0) {
      below = saved.out[level - 1];
      drop_steps(dropout, layer - 1, batch, below, threads);
    }
    PackedRows in(layer > 0 ? std::as_const(below).view() : batch.rows());
    Tensor grad_below = layer > 0 ? Tensor::zeros({tokens, out_size}, dtype) : Tensor();
    const MutableTensorView grad_in = layer > 0 ? grad_below.view() : grad_x;
    for (std::size_t d = 0; d < directions; ++d) {
      Direction& own = directions_[level * directions + d];
      Tensor unpacked;
      affine_backward(in, grad_in ? own.weight_ih.value(unpacked) : TensorView(), passes[d].grad_gates,
                      {.weight = own.weight_ih.gradient(), .bias = gradient_view(own.bias_ih), .x = grad_in}, threads);
      add_state_gradients(passes[d], batch, own.weight_hh, gradient_view(own.bias_hh), threads);
    }
    if (layer > 0) {
      drop_steps(dropout, layer - 1, batch, grad_below, threads);
      grad_out = std::move(grad_below);
    }
  }
  add_states(to.initial.hidden, grad_states.hidden);
  add_states(to.initial.cell, grad_states.cell);
}

}  // namespace qkv
