// Imports arrays by nb::ndarray; tensors of torch without calling Python, by the C functions of
// `__dlpack_c_exchange_api__` (DLPack 1, torch from 2.10); bf16 of NumPy as 16-bit integers of the same memory.
#include "arrays.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "arguments.h"

namespace qkv::python {
namespace {

constexpr int kCpu = 1;  // DLPack's kDLCPU

using Code = nb::dlpack::dtype_code;

constexpr std::tuple<Code, int, Dtype> kTypes[] = {
    {Code::Float, 32, Dtype::f32},   {Code::Float, 64, Dtype::f64},   {Code::Float, 16, Dtype::f16},
    {Code::Bfloat, 16, Dtype::bf16}, {Code::Bool, 8, Dtype::boolean}, {Code::Int, 8, Dtype::i8},
    {Code::Int, 16, Dtype::i16},     {Code::Int, 32, Dtype::i32},     {Code::Int, 64, Dtype::i64},
    {Code::UInt, 8, Dtype::u8},      {Code::UInt, 16, Dtype::u16},    {Code::UInt, 32, Dtype::u32},
    {Code::UInt, 64, Dtype::u64}};

std::optional<Dtype> dtype_of_dlpack(nb::dlpack::dtype type) {
  for (const auto& [code, bits, dtype] : kTypes) {
    if (type.lanes == 1 && type.code == static_cast<std::uint8_t>(code) && type.bits == bits) return dtype;
  }
  return std::nullopt;
}

nb::dlpack::dtype dlpack_of(Dtype wanted) {
  for (const auto& [code, bits, dtype] : kTypes) {
    if (dtype == wanted) return {static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  }
  return {};
}

struct Version {
  std::uint32_t major, minor;
};
struct ManagedTensor {
  Version version;
  void* context;
  void (*deleter)(ManagedTensor*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};
// The C functions of a type of arrays.
struct Exchange {
  Version version;
  const Exchange* earlier;
  void* allocate;
  void* managed_from_object;
  int (*managed_to_object)(ManagedTensor*, void**);
  int (*tensor_from_object)(void*, nb::dlpack::dltensor*);
  void* current_stream;
};

// Lives as long as the process; nullptr: not this interface.
const Exchange* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  constexpr const char* kName = "dlpack_exchange_api";
  if (!PyCapsule_IsValid(capsule.ptr(), kName)) return nullptr;
  const auto* exchange = static_cast<const Exchange*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  while (exchange && exchange->version.major != nb::dlpack::major_version) exchange = exchange->earlier;
  return exchange && exchange->tensor_from_object && exchange->managed_to_object ? exchange : nullptr;
}

// Not set if the object is on another device or of a type that qkv lacks.
bool view_by(const Exchange& exchange, nb::handle object, MutableTensorView& view) {
  nb::dlpack::dltensor tensor;
  if (exchange.tensor_from_object(object.ptr(), &tensor) != 0) {
    PyErr_Clear();  // the caller says what it wanted
    return false;
  }
  const std::optional<Dtype> dtype = dtype_of_dlpack(tensor.dtype);
  if (!dtype || tensor.device.device_type != kCpu || tensor.ndim > kMaxRank) return false;
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  view = {static_cast<std::byte*>(tensor.data) + tensor.byte_offset, *dtype,
          Dims(std::span<const std::int64_t>(tensor.shape, rank)),
          Dims(std::span<const std::int64_t>(tensor.strides, rank))};
  return true;
}

// A tensor of ours on its way to another owner.
struct Given {
  Tensor kept;
  std::array<std::int64_t, kMaxRank> shape{}, strides{};
  ManagedTensor managed{};
};

std::string module_of(nb::handle type) {
  const nb::object module = nb::getattr(type, "__module__", nb::none());
  return nb::isinstance<nb::str>(module) ? nb::cast<std::string>(module) : std::string();
}

bool is_masked(nb::handle type) {
  const nb::object modules = nb::module_::import_("sys").attr("modules");
  const nb::object masked = modules.attr("get")("numpy.ma");
  return !masked.is_none() && PyObject_IsSubclass(type.ptr(), nb::object(masked.attr("MaskedArray")).ptr()) == 1;
}

// Not set if the type is no type of arrays.
std::optional<Kind> kind_of_type(nb::handle type) {
  if (!nb::hasattr(type, "__dlpack__") || is_masked(type)) return std::nullopt;
  for (nb::handle base : nb::cast<nb::tuple>(nb::object(type.attr("__mro__")))) {
    const std::string module = module_of(base);
    const std::string_view package = std::string_view(module).substr(0, module.find('.'));
    if (package == "numpy") return Kind::numpy;
    if (package == "torch") return Kind::torch;
    if (package == "jax" || package == "jaxlib") return Kind::jax;
  }
  return Kind::other;
}

// The package of a type of arrays, and its C functions.
struct TypeOfArrays {
  std::optional<Kind> kind{};
  const Exchange* exchange = nullptr;
};

const Exchange* exchange_of_torch = nullptr;  // once a tensor of torch has been seen

TypeOfArrays look_at_type(nb::handle type) {
  TypeOfArrays found{.kind = kind_of_type(type)};
  const std::string module = module_of(type);
  // Subclasses may have no memory of their own, such as fake tensors.
  if (module == "torch" || module == "torch.nn.parameter") {
    exchange_of_torch = found.exchange = exchange_of(type);
  }
  return found;
}

// Types are few and live long: each is looked at once and kept.
const TypeOfArrays& type_of(nb::handle object) {
  static auto& known = *new std::unordered_map<PyObject*, TypeOfArrays>();
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  if (const auto found = known.find(type); found != known.end()) return found->second;
  const TypeOfArrays looked_at = look_at_type(type);
  static const TypeOfArrays none;
  if (!looked_at.kind) return none;
  Py_INCREF(type);
  return known.emplace(type, looked_at).first->second;
}

// The dtype of an object, else its type, for messages.
std::string described(nb::handle object) {
  const nb::object dtype = PyType_Check(object.ptr()) ? nb::none() : nb::getattr(object, "dtype", nb::none());
  if (dtype.is_none()) return name_of_type(object);
  return fmt::format("{} of {}", name_of_type(object), nb::cast<std::string>(nb::str(dtype)));
}

bool is_bfloat16(nb::handle object) {
  const nb::object dtype = nb::getattr(object, "dtype", nb::none());
  return !dtype.is_none() && nb::cast<std::string>(nb::str(dtype)) == "bfloat16";
}

bool is_elsewhere(nb::handle object) {
  try {
    const nb::object device = nb::getattr(object, "__dlpack_device__", nb::none());
    return !device.is_none() && nb::cast<int>(nb::object(device()[0])) != kCpu;
  } catch (const std::exception&) {  // DLPack does not know where it is
    return type_of(object).kind == Kind::torch &&
           nb::cast<std::string>(nb::str(nb::object(object.attr("device")))) != "cpu";
  }
}

// Under jax.jit, jax.grad and their kin.
bool is_traced(nb::handle object) {
  const nb::object modules = nb::module_::import_("sys").attr("modules"), jax = modules.attr("get")("jax");
  return !jax.is_none() && nb::isinstance(object, nb::object(jax.attr("core").attr("Tracer")));
}

[[noreturn]] void refuse_layout(std::string_view name) {
  throw TypeError(fmt::format("{} is a sparse or lazily negated tensor; make it dense", name));
}

[[noreturn]] void refuse_object(nb::handle object, std::string_view name) {
  if (type_of(object).kind == Kind::torch && nb::cast<bool>(object.attr("is_sparse"))) refuse_layout(name);
  if (is_traced(object)) {
    throw TypeError(
        fmt::format("{} is traced by JAX, which knows no rule for qkv; call it by jax.pure_callback", name));
  }
  if (is_elsewhere(object)) throw TypeError(fmt::format("{} is on another device; move it to the CPU first", name));
  throw TypeError(fmt::format(
      "{} must be an array of NumPy, or one with __dlpack__ on the CPU, of native floats, integers or bools; "
      "got {}",
      name, described(object)));
}

// Whether a tensor of torch has other numbers than its memory.
bool is_lazily_negated(nb::handle tensor) {
  static const nb::object& is_neg = *new nb::object(nb::module_::import_("torch").attr("Tensor").attr("is_neg"));
  return is_neg(tensor).is(nb::bool_(true));
}

// The type of an array that can be imported, except that it may require grad.
const TypeOfArrays& require_array(nb::handle object, std::string_view name) {
  const TypeOfArrays& type = type_of(object);
  if (!type.kind) {
    if (nb::hasattr(object, "mask") && nb::hasattr(object, "__dlpack__")) {
      throw TypeError(fmt::format("{} is a masked array; pass its data, and the mask as qkv.Mask.boolean()", name));
    }
    refuse_object(object, name);
  }
  if (type.kind == Kind::torch && is_lazily_negated(object)) refuse_layout(name);
  return type;
}

template <class View, class Imported>
View view_of(const Imported& array, Dtype dtype) {
  const auto rank = array.ndim();
  const Dims shape(std::span(array.shape_ptr(), rank)), strides(std::span(array.stride_ptr(), rank));
  auto* data = static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(array.data())));
  return {data, dtype, shape, strides};
}

// Imports the object, or for bf16 of NumPy the same memory as integers.
template <class Imported>
bool import(nb::handle object, const TypeOfArrays& type, Imported& to) {
  if (type.exchange) {
    MutableTensorView view;
    if (!view_by(*type.exchange, object, view)) return false;
    to.view = view;
    to.object = nb::borrow(object);
    return true;
  }
  std::optional<Dtype> dtype;
  if (nb::try_cast(object, to.owner, false)) {
    dtype = dtype_of_dlpack(to.owner.dtype());
  } else if (type.kind == Kind::numpy && is_bfloat16(object)) {
    if (!nb::try_cast(nb::object(object.attr("view")("uint16")), to.owner, false)) return false;
    dtype = Dtype::bf16;
  }
  if (!dtype || to.owner.device_type() != kCpu) return false;
  to.view = view_of<decltype(to.view)>(to.owner, *dtype);
  return true;
}

void require_aligned(const TensorView& view, std::string_view name) {
  if (reinterpret_cast<std::uintptr_t>(view.bytes()) % size_of(view.dtype()) != 0) {
    throw std::invalid_argument(fmt::format("{} does not begin at a multiple of its elements' size; copy it", name));
  }
}

Array imported(nb::handle object, const TypeOfArrays& type, std::string_view name) {
  Array array{.kind = *type.kind};
  if (!import(object, type, array)) refuse_object(object, name);
  require_aligned(array.view, name);
  return array;
}

void require_no_grad(nb::handle object, const TypeOfArrays& type, std::string_view name) {
  if (type.kind == Kind::torch && requires_grad(object)) {
    throw TypeError(fmt::format("{} requires grad, which would be lost here; detach() it", name));
  }
}

Array require_type(Array array, nb::handle object, std::string_view name, bool fits, const char* wanted) {
  if (!fits) throw TypeError(fmt::format("{} must be {}, got {}", name, wanted, described(object)));
  return array;
}

Array require_floats(Array array, nb::handle object, std::string_view name) {
  const bool fits = is_floating(array.view.dtype());
  return require_type(std::move(array), object, name, fits, "float32, float64, bfloat16 or float16");
}

}  // namespace

bool requires_grad(nb::handle tensor) {
  static const nb::str& name = *new nb::str("requires_grad");
  const nb::object value = nb::steal(PyObject_GetAttr(tensor.ptr(), name.ptr()));
  if (!value.is_valid()) throw nb::python_error();
  return value.is(nb::bool_(true));
}

bool is_tensor(nb::handle object) { return type_of(object).exchange != nullptr; }

bool view_tensor(nb::handle object, TensorView& view) {
  const TypeOfArrays& type = type_of(object);
  MutableTensorView found;
  if (type.exchange == nullptr || is_lazily_negated(object) || !view_by(*type.exchange, object, found)) return false;
  view = found;
  return true;
}

Array take_array(nb::handle object, std::string_view name) {
  const TypeOfArrays& type = require_array(object, name);
  require_no_grad(object, type, name);
  return imported(object, type, name);
}

Array take_floats(nb::handle object, std::string_view name) {
  return require_floats(take_array(object, name), object, name);
}

Array take_dense(nb::handle object, std::string_view name) {
  Array array = take_floats(object, name);
  const TensorView& view = array.view;
  if (view.rank() > 0 && view.size(-1) > 1 && view.stride(-1) != 1 && view.element_count() > 0) {
    const bool is_torch = array.kind == Kind::torch;
    const auto copy =
        is_torch ? fmt::format("{}.contiguous()", name) : fmt::format("numpy.ascontiguousarray({})", name);
    throw std::invalid_argument(
        fmt::format("{} has stride {} in its last dimension; it must be 1, as in {}", name, view.stride(-1), copy));
  }
  return array;
}

Array take_values(nb::handle object, std::string_view name) {
  const TypeOfArrays& type = require_array(object, name);
  const bool is_itself = type.exchange || type.kind != Kind::torch;
  const nb::object values = is_itself ? nb::borrow(object) : nb::object(object.attr("detach")());
  return require_floats(imported(values, type, name), object, name);
}

nb::object array_of(nb::handle object, std::string_view name) {
  if (!is_list(object)) return nb::borrow(object);
  try {
    const nb::module_ numpy = nb::module_::import_("numpy");
    const nb::object array = numpy.attr("asarray")(object), narrow = array.attr("astype")("int32");
    const bool is_whole = nb::cast<bool>(numpy.attr("issubdtype")(array.attr("dtype"), numpy.attr("integer")));
    const bool fits = is_whole && nb::cast<bool>(numpy.attr("array_equal")(array, narrow));
    return fits ? narrow : array;
  } catch (nb::python_error&) {  // rows of different lengths, texts
    refuse_type(object, name, "whole numbers or bools, in rows of one length");
  }
}

Array take_rows(nb::handle object, std::string_view name) {
  Array array = take_values(object, name);
  if (array.view.rank() == 0 || array.view.stride(-1) == 1 || array.kind != Kind::torch) return array;
  return take_values(nb::object(object.attr("contiguous")()), name);
}

Array take_integers(nb::handle given, std::string_view name) {
  const nb::object object = array_of(given, name);
  Array array = take_array(object, name);
  const bool fits = array.view.dtype() == Dtype::i32 || array.view.dtype() == Dtype::i64;
  return require_type(std::move(array), object, name, fits, "int32 or int64");
}

Array take_booleans(nb::handle given, std::string_view name) {
  const nb::object object = array_of(given, name);
  Array array = take_array(object, name);
  const bool fits = array.view.dtype() == Dtype::boolean || array.view.dtype() == Dtype::u8;
  return require_type(std::move(array), object, name, fits, "bool or uint8");
}

WritableArray take_new(const nb::object& object) {
  WritableArray array;
  if (!import(object, type_of(object), array)) throw std::invalid_argument("a new array cannot be written");
  return array;
}

WritableArray take_writable(nb::handle object, std::string_view name) {
  const TypeOfArrays& type = require_array(object, name);
  require_no_grad(object, type, name);
  WritableArray array;
  if (type.kind != Kind::jax && import(object, type, array)) {  // arrays of JAX never change
    require_aligned(array.view, name);
    return array;
  }
  take_array(object, name);  // refuses what is no array
  throw std::invalid_argument(fmt::format("{} is read-only", name));
}

nb::object result_of(const char* name) { return nb::module_::import_("qkv.results").attr(name); }

nb::object give_tensor(Tensor tensor, const MutableTensorView& view) {
  auto given = std::make_unique<Given>(std::move(tensor));
  for (int i = 0; i < view.rank(); ++i) {
    given->shape[static_cast<std::size_t>(i)] = view.size(i);
    given->strides[static_cast<std::size_t>(i)] = view.stride(i);
  }
  given->managed = {.version = {nb::dlpack::major_version, 0},
                    .context = given.get(),
                    .deleter = [](ManagedTensor* self) { delete static_cast<Given*>(self->context); },
                    .flags = 0,
                    .tensor = {.data = view.bytes(),
                               .device = {kCpu, 0},
                               .ndim = view.rank(),
                               .dtype = dlpack_of(view.dtype()),
                               .shape = given->shape.data(),
                               .strides = given->strides.data(),
                               .byte_offset = 0}};
  void* object = nullptr;
  if (exchange_of_torch->managed_to_object(&given->managed, &object) != 0) throw nb::python_error();
  given.release();  // the tensor owns it
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object give_array(Tensor tensor, Kind kind) {
  if (kind == Kind::torch && exchange_of_torch) {
    const MutableTensorView view = tensor;
    return give_tensor(std::move(tensor), view);
  }
  const Dtype dtype = tensor.dtype();
  std::size_t shape[kMaxRank];
  for (int i = 0; i < tensor.rank(); ++i) shape[i] = static_cast<std::size_t>(tensor.size(i));
  const auto rank = static_cast<std::size_t>(tensor.rank());
  auto kept = std::make_unique<Tensor>(std::move(tensor));
  void* data = MutableTensorView(*kept).bytes();
  const nb::capsule owner(kept.release(), [](void* object) noexcept { delete static_cast<Tensor*>(object); });
  const auto as = [&]<class Framework>(Framework, nb::dlpack::dtype type) {
    return nb::cast(nb::ndarray<Framework>(data, rank, shape, owner, nullptr, type));
  };
  switch (kind) {
    case Kind::numpy:
      if (dtype == Dtype::bf16) {
        return as(nb::numpy(), dlpack_of(Dtype::u16)).attr("view")(nb::module_::import_("ml_dtypes").attr("bfloat16"));
      }
      return as(nb::numpy(), dlpack_of(dtype));
    case Kind::torch:
      return as(nb::pytorch(), dlpack_of(dtype));
    case Kind::jax:
      return as(nb::jax(), dlpack_of(dtype));
    case Kind::other:
      return as(nb::array_api(), dlpack_of(dtype));
  }
  return nb::none();
}

}  // namespace qkv::python
