// Strides of new tensors are those of torch.empty_like.
#include "tensor_layouts.h"

#include <algorithm>
#include <array>
#include <utility>

#include "arrays.h"

namespace qkv::python {
namespace {

// Whether each element of the memory between the first and the last one belongs to the view, once, and those of a row
// are neighbours.
bool is_dense(const TensorView& view) {
  if (view.rank() > 0 && view.stride(-1) != 1) return false;
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> dims{};  // stride and extent
  std::size_t count = 0;
  for (int i = 0; i < view.rank(); ++i) {
    if (view.size(i) != 1) dims[count++] = {view.stride(i), view.size(i)};
  }
  std::sort(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
  std::int64_t expected = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (dims[i].first != expected) return false;
    expected *= dims[i].second;
  }
  return true;
}

}  // namespace

// Heads that were split from rows lie apart. From 1,024 keys on their tiles push each other out of the cache at every
// block of queries: measured, a copy then takes 0.6 to 0.75 of the time, below 512 keys more than it saves.
bool is_better_copied(const TensorView& keys, const TensorView& query) {
  constexpr std::int64_t kManyKeys = 1024, kManyQueries = 64;
  return keys.rank() > 1 && query.rank() > 1 && keys.size(-2) >= kManyKeys && query.size(-2) >= kManyQueries &&
         keys.stride(-2) > keys.size(-1);
}

nb::object NewRows::give() { return tensor.is_valid() ? std::move(tensor) : give_tensor(std::move(memory), view); }

NewRows new_rows(const Dims& shape, Dtype dtype) {
  NewRows made{.memory = Tensor::uninitialized(shape, dtype)};
  made.view = made.memory.view();
  return made;
}

NewRows new_rows_like(nb::handle tensor, const TensorView& view) {
  if (is_dense(view)) {
    NewRows made = new_rows(view.shape(), view.dtype());
    made.view = {made.view.bytes(), view.dtype(), view.shape(), view.strides()};
    return made;
  }
  static const nb::object& function = *new nb::object(nb::module_::import_("torch").attr("empty_like"));
  NewRows made{.tensor = function(tensor)};
  made.view = take_new(made.tensor).view;
  if (made.view.rank() == 0 || made.view.stride(-1) == 1) return made;
  return new_rows(view.shape(), view.dtype());
}

NewRows new_rows_like(nb::handle tensor, const Array& rows) {
  return rows.object.is(tensor) ? new_rows_like(tensor, rows.view) : new_rows_like(tensor);
}

NewRows new_rows_like(nb::handle tensor) { return new_rows_like(tensor, take_values(tensor, "a tensor").view); }

}  // namespace qkv::python
