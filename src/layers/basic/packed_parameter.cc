// PackedParameter: lays a parameter out in panels, and reads it out of them.
#include "qkv/layers/packed_parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/kept_memory.h"
#include "core/stop.h"
#include "qkv/layers/weights.h"
#include "qkv/memory.h"

namespace qkv {
namespace {

// Bytes that are kept while a model is loaded: of a usual weight, for the next one. A table's are given back, which the
// model would otherwise take twice.
constexpr std::size_t kKeptWhileLoading = std::size_t{4} << 20;

// [..., in] as [rows, in].
template <class View>
View as_rows(const View& view) {
  return view.reshape({view.element_count() / view.size(-1), view.size(-1)});
}

// Of `bytes` for so many numbers.
WeightStorage storage_of_blocks(std::int64_t bytes, std::int64_t numbers) {
  return bytes * 32 == numbers * block_bytes(WeightStorage::q8) ? WeightStorage::q8 : WeightStorage::q4;
}

WeightStorage storage_of_numbers(WeightStorage storage) {
  return block_bytes(storage) > 0 ? WeightStorage::full : storage;
}

}  // namespace

PackedParameter::PackedParameter(Tensor value, std::vector<std::int64_t> part_rows, WeightStorage storage)
    : own_{.value = std::move(value), .storage = part_rows.empty() ? WeightStorage::full : storage},
      shape_(own_.value.shape()),
      part_rows_(std::move(part_rows)) {
  pack();
}

PackedParameter::PackedParameter(Weights& weights, const std::string& name, const Dims& shape,
                                 std::vector<std::int64_t> part_rows, WeightStorage storage)
    : own_{.storage = part_rows.empty() ? WeightStorage::full : storage},
      shape_(shape),
      part_rows_(std::move(part_rows)) {
  const auto value = [&]() -> Tensor& {
    if (own_.value.element_count() == 0) own_.value = weights.take_stored(name, shape);
    return own_.value;
  };
  if (part_rows_.empty() || block_bytes(storage) > 0) {
    value();
    pack();
    return;
  }
  std::int64_t begin = 0;
  for (const std::int64_t count : part_rows_) {
    parts_.push_back(weights.packed(fmt::format("{}.{}", name, parts_.size()), shape[shape.size() - 1], count, storage,
                                    [&] { return packed_part(as_rows(std::as_const(value()).view()), begin, count); }));
    begin += count;
  }
  drop_value();
}

void PackedParameter::pack() {
  if (part_rows_.empty()) return;
  const TensorView rows = as_rows(std::as_const(own_.value).view());
  parts_.clear();
  std::int64_t begin = 0;
  for (const std::int64_t count : part_rows_) {
    parts_.push_back(packed_part(rows, begin, count));
    begin += count;
  }
  drop_value();
}

PackedMatrix PackedParameter::packed_part(const TensorView& rows, std::int64_t begin, std::int64_t count) const {
  const TensorView part = rows.slice(0, begin, begin + count);
  return rows.dtype() == Dtype::u8
             ? PackedMatrix::of_blocks(part, storage_of_blocks(rows.size(1), shape_[shape_.size() - 1]))
             : PackedMatrix(part.transpose(0, 1), 0, storage_of_numbers(own_.storage));
}

// Where it is in panels, unless it is trained.
void PackedParameter::drop_value() {
  if (is_kept()) return;
  own_.value = {};
  if (kept_bytes() > kKeptWhileLoading) trim_memory();
}

Tensor PackedParameter::unpacked() const {
  Tensor value = Tensor::uninitialized(shape_, parts_[0].dtype());
  const MutableTensorView rows = as_rows(value.view());
  std::int64_t begin = 0;
  for (const PackedMatrix& part : parts_) {
    part.unpack(rows.slice(0, begin, begin + part.columns()).transpose(0, 1));
    begin += part.columns();
  }
  return value;
}

// [columns] or [groups][columns] of each part, one after the other, whatever the panels of the target.
Tensor PackedParameter::units() const {
  if (parts_[0].column_scales().element_count() == 0 || block_bytes(parts_[0].storage()) > 0) return {};
  std::vector<float> units;
  for (const PackedMatrix& part : parts_) {
    const TensorView& scales = part.column_scales();
    if (scales.rank() == 1) {
      units.insert(units.end(), scales.data<float>(), scales.data<float>() + part.columns());
    } else {
      const std::int64_t width = scales.size(2);
      for (std::int64_t group = 0; group < scales.size(1); ++group) {
        for (std::int64_t column = 0; column < part.columns(); ++column) {
          units.push_back(scales.data<float>()[(column / width * scales.size(1) + group) * width + column % width]);
        }
      }
    }
  }
  Tensor all = Tensor::uninitialized({static_cast<std::int64_t>(units.size())});
  std::ranges::copy(units, all.data<float>());
  return all;
}

TensorView PackedParameter::value(Tensor& storage) const {
  if (is_kept()) return own_.value;
  storage = unpacked();
  return storage;
}

void PackedParameter::visit(const ParameterVisitor& visitor, const std::string& name) const {
  is_kept() ? visitor(name, own_) : visitor(name, {.value = unpacked(), .storage = own_.storage, .units = units()});
}

void PackedParameter::update(const ParameterUpdater& updater, const std::string& name) {
  if (!is_kept()) own_.value = unpacked();
  updater(name, own_);
  const AdoptedStopScope unasked(nullptr);  // the panels change with the numbers
  pack();
}

}  // namespace qkv
