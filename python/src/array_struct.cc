// Reads the structure behind `__array_struct__`.
#include "array_struct.h"

#include <optional>

#include "arrays.h"

namespace qkv::python {
namespace {

constexpr int kNative = 0x200, kWritable = 0x400;  // flags

struct ArrayStruct {
  int version;  // 2, for a check
  int rank;
  char kind;
  int item_size;
  int flags;
  const Py_ssize_t *shape, *strides;  // strides in bytes
  void* data;
};

std::optional<Dtype> dtype_of(const ArrayStruct& array) {
  using Code = nb::dlpack::dtype_code;
  const auto sized = [&](Code code) {
    return dtype_of_dlpack({static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(8 * array.item_size), 1});
  };
  switch (array.kind) {
    case 'f':
      return array.item_size <= 8 ? sized(Code::Float) : std::nullopt;
    case 'i':
      return sized(Code::Int);
    case 'u':
      return sized(Code::UInt);
    case 'b':
      return sized(Code::Bool);
    default:
      return std::nullopt;
  }
}

template <class View>
bool view_of(nb::handle object, int needed, View& view) {
  static const nb::str& name = *new nb::str("__array_struct__");
  const nb::object capsule = nb::steal(PyObject_GetAttr(object.ptr(), name.ptr()));
  const auto* array =
      capsule.is_valid() ? static_cast<ArrayStruct*>(PyCapsule_GetPointer(capsule.ptr(), nullptr)) : nullptr;
  if (!array) PyErr_Clear();
  if (!array || array->version != 2 || (array->flags & needed) != needed || array->rank > kMaxRank) return false;
  const std::optional<Dtype> dtype = dtype_of(*array);
  if (!dtype) return false;
  Dims shape, strides;
  for (int i = 0; i < array->rank; ++i) {
    if (array->strides[i] % array->item_size != 0) return false;
    shape.push_back(array->shape[i]);
    strides.push_back(array->strides[i] / array->item_size);
  }
  view = {static_cast<std::byte*>(array->data), *dtype, shape, strides};
  return true;
}

}  // namespace

bool view_numpy(nb::handle object, TensorView& view) { return view_of(object, kNative, view); }
bool view_numpy(nb::handle object, MutableTensorView& view) { return view_of(object, kNative | kWritable, view); }

}  // namespace qkv::python
