// The keywords that every call of attention and of its derivatives takes.
#pragma once

#include <nanobind/nanobind.h>

#include <functional>
#include <string_view>
#include <vector>

#include "arrays.h"
#include "qkv/attention.h"
#include "values.h"

namespace qkv::python {

// What the keywords say; keeps their arrays alive.
struct CallOptions {
  AttentionOptions options{};
  std::vector<Array> arrays{};
  bool has_seed = false, has_threads = false;
};

// Reads all keywords: the common ones here, any other by `own`, which says whether it knows it. TypeError for a keyword
// that nobody knows, as `function` got it. `take`: how arrays of floats are read.
using OwnKeywords = std::function<bool(std::string_view, nb::handle)>;
CallOptions take_options(const char* function, const nb::dict& keywords, const OwnKeywords& own,
                         TakeFloats take = &take_floats);

// Multiplications and additions of a call at most, as if nothing was masked.
double most_operations(const TensorView& query, const TensorView& key);

// The common keywords as stubs show them.
#define QKV_CALL_KEYWORDS "**options: typing_extensions.Unpack[AttentionOptions]"

}  // namespace qkv::python
