// Whether views share elements: an output may share none with anything that is read, nor with another output.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "qkv/attention/attention_jvp.h"

namespace qkv::inline attending {

// A view that lives as long as the call, and the bytes from its first to its last; none if it was not given.
struct NamedView {
  template <class Byte>
  NamedView(std::string_view with_name, const BasicView<Byte>& view)
      : name(with_name), bytes(view.bytes()), dtype(view.dtype()), shape(&view.shape()), strides(&view.strides()) {
    find_range(static_cast<bool>(view));
  }

  std::string_view name;
  const std::byte* bytes;
  Dtype dtype;
  const Dims *shape, *strides;
  std::intptr_t first = 0, last = -1;

 private:
  void find_range(bool is_given);
};

// Those of a call that are given.
std::vector<NamedView> inputs_of(const TensorView& q, const TensorView& k, const TensorView& v,
                                 const AttentionOptions& options);

// What a derivative reads besides: the results of the forward pass, and tangents.
void add_tangents(std::vector<NamedView>& inputs, const TensorView& out, const TensorView& log_sum_exp,
                  const AttentionTangents& tangents);

// std::invalid_argument, naming both, for an output that shares an element with an input or another output. Slices of
// one array, with equal strides, may interleave; other views are refused if their ranges of memory overlap. Those that
// are not given are passed over.
void require_apart(const std::vector<NamedView>& outputs, const std::vector<NamedView>& inputs);

}  // namespace qkv::inline attending
