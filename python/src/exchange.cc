// The layouts of DLPack 1 and the functions that a framework offers behind `__dlpack_c_exchange_api__`.
#include "exchange.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "arrays.h"

namespace qkv::python {
namespace {

constexpr std::uint32_t kMajorVersion = 1;
constexpr std::int32_t kCpuDevice = 1;

struct Version {
  std::uint32_t major, minor;
};
struct Device {
  std::int32_t type, id;
};
struct DlTensor {
  void* data;
  Device device;
  std::int32_t rank;
  nb::dlpack::dtype dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor*);
  std::uint64_t flags;
  DlTensor tensor;
};

// A tensor of ours on its way to another owner.
struct Given {
  Given(Tensor tensor, const MutableTensorView& view) : kept(std::move(tensor)) {
    for (int i = 0; i < view.rank(); ++i) {
      shape[static_cast<std::size_t>(i)] = view.size(i);
      strides[static_cast<std::size_t>(i)] = view.stride(i);
    }
    managed = {.version = {kMajorVersion, 0},
               .context = this,
               .deleter = [](ManagedTensor* self) { delete static_cast<Given*>(self->context); },
               .flags = 0,
               .tensor = {.data = view.bytes(),
                          .device = {kCpuDevice, 0},
                          .rank = view.rank(),
                          .dtype = dlpack_of(view.dtype()),
                          .shape = shape.data(),
                          .strides = strides.data(),
                          .byte_offset = 0}};
  }

  Tensor kept;
  std::array<std::int64_t, kMaxRank> shape{}, strides{};
  ManagedTensor managed{};
};

}  // namespace

struct Exchange::Functions {
  Version version;
  Functions* earlier;
  void* allocate;
  void* managed_from_object;
  int (*managed_to_object)(ManagedTensor*, void**);
  int (*tensor_from_object)(void*, DlTensor*);
  void* current_stream;
};

const Exchange* Exchange::of_type(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  constexpr const char* kName = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), kName)) return nullptr;
  const auto* functions = static_cast<const Functions*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (functions && functions->version.major != kMajorVersion) functions = functions->earlier;
  if (!functions || !functions->tensor_from_object || !functions->managed_to_object) return nullptr;
  return new Exchange(functions);
}

bool Exchange::view(nb::handle object, MutableTensorView& view) const {
  DlTensor tensor{};
  if (functions_->tensor_from_object(object.ptr(), &tensor) != 0) {
    PyErr_Clear();  // the caller says what it wanted
    return false;
  }
  const std::optional<Dtype> dtype = dtype_of_dlpack(tensor.dtype);
  if (!dtype || tensor.device.type != kCpuDevice || tensor.rank > kMaxRank) return false;
  const auto rank = static_cast<std::size_t>(tensor.rank);
  auto* data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const Dims shape{std::span<const std::int64_t>(tensor.shape, rank)};
  const Dims strides{std::span<const std::int64_t>(tensor.strides, rank)};
  view = {data, *dtype, shape, strides};
  return true;
}

nb::object Exchange::give(Tensor tensor, const MutableTensorView& view) const {
  auto given = std::make_unique<Given>(std::move(tensor), view);
  void* object = nullptr;
  if (functions_->managed_to_object(&given->managed, &object) != 0) throw nb::python_error();
  given.release();  // the array owns it
  return nb::steal(static_cast<PyObject*>(object));
}

}  // namespace qkv::python
