// Finds a keyword, remembers that it was found, and reads it.
#include "keywords.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "attention/options/mask_kinds.h"

namespace qkv::python {

nb::handle Keywords::take(const char* name) {
  if (found_.size() == nb::len(given_)) return {};
  const nb::handle value = PyDict_GetItemString(given_.ptr(), name);
  if (value.is_valid()) found_.emplace_back(name);
  return value.is_valid() && value.is_none() ? nb::handle() : value;
}

bool Keywords::has(const char* name) {
  if (found_.size() == nb::len(given_)) return false;
  const nb::handle value = PyDict_GetItemString(given_.ptr(), name);
  return value.is_valid() && !value.is_none();
}

void Keywords::read_threads(int& to) {
  if (const nb::handle value = take("threads"); value.is_valid()) to = take_threads(value);
}

void Keywords::set(PictureSize& to, nb::handle value, const char* name) {
  if (PyIndex_Check(value.ptr())) {
    const std::int64_t edge = take_whole(value, name);
    to = {edge, edge};
    return;
  }
  const std::vector<std::int64_t> edges = take_whole_numbers(value, name);
  if (edges.size() != 2) throw std::invalid_argument(fmt::format("{} must be a number or (height, width)", name));
  to = {edges[0], edges[1]};
}

void Keywords::set(std::optional<std::array<std::int64_t, 2>>& to, nb::handle value, const char* name) {
  const std::vector<std::int64_t> pair = take_whole_numbers(value, name);
  if (pair.size() != 2) throw std::invalid_argument(fmt::format("{} must be two numbers", name));
  to = {pair[0], pair[1]};
}

void Keywords::read_integers(const char* name, TensorView& to) {
  if (const nb::handle value = take(name); value.is_valid()) to = arrays_.emplace_back(take_integers(value, name)).view;
}

void Keywords::read_floats(const char* name, TensorView& to) {
  if (const nb::handle value = take(name); value.is_valid()) to = arrays_.emplace_back(take_floats_(value, name)).view;
}

void Keywords::read_offsets(const char* name, TensorView& to) {
  read_integers(name, to);
  if (to && to.dtype() != Dtype::i32) throw TypeError(fmt::format("{} must be int32", name));
  if (to && to.rank() != 1) throw std::invalid_argument(fmt::format("{} must be [batch + 1]", name));
}

void Keywords::read_dropout(Dropout& to) {
  std::optional<std::uint64_t> seed;
  read("dropout", to.p);
  read("seed", seed);
  if (to.p != 0 && !seed) throw std::invalid_argument(function_ + ": dropout needs a seed");
  to.seed = seed.value_or(0);
}

std::vector<Array> Keywords::finish() {
  if (found_.size() < nb::len(given_)) {
    for (const auto& [key, value] : given_) {
      const std::string_view name = text_of(key, "a keyword");
      if (std::ranges::find(found_, name) != found_.end()) continue;
      // Other libraries have an argument for it; here it is part of a mask.
      const bool is_mask =
          takes_masks_ && std::ranges::find(mask_kinds(), name, &MaskDescription::name) != mask_kinds().end();
      const std::string hint = is_mask ? fmt::format("; mask=qkv.Mask.{}(...) is one", name) : "";
      throw TypeError(fmt::format("{}() got an unexpected keyword argument '{}'{}", function_, name, hint));
    }
  }
  return std::move(arrays_);
}

namespace {

// Options by the names that they have in flash-attention.
struct OtherName {
  const char *theirs, *ours;
  void (*read)(Keywords& keywords, const char* name, AttentionOptions& to);
};

constexpr OtherName kOtherNames[] = {
    {"softmax_scale", "scale",
     [](Keywords& keywords, const char* name, AttentionOptions& to) { keywords.read(name, to.scale); }},
    {"softcap", "soft_cap",
     [](Keywords& keywords, const char* name, AttentionOptions& to) { keywords.read(name, to.soft_cap); }},
    {"cu_seqlens_q", "offsets_query",
     [](Keywords& keywords, const char* name, AttentionOptions& to) {
       keywords.read_integers(name, to.offsets_query);
     }},
    {"cu_seqlens_k", "offsets_key",
     [](Keywords& keywords, const char* name, AttentionOptions& to) { keywords.read_integers(name, to.offsets_key); }},
};

}  // namespace

CallOptions take_options(Keywords& keywords) {
  CallOptions call{.options = {.score = Score::scaled_dot()}};
  AttentionOptions& options = call.options;
  // The most frequent ones first: a look-up is a share of a small call, and nothing is looked up after the last.
  keywords.read("mask", options.mask, "bias", options.bias, "scale", options.scale, "soft_cap", options.soft_cap);
  keywords.read_floats("sinks", options.sinks);
  keywords.read_threads(options.threads);
  keywords.read("score", options.score);
  keywords.read_dropout(options.dropout);
  keywords.read_integers("offsets_query", options.offsets_query);
  keywords.read_integers("offsets_key", options.offsets_key);
  for (const auto& [theirs, ours, read] : kOtherNames) {
    if (keywords.has(theirs) && keywords.has(ours)) {
      throw std::invalid_argument(fmt::format("{} and {} are one argument: give one of them", ours, theirs));
    }
    read(keywords, theirs, options);
  }
  keywords.read_integers("block_table", options.block_table);
  keywords.read("precision", options.precision, kPrecisions);
  keywords.read("empty_rows", options.empty_rows, {{"zero", EmptyRows::zero}, {"nan", EmptyRows::nan}});
  keywords.read("memory_limit", options.memory_limit);
  call.arrays = keywords.finish();
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
