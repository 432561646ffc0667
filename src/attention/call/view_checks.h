// What the checks of attention's arguments share: messages, and views brought to the form that the kernels want.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/refuse.h"
#include "qkv/tensor.h"

namespace qkv::inline attending {

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  refuse("attention", text, std::forward<Args>(args)...);
}

Dims concatenate(Dims shape, std::initializer_list<std::int64_t> more);

// Leading dimensions of extent 1 until the view has this rank.
template <class View>
View with_rank(const View& view, int rank) {
  if (view.rank() >= rank) return view;
  Dims shape, strides;
  for (int i = view.rank(); i < rank; ++i) {
    shape.push_back(1);
    strides.push_back(0);
  }
  for (int i = 0; i < view.rank(); ++i) {
    shape.push_back(view.size(i));
    strides.push_back(view.stride(i));
  }
  return {view.bytes(), view.dtype(), shape, strides};
}

// `name` is what messages call the view.
void require_shape(std::string_view name, const TensorView& view, const Dims& shape);
void require_unit_stride(std::string_view name, const TensorView& view);
// No two elements of an output share an address.
void require_distinct(std::string_view name, const TensorView& view);

// Leading dimensions of extent 1 beyond the shape's rank are dropped first.
TensorView broadcast(std::string_view name, const TensorView& view, const Dims& shape);

// The elements of an i32 or i64 view of one dimension.
std::vector<std::int64_t> integers(std::string_view name, const TensorView& view);
// The same, one for each of `batch` sequences.
std::vector<std::int64_t> sequence_counts(std::string_view name, const TensorView& view, std::int64_t batch);
// least = the smaller of both, sequence by sequence; counts if least is empty.
void keep_least(std::vector<std::int64_t>& least, const std::vector<std::int64_t>& counts);

// Address of the elements of sequence b and head h in a view [batch dimensions ..., heads, ...].
const std::byte* head_address(const TensorView& view, const Dims& batch_shape, std::int64_t b, std::int64_t h);

// For views of what is only planned: addresses are computed, though nothing is read or written there.
inline std::byte* unallocated() {
  static std::byte byte{};
  return &byte;
}

// A view that was given without elements gets an address.
template <class View>
View with_address(const View& view) {
  return view && view.bytes() == nullptr ? View(unallocated(), view.dtype(), view.shape(), view.strides()) : view;
}

}  // namespace qkv::inline attending
