// Reads the tuples that operators.py describes.
#include "tensor_calls.h"

#include <stdexcept>
#include <utility>

#include "arguments.h"
#include "values.h"

namespace qkv::python {

Array take_rows(nb::handle tensor, std::string_view name) {
  Array array = take_values(tensor, name);
  if (array.view.rank() == 0 || array.view.stride(-1) == 1) return array;
  return take_values(nb::object(tensor.attr("contiguous")()), name);
}

CallOptions take_call(const nb::tuple& plain, const std::vector<nb::object>& rest, int threads) {
  constexpr std::size_t kTensors = 5;
  if (nb::len(plain) != 6) throw TypeError("plain must have 6 entries");
  if (!rest.empty() && rest.size() < kTensors) throw TypeError("rest must be empty or have 5 entries or more");
  CallOptions taken{.options = {.score = Score::scaled_dot(), .threads = threads}};
  AttentionOptions& options = taken.options;
  const nb::object causal = plain[0], scale = plain[3];
  if (!PyUnicode_Check(causal.ptr()) || nb::len(causal) > 0) options.mask = Mask::causal(take_align(causal, "causal"));
  const std::int64_t left = take_whole(plain[1], "left"), right = take_whole(plain[2], "right");
  if (left >= 0 || right >= 0) options.mask = options.mask & Mask::window(left, right);
  if (!scale.is_none()) options.scale = take_number(scale, "scale");
  options.soft_cap = take_number(plain[4], "soft_cap");
  options.dropout.p = take_number(plain[5], "dropout");
  const bool has_seed = !rest.empty() && !rest[4].is_none();
  if (options.dropout.p != 0 && !has_seed) throw std::invalid_argument("attention: dropout needs a seed");
  if (rest.empty()) return taken;

  const auto kept = [&](Array array) { return taken.arrays.emplace_back(std::move(array)).view; };
  const nb::object &sinks = rest[0], &mask = rest[1], &lengths = rest[2], &documents = rest[3], &seed = rest[4];
  if (!sinks.is_none()) options.sinks = kept(take_rows(sinks, "sinks"));
  if (!mask.is_none()) options.mask = options.mask & Mask::boolean(kept(take_booleans(mask, "mask")));
  if (!lengths.is_none()) options.mask = options.mask & Mask::lengths(kept(take_integers(lengths, "lengths")));
  if (!documents.is_none()) options.mask = options.mask & Mask::documents(kept(take_integers(documents, "documents")));
  if (has_seed) options.dropout.seed = static_cast<std::uint64_t>(take_whole(seed.attr("item")(), "seed"));
  for (std::size_t i = kTensors; i < rest.size(); ++i) {
    options.bias = options.bias + Bias::view(kept(take_rows(rest[i], "bias")));
  }
  return taken;
}

}  // namespace qkv::python
