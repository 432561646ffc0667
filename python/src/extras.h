// Optional outputs of attention, as attention_stats() gives them.
#pragma once

#include <nanobind/nanobind.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "attention/call/output_kinds.h"
#include "inputs/call_options.h"
#include "qkv/attention.h"

namespace qkv::python {

// The optional outputs that were asked for, and what each takes: True, a number, two numbers or rows.
using Asked = std::vector<std::pair<const OutputDescription*, nb::object>>;

// Whether a keyword asks for one, which is then noted unless it is None or False.
bool ask(Asked& asked, std::string_view name, nb::handle given);

// Makes a place for each, the log-sum-exp first.
class Extras {
 public:
  Extras(const Asked& asked, const TensorView& query, const TensorView& key, const CallOptions& call);

  const AttentionExtras& views() const { return views_; }
  // By name.
  nb::dict give(Kind kind);

 private:
  void place(const OutputDescription& kind, const Dims& shape);

  Array chosen_rows_{};
  std::deque<std::pair<const char*, Tensor>> tensors_{};
  AttentionExtras views_{};
  Dtype accumulation_;
};

}  // namespace qkv::python
