// Attention on tensors of torch: all that stands between them and the library, in one call. Gradients are the caller's
// affair. Options are the keywords of attention(); their tensors may require gradients.
#include "tensors.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "call_options.h"
#include "calls.h"
#include "qkv/attention.h"
#include "values.h"

namespace qkv::python {
namespace {

// What torch says of its own state, asked without a look-up of names and without a line of Python.
class TorchState {
 public:
  // torch must be imported.
  static const TorchState& get();

  // Whether a mode, a transformation, autocast, forward mode or a trace wants to see every operation.
  bool is_watched() const;
  bool wants_gradients() const;  // torch.is_grad_enabled()
  int threads() const;           // torch.get_num_threads()

 private:
  TorchState();

  nb::object modes_, transformed_, autocast_, trace_, gradients_, threads_, forward_mode_, level_;
};

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
  return number_of(called(modes_)) > 0 || called(transformed_).ptr() == Py_True || called(autocast_).ptr() == Py_True ||
         !called(trace_).is_none() || number_of(nb::steal(PyObject_GetAttr(forward_mode_.ptr(), level_.ptr()))) >= 0;
}

bool TorchState::wants_gradients() const { return called(gradients_).ptr() == Py_True; }

int TorchState::threads() const { return static_cast<int>(number_of(called(threads_))); }

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

// Heads that were split from rows lie apart. From 1,024 keys on their tiles push each other out of the cache at every
// block of queries: measured, a copy then takes 0.6 to 0.75 of the time, below 512 keys more than it saves.
bool is_better_copied(const TensorView& keys, const TensorView& query) {
  constexpr std::int64_t kManyKeys = 1024, kManyQueries = 64;
  return keys.rank() > 1 && query.rank() > 1 && keys.size(-2) >= kManyKeys && query.size(-2) >= kManyQueries &&
         keys.stride(-2) > keys.size(-1);
}

// As new_rows_like(), of a tensor whose numbers are `view`.
NewRows strided_like(nb::handle tensor, const TensorView& view) {
  if (is_dense(view)) {
    NewRows made = new_rows(view.shape(), view.dtype());
    made.view = {made.view.bytes(), view.dtype(), view.shape(), view.strides()};
    made.has_strides = true;
    return made;
  }
  static const nb::object& function = *new nb::object(nb::module_::import_("torch").attr("empty_like"));
  NewRows made{.tensor = function(tensor)};
  made.view = take_new(made.tensor).view;
  if (made.view.rank() == 0 || made.view.stride(-1) == 1) return made;
  return new_rows(view.shape(), view.dtype());
}

Dtype type_of_sums(const TensorView& query) { return query.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

Dims rows_of(const TensorView& query) {
  Dims rows;
  for (int i = 0; i + 1 < query.rank(); ++i) rows.push_back(query.size(i));
  return rows;
}

// The output of a query: like `query`, a function, unless values have another size.
template <class Like>
NewRows new_output(const TensorView& rows, const TensorView& value, const Like& like_query) {
  if (rows.rank() == 0 || value.rank() == 0 || rows.size(-1) == value.size(-1)) return like_query();
  Dims shape = rows.shape();
  shape[rows.rank() - 1] = value.size(-1);
  return new_rows(shape, rows.dtype());
}

// Of a small call everything but the kernel is what it costs, so what most calls are is found out here: tensors of
// torch itself on the CPU, no dropout, and nobody who watches. The output; True where a gradient is wanted; None for
// any other call, which qkv.torch takes apart.
nb::object attend(nb::handle query, nb::handle key, nb::handle value, const nb::dict& options) {
  const TorchState& torch = TorchState::get();
  TensorView q, k, v;
  const auto is_plain = [](nb::handle tensor, TensorView& view) {
    return view_tensor(tensor, view) && is_floating(view.dtype()) && view.rank() > 1 && view.stride(-1) == 1;
  };
  if (torch.is_watched() || !is_plain(query, q) || !is_plain(key, k) || !is_plain(value, v) || is_better_copied(k, q) ||
      is_better_copied(v, q) || PyDict_GetItemString(options.ptr(), "dropout") != nullptr) {
    return nb::none();
  }
  const CallOptions call = take_tensor_options(options);
  bool wants_gradients = requires_grad(query) || requires_grad(key) || requires_grad(value);
  for (const Array& array : call.arrays) {
    if (is_floating(array.view.dtype()) && array.view.dtype() != type_of_sums(q)) return nb::none();
    if (array.kind != Kind::torch) continue;
    if (!array.object.is_valid()) return nb::none();  // a subclass
    wants_gradients = wants_gradients || requires_grad(array.object);
  }
  if (wants_gradients && torch.wants_gradients()) return nb::bool_(true);
  NewRows out = new_output(q, v, [&] { return strided_like(query, q); });
  run_released(most_operations(q, k), [&] { attention(q, k, v, out.view, call.options); });
  return out.give(Kind::torch);
}

// Whether a call must go through torch's dispatcher, which takes longer than a small call: for a subclass, a mode, a
// transformation, a trace, autocast or forward mode, and what is not on the CPU.
bool is_watched(nb::handle tensor) {
  return !is_tensor(tensor) || !nb::object(tensor.attr("is_cpu")).is(nb::bool_(true)) || TorchState::get().is_watched();
}

// (output,) and after it the log-sum-exp and the weights: the first `count` of the three.
nb::tuple forward(nb::handle query, nb::handle key, nb::handle value, const nb::dict& options, nb::handle count) {
  const std::int64_t wanted = take_whole(count, "count");
  const Array rows = take_rows(query, "query");
  const TensorView& q = rows.view;
  const Array keys = take_keys(key, "key", q), values = take_keys(value, "value", q);
  const CallOptions call = take_tensor_options(options);
  NewRows out = new_output(q, values.view, [&] { return new_rows_like(query, rows); }), sums, weights;
  if (wanted > 1) sums = new_rows(rows_of(q), type_of_sums(q));
  if (wanted > 2) {
    Dims pairs = rows_of(q);
    pairs.push_back(keys.view.rank() > 1 ? keys.view.size(-2) : 0);
    weights = new_rows(pairs, type_of_sums(q));
  }
  run_released(most_operations(q, keys.view), [&] {
    attention(q, keys.view, values.view, out.view, call.options, {.log_sum_exp = sums.view, .weights = weights.view});
  });
  nb::list results;
  results.append(out.give(Kind::torch));
  if (wanted > 1) results.append(sums.give(Kind::torch));
  if (wanted > 2) results.append(weights.give(Kind::torch));
  return nb::tuple(results);
}

}  // namespace

nb::object NewRows::give(Kind kind) {
  if (tensor.is_valid()) return std::move(tensor);
  return has_strides ? give_tensor(std::move(memory), view) : give_array(std::move(memory), kind);
}

NewRows new_rows(const Dims& shape, Dtype dtype) {
  NewRows made{.memory = Tensor::uninitialized(shape, dtype)};
  made.view = made.memory.view();
  return made;
}

NewRows new_rows_like(nb::handle tensor, const Array& rows) {
  return strided_like(tensor, rows.object.is(tensor) ? rows.view : take_values(tensor, "a tensor").view);
}

CallOptions take_tensor_options(const nb::dict& options) {
  Keywords keywords("attention", options, &take_rows);
  CallOptions call = take_options(keywords);
  if (call.options.threads == 0) call.options.threads = TorchState::get().threads();
  return call;
}

Array take_keys(nb::handle tensor, std::string_view name, const TensorView& query) {
  Array array = take_rows(tensor, name);
  if (!is_better_copied(array.view, query)) return array;
  return take_values(nb::object(tensor.attr("contiguous")()), name);
}

void bind_tensors(nb::module_& module) {
  Described(module)
      .def("_attend", &attend, "query"_a, "key"_a, "value"_a, "options"_a)
      .def("_is_watched", &is_watched, "tensor"_a)
      .def("_tensor_attention", &forward, "query"_a, "key"_a, "value"_a, "options"_a, "count"_a);
}

}  // namespace qkv::python
