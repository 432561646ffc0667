// Reads the keywords of a call.
#include "call_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace qkv::python {

CallOptions take_options(Keywords& keywords) {
  CallOptions call{.options = {.score = Score::scaled_dot()}};
  AttentionOptions& options = call.options;
  const auto read_offsets = [&](const char* ours, const char* other, TensorView& to) {
    TensorView theirs;
    keywords.read_integers(ours, to);
    keywords.read_integers(other, theirs);
    if (to && theirs) {
      throw std::invalid_argument(fmt::format("{} and {} are one argument: give one of them", ours, other));
    }
    if (theirs) to = theirs;
  };
  // The most frequent ones first: a look-up is a share of a small call, and nothing is looked up after the last.
  keywords.read("mask", options.mask);
  keywords.read("bias", options.bias);
  keywords.read("scale", options.scale);
  keywords.read("soft_cap", options.soft_cap);
  keywords.read_floats("sinks", options.sinks);
  keywords.read_threads(options.threads);
  keywords.read("score", options.score);
  keywords.read_dropout(options.dropout);
  read_offsets("offsets_query", "cu_seqlens_q", options.offsets_query);
  read_offsets("offsets_key", "cu_seqlens_k", options.offsets_key);
  keywords.read_integers("block_table", options.block_table);
  keywords.read("precision", options.precision, {{"exact", Precision::exact}, {"reduced", Precision::reduced}});
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
