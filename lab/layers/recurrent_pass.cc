// Takes a group of sequences from step to step: a matrix product with the states, then the gates.
#include "lab/layers/recurrent_pass.h"

#include <algorithm>

#include "core/visit_dtype.h"
#include "lab/layers/recurrent_step.h"

namespace qkv::inline layers {
namespace {

// Rows of some sequences, one below the other.
template <class T>
class GroupRows {
 public:
  GroupRows(std::span<const std::int64_t> sequences, std::int64_t columns)
      : sequences_(sequences),
        rows_(Tensor::uninitialized({static_cast<std::int64_t>(sequences.size()), columns}, dtype_of<T>)) {}

  T* data() { return rows_.data<T>(); }
  MutableTensorView first(std::int64_t count) { return rows_.view().slice(0, 0, count); }
  void read(const TensorView& states) {
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      std::copy_n(states.data<T>() + sequences_[i] * columns(), columns(), row(i));
    }
  }
  void write(const MutableTensorView& states) {
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      std::copy_n(row(i), columns(), states.data<T>() + sequences_[i] * columns());
    }
  }

 private:
  std::int64_t columns() const { return rows_.size(1); }
  T* row(std::size_t i) { return rows_.data<T>() + static_cast<std::int64_t>(i) * columns(); }

  std::span<const std::int64_t> sequences_;
  Tensor rows_;
};

template <class T>
T* data_or_null(const MutableTensorView& view) {
  return view && view.element_count() > 0 ? view.data<T>() : nullptr;
}
template <class T>
const T* data_or_null(const TensorView& view) {
  return view && view.element_count() > 0 ? view.data<T>() : nullptr;
}

// The sequences that have this step: they come first.
std::int64_t active_at(const RecurrentBatch& batch, std::span<const std::int64_t> sequences, std::int64_t step) {
  std::size_t count = sequences.size();
  while (count > 0 && batch.length(sequences[count - 1]) <= step) --count;
  return static_cast<std::int64_t>(count);
}

template <class T>
void forward_typed(const RecurrentForward& pass, const RecurrentBatch& batch, std::span<const std::int64_t> sequences,
                   int threads) {
  const std::int64_t size = pass.hidden.size(1);
  const bool has_cell = pass.cell == RecurrentCell::lstm;
  GroupRows<T> hidden(sequences, size), cell(sequences, has_cell ? size : 0);
  GroupRows<T> products(sequences, pass.weight->columns());
  hidden.read(pass.hidden);
  if (has_cell) cell.read(pass.cell_state);
  std::vector<std::int64_t> tokens(sequences.size());
  RecurrentStep<T> step{.size = size,
                        .tokens = tokens.data(),
                        .gates = pass.gates.data<T>(),
                        .products = products.data(),
                        .hidden = hidden.data(),
                        .cell = cell.data(),
                        .out = pass.out.data<T>(),
                        .out_stride = pass.out.stride(0),
                        .kept = data_or_null<T>(pass.kept)};
  for (std::int64_t t = 0; (step.rows = active_at(batch, sequences, t)) > 0; ++t) {
    for (std::int64_t i = 0; i < step.rows; ++i) {
      tokens[static_cast<std::size_t>(i)] = token_at(batch, sequences[static_cast<std::size_t>(i)], t, pass.reverse);
    }
    matmul(hidden.first(step.rows), *pass.weight, products.first(step.rows), {.bias = pass.bias, .threads = threads});
    recurrent_step(pass.cell, step);
  }
  hidden.write(pass.hidden);
  if (has_cell) cell.write(pass.cell_state);
}

template <class T>
void backward_typed(const RecurrentBackward& pass, const RecurrentBatch& batch, std::span<const std::int64_t> sequences,
                    int threads) {
  const std::int64_t size = pass.grad_hidden.size(1);
  const bool has_cell = pass.cell == RecurrentCell::lstm;
  GroupRows<T> hidden(sequences, size), cell(sequences, has_cell ? size : 0);
  GroupRows<T> products(sequences, pass.weight.rows());
  hidden.read(pass.grad_hidden);
  if (has_cell) cell.read(pass.grad_cell_state);
  std::vector<std::int64_t> tokens(sequences.size());
  std::vector<const T*> previous_hidden(sequences.size()), previous_cell(sequences.size());
  RecurrentStepBack<T> step{.size = size,
                            .tokens = tokens.data(),
                            .gates = data_or_null<T>(pass.gates),
                            .kept = data_or_null<T>(pass.kept),
                            .previous_hidden = previous_hidden.data(),
                            .previous_cell = previous_cell.data(),
                            .out = pass.out.data<T>(),
                            .out_stride = pass.out.stride(0),
                            .grad_out = pass.grad_out.data<T>(),
                            .grad_out_stride = pass.grad_out.stride(0),
                            .grad_gates = pass.grad_gates.data<T>(),
                            .grad_kept = data_or_null<T>(pass.grad_kept),
                            .grad_products = products.data(),
                            .grad_hidden = hidden.data(),
                            .grad_cell = cell.data()};
  const auto previous = [&](const TensorView& states, const TensorView& initial, std::int64_t sequence,
                            std::int64_t t) {
    return t == 0 ? initial.data<T>() + sequence * size
                  : states.data<T>() + token_at(batch, sequence, t - 1, pass.reverse) * states.stride(0);
  };
  for (std::int64_t t = sequences.empty() ? 0 : batch.length(sequences[0]); t-- > 0;) {
    step.rows = active_at(batch, sequences, t);
    for (std::int64_t i = 0; i < step.rows; ++i) {
      const auto at = static_cast<std::size_t>(i);
      tokens[at] = token_at(batch, sequences[at], t, pass.reverse);
      previous_hidden[at] = previous(pass.out, pass.initial_hidden, sequences[at], t);
      if (has_cell) previous_cell[at] = previous(pass.kept, pass.initial_cell, sequences[at], t);
    }
    recurrent_step_back(pass.cell, step);
    matmul(products.first(step.rows), pass.weight, hidden.first(step.rows),
           {.accumulate = pass.cell == RecurrentCell::gru, .threads = threads});
  }
  hidden.write(pass.grad_hidden);
  if (has_cell) cell.write(pass.grad_cell_state);
}

}  // namespace

void recurrent_forward(const RecurrentForward& pass, const RecurrentBatch& batch,
                       std::span<const std::int64_t> sequences, int threads) {
  visit_f32_f64(pass.gates.dtype(), [&]<class T>(T) { forward_typed<T>(pass, batch, sequences, threads); });
}

void recurrent_backward(const RecurrentBackward& pass, const RecurrentBatch& batch,
                        std::span<const std::int64_t> sequences, int threads) {
  visit_f32_f64(pass.grad_gates.dtype(), [&]<class T>(T) { backward_typed<T>(pass, batch, sequences, threads); });
}

}  // namespace qkv::inline layers
