// Optional outputs of attention that `want` names.
#pragma once

#include <nanobind/nanobind.h>

#include <deque>
#include <string>
#include <vector>

#include "arrays.h"
#include "inputs/call_options.h"
#include "qkv/attention.h"

namespace qkv::python {

// Makes a place for each wanted output and hands them over in the order in which they were named.
class Extras {
 public:
  // `want`: names, and pairs of a name and what it takes: ("top_keys", 4), ("block_weights", (8, 8)), ("row_weights",
  // rows).
  Extras(nb::handle want, const TensorView& query, const TensorView& key, const CallOptions& call);

  const AttentionExtras& views() const { return views_; }
  bool empty() const { return order_.empty(); }
  std::vector<nb::object> give(Kind kind);

 private:
  void add(const std::string& name, nb::handle argument);
  MutableTensorView place(const Dims& shape, Dtype dtype);

  Dims rows_;   // [..., heads, q_len], packed [query tokens, heads]
  Dims keys_;   // [..., heads, k_len], packed [key tokens, heads]
  Dims heads_;  // [..., heads], packed [batch, heads]
  std::int64_t k_len_ = 0;
  Dtype accumulation_;
  Array chosen_rows_{};
  std::deque<Tensor> tensors_{};
  std::vector<std::size_t> order_{};
  AttentionExtras views_{};
};

// The longest sequence of keys of a call.
std::int64_t longest_keys(const TensorView& key, const AttentionOptions& options);

}  // namespace qkv::python
