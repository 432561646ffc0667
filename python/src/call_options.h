// The keywords that every call of attention and of its derivatives takes.
#pragma once

#include <vector>

#include "keywords.h"
#include "qkv/attention.h"

namespace qkv::python {

// What the keywords say; keeps their arrays alive.
struct CallOptions {
  AttentionOptions options{};
  std::vector<Array> arrays{};
};

// The last of the keywords of a function: it knows no others.
CallOptions take_options(Keywords& keywords);

// Multiplications and additions of a call at most, as if nothing was masked.
double most_operations(const TensorView& query, const TensorView& key);

}  // namespace qkv::python
