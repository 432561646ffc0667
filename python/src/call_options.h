// The keywords that every call of attention and of its derivatives takes.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "calls.h"
#include "qkv/attention.h"

namespace qkv::python {

// What the keywords say; keeps their arrays alive.
struct CallOptions {
  AttentionOptions options{};
  std::vector<Array> arrays{};
  bool has_seed = false;
};

// Reads all keywords: the common ones here, any other by `own`, which says whether it knows it. TypeError for a keyword
// that nobody knows, as `function` got it.
CallOptions take_options(const char* function, const nb::kwargs& keywords,
                         const std::function<bool(std::string_view, nb::handle)>& own);

// Multiplications and additions of a call at most, as if nothing was masked.
double most_operations(const TensorView& query, const TensorView& key);

// The common keywords as stubs show them.
#define QKV_CALL_KEYWORDS                                                                                             \
  "mask: Mask | Array | typing.Literal['causal'] | None = None, bias: Bias | None = None, scale: float | None = "     \
  "None, soft_cap: float = 0.0, score: "                                                                              \
  "Score | typing.Literal['scaled_dot', 'dot'] = 'scaled_dot', dropout: float = 0.0, seed: int | None = None, "       \
  "sinks: Array | None = None, offsets_query: ArrayOrSequence | None = None, offsets_key: ArrayOrSequence | None = "  \
  "None, block_table: "                                                                                               \
  "ArrayOrSequence | None = None, precision: typing.Literal['exact', 'reduced'] = 'exact', memory_limit: int | None " \
  "= None, threads: int = 0"

}  // namespace qkv::python
