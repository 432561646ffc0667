// Reads the keywords of a call by name.
#include "call_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "arguments.h"
#include "attention/options/mask_kinds.h"
#include "values.h"

namespace qkv::python {
namespace {

// Whether a keyword is one of the common ones, which is then set.
bool take_option(CallOptions& call, std::string_view key, nb::handle value, TakeFloats take) {
  AttentionOptions& options = call.options;
  const auto view = [&](Array array) {
    call.arrays.push_back(array);
    return array.view;
  };
  const auto offsets = [&](TensorView& to, std::string_view ours, std::string_view other) {
    if (to) throw std::invalid_argument(fmt::format("{} and {} are one argument: give one of them", ours, other));
    to = view(take_integers(value, key));
  };
  if (key == "mask") {
    options.mask = keep(take_mask(value, key), call.arrays);
  } else if (key == "bias") {
    options.bias = keep(take_bias(value, key, take), call.arrays);
  } else if (key == "scale") {
    options.scale = take_number(value, key);
  } else if (key == "soft_cap") {
    options.soft_cap = take_number(value, key);
  } else if (key == "score") {
    options.score = keep(take_score(value, key, take), call.arrays);
  } else if (key == "dropout") {
    options.dropout.p = take_number(value, key);
  } else if (key == "seed") {
    options.dropout.seed = take_seed(value, key);
    call.has_seed = true;
  } else if (key == "sinks") {
    options.sinks = view(take(value, key));
  } else if (key == "offsets_query" || key == "cu_seqlens_q") {
    offsets(options.offsets_query, "offsets_query", "cu_seqlens_q");
  } else if (key == "offsets_key" || key == "cu_seqlens_k") {
    offsets(options.offsets_key, "offsets_key", "cu_seqlens_k");
  } else if (key == "block_table") {
    options.block_table = view(take_integers(value, key));
  } else if (key == "precision") {
    options.precision =
        take_choice<Precision>(value, key, {{"exact", Precision::exact}, {"reduced", Precision::reduced}});
  } else if (key == "memory_limit") {
    options.memory_limit = take_whole(value, key);
  } else if (key == "threads") {
    options.threads = take_threads(value);
    call.has_threads = true;
  } else {
    return false;
  }
  return true;
}

// None is the default of these.
bool may_be_none(std::string_view key) {
  constexpr std::string_view kNames[] = {"mask",         "bias",          "scale",        "seed",
                                         "sinks",        "offsets_query", "offsets_key",  "cu_seqlens_q",
                                         "cu_seqlens_k", "block_table",   "memory_limit", "threads"};
  return std::find(std::begin(kNames), std::end(kNames), key) != std::end(kNames);
}

// For what other functions take by itself, and this one in a mask.
std::string hint_of(std::string_view key) {
  if (std::ranges::find(mask_kinds(), key, &MaskDescription::name) == mask_kinds().end()) return "";
  return fmt::format("; mask=qkv.Mask.{}(...) is one", key);
}

}  // namespace

CallOptions take_options(const char* function, const nb::dict& keywords, const OwnKeywords& own, TakeFloats take) {
  CallOptions call{.options = {.score = Score::scaled_dot()}};
  for (const auto& [key, value] : keywords) {
    const std::string_view name = text_of(key, "a keyword");
    if (own && own(name, value)) continue;
    if (value.is_none() && may_be_none(name)) continue;
    if (take_option(call, name, value, take)) continue;
    throw TypeError(fmt::format("{}() got an unexpected keyword argument '{}'{}", function, name, hint_of(name)));
  }
  if (call.options.dropout.p != 0 && !call.has_seed) {
    throw std::invalid_argument(fmt::format("{}: dropout needs a seed", function));
  }
  return call;
}

double most_operations(const TensorView& query, const TensorView& key) {
  if (query.rank() < 2 || key.rank() < 2) return 0;
  const auto queries = static_cast<double>(query.element_count());
  const auto keys = static_cast<double>(key.rank() == 4 ? std::max(key.size(0) * key.size(1), key.size(2))
                                                        : std::max(key.size(0), key.size(1)));
  return 4 * queries * keys;
}

}  // namespace qkv::python
