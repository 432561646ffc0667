// Dims, views and tensors: shapes, strides, slices, copies and conversion between element types.
#include "qkv/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "core/float_environment.h"
#include "core/kept_memory.h"
#include "core/refuse.h"
#include "core/stop.h"
#include "core/visit_dtype.h"

namespace qkv {

Dims::Dims(std::span<const std::int64_t> values) {
  if (values.size() > static_cast<std::size_t>(kMaxRank)) {
    refuse("tensor", "rank {} exceeds the limit of {}", values.size(), kMaxRank);
  }
  std::copy(values.begin(), values.end(), values_.begin());
  size_ = static_cast<int>(values.size());
}

void Dims::push_back(std::int64_t value) {
  if (size_ == kMaxRank) refuse("tensor", "rank exceeds the limit of {}", kMaxRank);
  (*this)[size_++] = value;
}

bool Dims::operator==(const Dims& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ", ")); }

std::int64_t element_count(const Dims& shape) {
  constexpr std::int64_t kLimit = std::int64_t{1} << 59;  // 8 bytes each stay below 2^63
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) refuse("tensor", "negative extent in {}", to_string(shape));
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t extent : shape) {
    if (extent > kLimit / count) refuse("tensor", "too many elements in {}", to_string(shape));
    count *= extent;
  }
  return count;
}

Dims row_major_strides(const Dims& shape) {
  Dims strides = shape;
  std::int64_t step = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

template <class Byte>
BasicView<Byte>::BasicView(Byte* data, Dtype dtype, const Dims& shape, const Dims& strides)
    : data_(data), dtype_(dtype), given_(true), shape_(shape), strides_(strides) {
  if (shape.size() != strides.size()) {
    refuse("tensor", "shape {} and strides {} differ in rank", to_string(shape), to_string(strides));
  }
}

template <class Byte>
BasicView<Byte>::BasicView(Byte* data, Dtype dtype, const Dims& shape)
    : BasicView(data, dtype, shape, row_major_strides(shape)) {}

template <class Byte>
bool BasicView<Byte>::is_row_major() const {
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] == 0) return true;
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

template <class Byte>
std::int64_t BasicView<Byte>::offset_of(const Dims& index) const {
  bool inside = index.size() == rank();
  std::int64_t offset = 0;
  for (int i = 0; inside && i < rank(); ++i) {
    inside = index[i] >= 0 && index[i] < shape_[i];
    offset += index[i] * strides_[i];
  }
  if (!inside) refuse("tensor", "no element {} in {}", to_string(index), to_string(shape_));
  return offset;
}

template <class Byte>
BasicView<Byte> BasicView<Byte>::slice(int dim, std::int64_t begin, std::int64_t end) const {
  if (dim < 0) dim += rank();
  if (dim < 0 || dim >= rank() || begin < 0 || begin > end || end > shape_[dim]) {
    refuse("tensor", "no slice {}:{} of dimension {} in {}", begin, end, dim, to_string(shape_));
  }
  BasicView part = *this;
  if (data_ != nullptr) part.data_ += begin * strides_[dim] * static_cast<std::int64_t>(size_of(dtype_));
  part.shape_[dim] = end - begin;
  return part;
}

template <class Byte>
BasicView<Byte> BasicView<Byte>::select(int dim, std::int64_t index) const {
  if (dim < 0) dim += rank();
  const BasicView part = slice(dim, index, index + 1);
  Dims shape, strides;
  for (int i = 0; i < rank(); ++i) {
    if (i == dim) continue;
    shape.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  return {part.data_, dtype_, shape, strides};
}

template <class Byte>
BasicView<Byte> BasicView<Byte>::transpose(int first, int second) const {
  if (first < 0) first += rank();
  if (second < 0) second += rank();
  if (first < 0 || second < 0 || first >= rank() || second >= rank()) {
    refuse("tensor", "cannot transpose dimensions {} and {} of {}", first, second, to_string(shape_));
  }
  BasicView turned = *this;
  std::swap(turned.shape_[first], turned.shape_[second]);
  std::swap(turned.strides_[first], turned.strides_[second]);
  return turned;
}

template <class Byte>
BasicView<Byte> BasicView<Byte>::reshape(const Dims& shape) const {
  if (!is_row_major() || qkv::element_count(shape) != element_count()) {
    refuse("tensor", "cannot reshape {} with strides {} to {}", to_string(shape_), to_string(strides_),
           to_string(shape));
  }
  return {data_, dtype_, shape};
}

template <class Byte>
BasicView<Byte> BasicView<Byte>::broadcast_to(const Dims& shape) const {
  const int missing = shape.size() - rank();
  Dims strides;
  bool fits = missing >= 0;
  for (int i = 0; fits && i < shape.size(); ++i) {
    const bool repeats = i < missing || (shape_[i - missing] == 1 && shape[i] != 1);
    fits = repeats || shape_[i - missing] == shape[i];
    strides.push_back(repeats ? 0 : strides_[i - missing]);
  }
  if (!fits) refuse("tensor", "cannot broadcast {} to {}", to_string(shape_), to_string(shape));
  return {data_, dtype_, shape, strides};
}

template <class Byte>
void BasicView<Byte>::check_type(Dtype wanted) const {
  if (dtype_ != wanted) {
    refuse("tensor", "elements are {}, not {}", name_of(dtype_), name_of(wanted));
  }
}

template class BasicView<const std::byte>;
template class BasicView<std::byte>;

namespace {

// body(begin, count) for parts of so many bytes.
template <class Body>
void for_each_piece(std::size_t bytes, const Body& body) {
  for (std::size_t begin = 0; begin < bytes; begin += static_cast<std::size_t>(kStopWork)) {
    check_stop();
    body(begin, std::min(bytes - begin, static_cast<std::size_t>(kStopWork)));
  }
}

}  // namespace

void Tensor::Free::operator()(std::byte* data) const { free_block(data); }

Tensor Tensor::uninitialized(const Dims& shape, Dtype dtype) {
  Tensor tensor;
  const auto elements = static_cast<std::uint64_t>(qkv::element_count(shape));
  if (elements > std::numeric_limits<std::size_t>::max() / size_of(dtype)) throw std::bad_alloc();
  tensor.data_.reset(take_block(static_cast<std::size_t>(elements) * size_of(dtype)));
  tensor.dtype_ = dtype;
  tensor.shape_ = shape;
  return tensor;
}

Tensor Tensor::zeros(const Dims& shape, Dtype dtype) {
  Tensor tensor = uninitialized(shape, dtype);
  for_each_piece(static_cast<std::size_t>(tensor.element_count()) * size_of(dtype),
                 [&](std::size_t begin, std::size_t count) { std::memset(tensor.data_.get() + begin, 0, count); });
  return tensor;
}

Tensor Tensor::copy(const TensorView& view) {
  Tensor tensor = uninitialized(view.shape(), view.dtype());
  convert(view, tensor);
  return tensor;
}

Tensor::Tensor(const Tensor& other) { *this = other; }

Tensor& Tensor::operator=(const Tensor& other) {
  if (this != &other) *this = copy(other.view());
  return *this;
}

void Tensor::assign(const void* values, std::size_t count, std::size_t element_size) {
  if (static_cast<std::int64_t>(count) != element_count()) {
    refuse("tensor", "{} values for shape {}", count, to_string(shape_));
  }
  if (count > 0) std::memcpy(data_.get(), values, count * element_size);
}

namespace {

// float is the bridge to and from the 16-bit types.
template <class To, class From>
To convert_element(From value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<From, BFloat16>) {
    return convert_element<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<From, Float16>) {
    return convert_element<To>(float_of_half(value.bits));
  } else if constexpr (std::is_same_v<To, BFloat16> || std::is_same_v<To, Float16>) {
    return To(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// One row; steps in elements.
template <class To, class From>
void convert_row(const std::byte* from, std::int64_t from_step, std::byte* to, std::int64_t to_step,
                 std::int64_t length) {
  const From* source = reinterpret_cast<const From*>(from);
  To* target = reinterpret_cast<To*>(to);
  if (from_step == 1 && to_step == 1) {  // what compilers make vectors of
    for (std::int64_t i = 0; i < length; ++i) target[i] = convert_element<To>(source[i]);
  } else {
    for (std::int64_t i = 0; i < length; ++i) target[i * to_step] = convert_element<To>(source[i * from_step]);
  }
}

using ConvertRow = void (*)(const std::byte*, std::int64_t, std::byte*, std::int64_t, std::int64_t);

void convert_rows(ConvertRow convert_row, const TensorView& from, const MutableTensorView& to) {
  const auto source_size = static_cast<std::int64_t>(size_of(from.dtype()));
  const auto target_size = static_cast<std::int64_t>(size_of(to.dtype()));
  const int rank = from.rank();
  if (rank == 0) return convert_row(from.bytes(), 1, to.bytes(), 1, 1);
  const std::int64_t length = from.size(-1);
  Dims index;
  for (int i = 0; i < rank; ++i) index.push_back(0);
  for (std::int64_t done = 0;; done += length) {
    if (done >= kStopWork) {
      check_stop();
      done = 0;
    }
    convert_row(from.bytes() + from.offset_of(index) * source_size, from.stride(-1),
                to.bytes() + to.offset_of(index) * target_size, to.stride(-1), length);
    int dim = rank - 2;
    while (dim >= 0 && ++index[dim] == from.size(dim)) index[dim--] = 0;
    if (dim < 0) return;
  }
}

}  // namespace

void clear(const MutableTensorView& view) {
  if (!view) return;
  const Tensor zero = Tensor::zeros({1}, view.dtype());
  convert(zero.view().broadcast_to(view.shape()), view);
}

void convert(const TensorView& from, const MutableTensorView& to) {
  if (from.shape() != to.shape()) {
    refuse("convert", "shapes {} and {} differ", to_string(from.shape()), to_string(to.shape()));
  }
  const std::int64_t count = from.element_count();
  if (count == 0) return;
  if (from.dtype() == to.dtype() && from.is_row_major() && to.is_row_major()) {
    for_each_piece(static_cast<std::size_t>(count) * size_of(from.dtype()), [&](std::size_t begin, std::size_t bytes) {
      std::memcpy(to.bytes() + begin, from.bytes() + begin, bytes);
    });
    return;
  }
  if (from.rank() > 0 && from.size(-1) > kStopWork) {
    for (std::int64_t begin = 0; begin < from.size(-1); begin += kStopWork) {
      const std::int64_t end = std::min(begin + kStopWork, from.size(-1));
      convert(from.slice(-1, begin, end), to.slice(-1, begin, end));
    }
    return;
  }
  const FloatEnvironment environment;
  visit_dtype(from.dtype(), [&]<class From>(From) {
    visit_dtype(to.dtype(), [&]<class To>(To) { convert_rows(convert_row<To, From>, from, to); });
  });
}

Tensor convert(const TensorView& from, Dtype dtype) {
  Tensor tensor = Tensor::uninitialized(from.shape(), dtype);
  convert(from, tensor);
  return tensor;
}

}  // namespace qkv
