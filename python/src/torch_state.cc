// Calls torch's own functions in C.
#include "torch_state.h"

namespace qkv::python {
namespace {

namespace nb = nanobind;

nb::object called(const nb::object& function) {
  nb::object result = nb::steal(PyObject_CallNoArgs(function.ptr()));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

long number_of(const nb::object& result) {
  const long number = PyLong_AsLong(result.ptr());
  if (number == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return number;
}

}  // namespace

TorchState::TorchState() {
  const nb::object torch = nb::module_::import_("torch"), own = torch.attr("_C");
  modes_ = own.attr("_len_torch_dispatch_stack");
  transformed_ = own.attr("_are_functorch_transforms_active");
  autocast_ = own.attr("_is_any_autocast_enabled");
  trace_ = own.attr("_get_tracing_state");
  gradients_ = own.attr("is_grad_enabled");
  threads_ = own.attr("get_num_threads");
  forward_mode_ = nb::module_::import_("torch.autograd.forward_ad");
  level_ = nb::str("_current_level");
}

const TorchState& TorchState::get() {
  static const TorchState& state = *new TorchState();
  return state;
}

bool TorchState::is_watched() const {
  return number_of(called(modes_)) > 0 || called(transformed_).ptr() == Py_True || !called(trace_).is_none();
}

bool TorchState::is_changed() const {
  return is_watched() || called(autocast_).ptr() == Py_True ||
         number_of(nb::steal(PyObject_GetAttr(forward_mode_.ptr(), level_.ptr()))) >= 0;
}

bool TorchState::wants_gradients() const { return called(gradients_).ptr() == Py_True; }

int TorchState::threads() const { return static_cast<int>(number_of(called(threads_))); }

}  // namespace qkv::python
