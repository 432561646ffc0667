// Deals the sequences of a batch out, copies states, and drops elements sequence by sequence.
#include "lab/layers/recurrent_batch.h"

#include <algorithm>
#include <numeric>

#include "attention/options/dropout.h"
#include "core/mathematics.h"
#include "core/refuse.h"
#include "lab/layers/sequence_begins.h"
#include "layers/basic/rows.h"
#include "qkv/threads.h"

namespace qkv::inline layers {
namespace {

// At least enough for the product's rows to fill its tile, few enough for their states and gates to stay in cache.
constexpr std::int64_t kMostInGroup = 64;

}  // namespace

RecurrentBatch::RecurrentBatch(std::string_view layer, const Sequences& x, std::int64_t in)
    : begins_(sequence_begins(layer, x, in)), rows_(layer, x.rows, in) {}

std::vector<std::vector<std::int64_t>> RecurrentBatch::groups(std::int64_t count) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size()));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](std::int64_t a, std::int64_t b) { return length(a) == length(b) ? a < b : length(a) > length(b); });
  const std::int64_t number = std::min(size(), std::max(count, divide_up(size(), kMostInGroup)));
  std::vector<std::vector<std::int64_t>> groups(static_cast<std::size_t>(number));
  for (std::size_t i = 0; i < order.size(); ++i) groups[i % groups.size()].push_back(order[i]);
  return groups;
}

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
