// Checks shapes, types and strides of views.
#include "attention/call/view_checks.h"

#include <algorithm>

namespace qkv::inline attending {

Dims concatenate(Dims shape, std::initializer_list<std::int64_t> more) {
  for (const std::int64_t extent : more) shape.push_back(extent);
  return shape;
}

void require_shape(std::string_view name, const TensorView& view, const Dims& shape) {
  if (view.shape() != shape) fail("{} must be {}, got {}", name, to_string(shape), to_string(view.shape()));
}

void require_unit_stride(std::string_view name, const TensorView& view) {
  if (view.size(-1) > 1 && view.stride(-1) != 1 && view.element_count() > 0) {
    fail("{} has stride {} in its last dimension; it must be 1", name, view.stride(-1));
  }
}

TensorView broadcast(std::string_view name, const TensorView& view, const Dims& shape) {
  TensorView trimmed = view;
  while (trimmed.rank() > shape.size() && trimmed.size(0) == 1) trimmed = trimmed.select(0, 0);
  try {
    return trimmed.broadcast_to(shape);
  } catch (const std::invalid_argument&) {
    fail("{} {} does not broadcast to {}", name, to_string(view.shape()), to_string(shape));
  }
}

std::vector<std::int64_t> integers(std::string_view name, const TensorView& view) {
  if (view.rank() != 1) fail("{} must have one dimension, got {}", name, to_string(view.shape()));
  if (view.dtype() != Dtype::i32 && view.dtype() != Dtype::i64) {
    fail("{} must be i32 or i64, got {}", name, name_of(view.dtype()));
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(view.size(0)));
  for (std::int64_t i = 0; i < view.size(0); ++i) {
    values[static_cast<std::size_t>(i)] =
        view.dtype() == Dtype::i32 ? view.at<std::int32_t>({i}) : view.at<std::int64_t>({i});
  }
  return values;
}

std::vector<std::int64_t> sequence_counts(std::string_view name, const TensorView& view, std::int64_t batch) {
  std::vector<std::int64_t> counts = integers(name, view);
  if (std::ssize(counts) != batch) fail("{} has {} entries for a batch of {}", name, counts.size(), batch);
  return counts;
}

void keep_least(std::vector<std::int64_t>& least, const std::vector<std::int64_t>& counts) {
  if (least.empty()) least = counts;
  std::ranges::transform(counts, least, least.begin(), std::ranges::min);
}

void require_distinct(std::string_view name, const TensorView& view) {
  if (view.element_count() == 0) return;
  for (int i = 0; i < view.rank(); ++i) {
    if (view.size(i) > 1 && view.stride(i) == 0) fail("{} repeats elements (stride 0); an output cannot", name);
  }
}

const std::byte* head_address(const TensorView& view, const Dims& batch_shape, std::int64_t b, std::int64_t h) {
  const int rank = batch_shape.size();
  std::int64_t offset = h * view.stride(rank);
  for (int i = rank - 1; i >= 0; --i) {
    offset += b % batch_shape[i] * view.stride(i);
    b /= batch_shape[i];
  }
  return view.bytes() + offset * static_cast<std::int64_t>(size_of(view.dtype()));
}

}  // namespace qkv::inline attending
