// Copies states, and drops elements sequence by sequence.
#include "layers/recurrent/recurrent_states.h"

#include "core/dropout.h"
#include "core/refuse.h"
#include "layers/basic/layer_dropout.h"
#include "qkv/threads.h"

namespace qkv::inline layers {
namespace {

Tensor copy_state(std::string_view layer, std::string_view name, const TensorView& state, const Dims& shape,
                  Dtype dtype) {
  if (!state) return Tensor::zeros(shape, dtype);
  refuse_unless(state.shape() == shape && state.dtype() == dtype, layer, "{} is {} {}; it must be {} {}", name,
                name_of(state.dtype()), to_string(state.shape()), name_of(dtype), to_string(shape));
  return Tensor::copy(state);
}

}  // namespace

RecurrentStates<Tensor> copy_states(std::string_view layer, const RecurrentStates<TensorView>& states,
                                    const RecurrentConfig& config, std::int64_t batch, Dtype dtype) {
  const Dims shape = {config.layers * config.directions, batch, config.hidden};
  RecurrentStates<Tensor> copies{.hidden = copy_state(layer, "the hidden state", states.hidden, shape, dtype)};
  if (config.cell == RecurrentCell::lstm) {
    copies.cell = copy_state(layer, "the cell state", states.cell, shape, dtype);
  } else {
    refuse_unless(!states.cell, layer, "a cell state is given; an LSTM alone has one");
  }
  return copies;
}

void drop_steps(const Dropout& dropout, int layer, const RecurrentBatch& batch, const MutableTensorView& rows,
                int threads) {
  if (!DropoutRule(dropout).is_on()) return;
  const Dropout of_layer = dropout_at(dropout, static_cast<std::uint32_t>(layer));
  parallel_for(batch.size(), threads, [&](std::int64_t sequence, int) {
    const MutableTensorView own = rows.slice(0, batch.begin(sequence), batch.begin(sequence + 1));
    drop(dropout_at(of_layer, static_cast<std::uint32_t>(sequence)), own, own, 1);
  });
}

}  // namespace qkv::inline layers
