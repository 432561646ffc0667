// Positions of tokens, and the projection to the vocabulary.
#include "models/token_rows.h"

#include "core/refuse.h"
#include "qkv/layers/positions.h"

namespace qkv::inline models {

std::vector<std::int32_t> check_positions(std::string_view model, std::size_t ids, const Tensor& offsets,
                                          std::int64_t most) {
  std::vector<std::int32_t> positions = positions_of(offsets, most);
  refuse_unless(offsets.data<std::int32_t>()[0] == 0 && positions.size() == ids, model,
                "{} ids need offsets from 0 to their number", ids);
  return positions;
}

ClassWeights classes(const Embedding& table, const TensorView& bias, Tensor& storage) {
  const bool full = table.projection().storage() == WeightStorage::full;
  return {.weight = table.table(storage), .bias = bias, .projection = full ? &table.projection() : nullptr};
}

}  // namespace qkv::inline models
