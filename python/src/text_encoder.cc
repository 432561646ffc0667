// The TextEncoder under qkv.torch.whole: ids of tokens to their last hidden states.
#include "qkv/models/text_encoder.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "arguments.h"
#include "arrays.h"
#include "bindings.h"
#include "calls.h"
#include "qkv/layers/sequences.h"

namespace qkv::python {
namespace {

std::vector<std::int32_t> take_ids(nb::handle object, std::string_view name) {
  std::vector<std::int32_t> ids;
  for (const std::int64_t id : take_whole_numbers(object, name)) {
    ids.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(id, -1, INT32_MAX)));  // both are in no table
  }
  return ids;
}

nb::object forward_tokens(const TextEncoder& encoder, nb::handle ids, nb::handle types, nb::handle lengths,
                          nb::handle threads) {
  const TokenBatch batch{.ids = take_ids(ids, "ids"),
                         .types = take_ids(types, "types"),
                         .offsets = offsets_of(take_whole_numbers(lengths, "lengths"))};
  const double operations = layers_operations(encoder.config(), static_cast<double>(batch.ids.size()));
  const int count = take_threads(threads);
  return give_array(run_released(operations, [&] { return encoder.forward(batch, {.threads = count}); }), Kind::numpy);
}

}  // namespace

void bind_text_encoder(nb::module_& module) {
  add_class<TextEncoder>(module, "_TextEncoder")
      .def("__init__", &load_folder<TextEncoder>, "folder"_a)
      .def("forward", &forward_tokens, "ids"_a, "types"_a, "lengths"_a, "threads"_a);
}

}  // namespace qkv::python
