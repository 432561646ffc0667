/// \file
/// Tensor owns elements in row-major order; views borrow them with any strides.
///
///     Tensor q = Tensor::zeros({2, 8, 10, 64});            // [batch, heads, length, size], f32
///     TensorView first = q.view().slice(0, 0, 1);          // no copy
///     float x = q.view().at<float>({1, 7, 9, 63});
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "qkv/api.h"
#include "qkv/dtype.h"

namespace qkv {

inline constexpr int kMaxRank = 16;

/// A short list of extents, strides or indices, held in place.
class QKV_API Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values);  ///< std::invalid_argument beyond kMaxRank

  int size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::int64_t& operator[](int i) { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t operator[](int i) const { return values_[static_cast<std::size_t>(i)]; }
  const std::int64_t* begin() const { return values_.data(); }
  const std::int64_t* end() const { return values_.data() + size_; }
  void push_back(std::int64_t value);
  bool operator==(const Dims& other) const;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int size_ = 0;
};

/// "[2, 8, 10, 64]", for messages.
QKV_API std::string to_string(const Dims& dims);

/// Product of the extents. std::invalid_argument if one is negative or the product exceeds 2^59.
QKV_API std::int64_t element_count(const Dims& shape);

/// Strides, in elements, of a row-major tensor of this shape.
QKV_API Dims row_major_strides(const Dims& shape);

/// Borrowed elements: address, type, shape and strides (in elements; zero and negative ones are fine for reading).
/// `Byte` is const std::byte for TensorView and std::byte for MutableTensorView.
template <class Byte>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Byte* data, Dtype dtype, const Dims& shape, const Dims& strides);
  /// Row-major elements.
  BasicView(Byte* data, Dtype dtype, const Dims& shape);
  /// A view to write is also a view to read.
  template <class Other>
    requires(std::is_const_v<Byte> && std::is_same_v<Other, std::byte>)
  BasicView(const BasicView<Other>& other)
      : data_(other.data_),
        dtype_(other.dtype_),
        given_(other.given_),
        shape_(other.shape_),
        strides_(other.strides_) {}

  /// Whether the view was given at all (a default-constructed one was not).
  explicit operator bool() const { return given_; }

  Byte* bytes() const { return data_; }
  Dtype dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  const Dims& strides() const { return strides_; }
  int rank() const { return shape_.size(); }
  /// Extent and stride of one dimension; negative i counts from the last.
  std::int64_t size(int i) const { return shape_[i < 0 ? rank() + i : i]; }
  std::int64_t stride(int i) const { return strides_[i < 0 ? rank() + i : i]; }
  std::int64_t element_count() const { return qkv::element_count(shape_); }
  bool is_row_major() const;

  /// The elements as T. std::invalid_argument unless dtype() is dtype_of<T>.
  template <class T>
  auto data() const {
    check_type(dtype_of<std::remove_const_t<T>>);
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return reinterpret_cast<Element*>(data_);
  }
  template <class T>
  auto& at(const Dims& index) const {
    return data<T>()[offset_of(index)];
  }
  /// Position of an element relative to data, in elements. std::invalid_argument if outside.
  std::int64_t offset_of(const Dims& index) const;

  /// Elements begin <= i < end of one dimension.
  BasicView slice(int dim, std::int64_t begin, std::int64_t end) const;
  /// One index of a dimension, which disappears.
  BasicView select(int dim, std::int64_t index) const;
  BasicView transpose(int first, int second) const;
  /// The same elements under another shape; std::invalid_argument unless row-major and equal in count.
  BasicView reshape(const Dims& shape) const;
  /// Extents of 1 and missing leading dimensions repeat (stride 0), as in NumPy.
  BasicView broadcast_to(const Dims& shape) const;

 private:
  void check_type(Dtype wanted) const;

  Byte* data_ = nullptr;
  Dtype dtype_ = Dtype::f32;
  bool given_ = false;
  Dims shape_;
  Dims strides_;

  template <class>
  friend class BasicView;
};

using TensorView = BasicView<const std::byte>;
using MutableTensorView = BasicView<std::byte>;

extern template class QKV_API BasicView<const std::byte>;
extern template class QKV_API BasicView<std::byte>;

/// Owned elements, row-major, aligned to 64 bytes. Moves are cheap; copies copy.
class QKV_API Tensor {
 public:
  Tensor() = default;
  static Tensor zeros(const Dims& shape, Dtype dtype = Dtype::f32);
  static Tensor uninitialized(const Dims& shape, Dtype dtype = Dtype::f32);
  /// Copies `values` (row-major); std::invalid_argument if their number does not match the shape.
  template <class T>
  static Tensor of(const Dims& shape, const std::vector<T>& values) {
    Tensor tensor = uninitialized(shape, dtype_of<T>);
    tensor.assign(values.data(), values.size(), sizeof(T));
    return tensor;
  }
  /// Row-major copy of any view.
  static Tensor copy(const TensorView& view);

  Tensor(const Tensor& other);
  Tensor& operator=(const Tensor& other);
  Tensor(Tensor&& other) noexcept = default;
  Tensor& operator=(Tensor&& other) noexcept = default;

  TensorView view() const { return {data_.get(), dtype_, shape_}; }
  MutableTensorView view() { return {data_.get(), dtype_, shape_}; }
  operator TensorView() const { return view(); }
  operator MutableTensorView() { return view(); }

  Dtype dtype() const { return dtype_; }
  const Dims& shape() const { return shape_; }
  int rank() const { return shape_.size(); }
  std::int64_t size(int i) const { return shape_[i < 0 ? rank() + i : i]; }
  std::int64_t element_count() const { return qkv::element_count(shape_); }
  template <class T>
  const T* data() const {
    return view().data<T>();
  }
  template <class T>
  T* data() {
    return view().data<T>();
  }

 private:
  void assign(const void* values, std::size_t count, std::size_t element_size);

  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
  Dtype dtype_ = Dtype::f32;
  Dims shape_{0};
};

/// Sets all elements to zero; does nothing to a view that was not given.
QKV_API void clear(const MutableTensorView& view);

/// Copies all elements, converting the type (to integers: truncation towards zero). Shapes must be equal.
QKV_API void convert(const TensorView& from, const MutableTensorView& to);
QKV_API Tensor convert(const TensorView& from, Dtype dtype);

}  // namespace qkv
