// Attention and its derivatives on tensors of torch: all that stands between them and the library, in one call.
// Gradients are the caller's affair. Options are the keywords of attention(); their tensors may require gradients.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "call_options.h"
#include "calls.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"
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

// What becomes a tensor of torch: memory of ours, or a tensor already.
struct NewRows {
  Tensor memory{};
  nb::object tensor{};
  MutableTensorView view{};

  nb::object give() { return tensor.is_valid() ? std::move(tensor) : give_tensor(std::move(memory), view); }
};

// Row-major.
NewRows new_rows(const Dims& shape, Dtype dtype) {
  NewRows made{.memory = Tensor::uninitialized(shape, dtype)};
  made.view = made.memory.view();
  return made;
}

// The last dimension without gaps, the strides of the others in the order of those of the tensor, whose view it is, as
// torch.empty_like has them: what was split into heads is put together again without a copy.
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

NewRows new_rows_like(nb::handle tensor) { return new_rows_like(tensor, take_values(tensor, "a tensor").view); }

// Of rows that are the tensor, or a copy.
NewRows new_rows_like(nb::handle tensor, const Array& rows) {
  return rows.object.is(tensor) ? new_rows_like(tensor, rows.view) : new_rows_like(tensor);
}

// Work below this is done before another thread could have made use of the interpreter's lock.
constexpr double kTinyOperations = 1e5;

template <class Work>
void run(double operations, const Work& work) {
  if (operations < kTinyOperations) return work();
  run_released(operations, work);
}

CallOptions take_call(const nb::dict& options) {
  CallOptions call = take_options("attention", options, {}, &take_rows);
  if (!call.has_threads) call.options.threads = TorchState::get().threads();
  return call;
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
  const CallOptions call = take_call(options);
  bool wants_gradients = requires_grad(query) || requires_grad(key) || requires_grad(value);
  for (const Array& array : call.arrays) {
    if (is_floating(array.view.dtype()) && array.view.dtype() != type_of_sums(q)) return nb::none();
    if (array.kind != Kind::torch) continue;
    if (!array.object.is_valid()) return nb::none();  // a subclass
    wants_gradients = wants_gradients || requires_grad(array.object);
  }
  if (wants_gradients && torch.wants_gradients()) return nb::bool_(true);
  NewRows out = new_output(q, v, [&] { return new_rows_like(query, q); });
  run(most_operations(q, k), [&] { attention(q, k, v, out.view, call.options); });
  return out.give();
}

// Whether a call must go through torch's dispatcher, which takes longer than a small call: for a subclass, a mode, a
// transformation, a trace, autocast or forward mode, and what is not on the CPU.
bool is_watched(nb::handle tensor) {
  return !is_tensor(tensor) || !nb::object(tensor.attr("is_cpu")).is(nb::bool_(true)) || TorchState::get().is_watched();
}

// Query, key and value as many queries read them best, and the options.
struct Inputs {
  Array query, key, value;
  CallOptions call;

  Inputs(nb::handle q, nb::handle k, nb::handle v, const nb::dict& options)
      : query(take_rows(q, "query")), key(near(k, "key")), value(near(v, "value")), call(take_call(options)) {}

  double operations() const { return most_operations(query.view, key.view); }

 private:
  Array near(nb::handle tensor, std::string_view name) const {
    Array array = take_rows(tensor, name);
    if (!is_better_copied(array.view, query.view)) return array;
    return take_values(nb::object(tensor.attr("contiguous")()), name);
  }
};

// (output,) and after it the log-sum-exp and the weights: the first `count` of the three.
nb::tuple forward(nb::handle query, nb::handle key, nb::handle value, const nb::dict& options, nb::handle count) {
  const std::int64_t wanted = take_whole(count, "count");
  const Inputs inputs(query, key, value, options);
  const TensorView &q = inputs.query.view, &k = inputs.key.view;
  NewRows out = new_output(q, inputs.value.view, [&] { return new_rows_like(query, inputs.query); }), sums, weights;
  if (wanted > 1) sums = new_rows(rows_of(q), type_of_sums(q));
  if (wanted > 2) {
    Dims pairs = rows_of(q);
    pairs.push_back(k.rank() > 1 ? k.size(-2) : 0);
    weights = new_rows(pairs, type_of_sums(q));
  }
  run(inputs.operations(), [&] {
    attention(q, k, inputs.value.view, out.view, inputs.call.options,
              {.log_sum_exp = sums.view, .weights = weights.view});
  });
  nb::list results;
  results.append(out.give());
  if (wanted > 1) results.append(sums.give());
  if (wanted > 2) results.append(weights.give());
  return nb::tuple(results);
}

// What a forward pass took and gave: `saved`, the output, the log-sum-exp, query, key and value.
struct Forward : Inputs {
  Array out, log_sum_exp;

  Forward(const nb::tuple& saved, const nb::dict& options)
      : Inputs(saved[2], saved[3], saved[4], options),
        out(take_rows(saved[0], "out")),
        log_sum_exp(take_rows(saved[1], "log_sum_exp")) {}

  double operations() const { return 4 * Inputs::operations(); }
};

// Gradients in the order in which qkv.torch has its tensors: None for those that need none.
class Gradients {
 public:
  explicit Gradients(const nb::tuple& needs) : needs_(needs) {}

  template <class... Known>
  MutableTensorView place(nb::handle like, const Known&... rows) {
    NewRows& made = made_.emplace_back();
    if (take_flag(nb::object(needs_[made_.size() - 1]), "needs")) made = new_rows_like(like, rows...);
    return made.view;
  }
  nb::tuple give() {
    nb::list given;
    for (NewRows& each : made_) given.append(each.view ? each.give() : nb::object(nb::none()));
    while (nb::len(given) < nb::len(needs_)) given.append(nb::none());
    return nb::tuple(given);
  }

 private:
  nb::tuple needs_;
  std::vector<NewRows> made_{};
};

AttentionGradients place_parameters(Gradients& made, const nb::dict& options) {
  AttentionGradients places;
  const auto parts = [&](const char* keyword, const char* kind) -> nb::object {
    const nb::handle given = PyDict_GetItemString(options.ptr(), keyword);
    const nb::object found = given.is_valid() ? parts_of(given, kind) : nb::object();
    return found.is_valid() ? found : nb::object(nb::make_tuple());
  };
  if (options.contains("sinks")) places.sinks = made.place(nb::object(options["sinks"]));
  for (const nb::handle part : parts("bias", "Bias")) {
    const std::string name = take_text(nb::object(part[0]), "bias");
    auto& of_kind = name == "view" ? places.bias : name == "alibi" ? places.alibi_slopes : places.tables;
    of_kind.push_back(made.place(nb::object(nb::object(part[1])[0])));
  }
  for (const nb::handle part : parts("score", "Score")) {
    const nb::object arguments = part[1];
    const std::size_t count = nb::len(arguments);
    places.score.w_query = made.place(nb::object(arguments[0]));
    if (count > 2) places.score.w_key = made.place(nb::object(arguments[1]));
    if (count > 1) places.score.v = made.place(nb::object(arguments[count - 1]));
  }
  return places;
}

// A gradient for each of query, key, value and the tensors of the options that `needs` says True of, None for the
// others.
nb::tuple backward(nb::handle grad_out, const nb::tuple& saved, const nb::dict& options, const nb::tuple& needs) {
  const Forward forward(saved, options);
  const Array gradient = take_rows(grad_out, "grad_out");
  Gradients made(needs);
  const MutableTensorView query = made.place(nb::object(saved[2]), forward.query),
                          key = made.place(nb::object(saved[3]), forward.key),
                          value = made.place(nb::object(saved[4]), forward.value);
  AttentionGradients places = place_parameters(made, options);
  places.query = query;
  places.key = key;
  places.value = value;
  run(forward.operations(), [&] {
    attention_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                       forward.log_sum_exp.view, gradient.view, forward.call.options, places);
  });
  return made.give();
}

// The tangents of query, key and value, which may be None; keeps their arrays alive.
struct Tangents {
  std::array<Array, 3> arrays{};
  AttentionTangents views{};

  explicit Tangents(const nb::tuple& given) {
    constexpr const char* kNames[] = {"tangent_query", "tangent_key", "tangent_value"};
    TensorView* const places[] = {&views.query, &views.key, &views.value};
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (nb::object(given[i]).is_none()) continue;
      arrays[i] = take_rows(given[i], kNames[i]);
      *places[i] = arrays[i].view;
    }
  }
};

// The tangent of the output.
nb::object jvp(const nb::tuple& tangents, const nb::tuple& saved, const nb::dict& options) {
  const Forward forward(saved, options);
  const Tangents along(tangents);
  NewRows out = new_rows_like(nb::object(saved[0]));
  NewRows sums = new_rows(forward.log_sum_exp.view.shape(), forward.log_sum_exp.view.dtype());
  run_released(forward.operations(), [&] {
    attention_jvp(forward.query.view, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
                  along.views, forward.call.options, {.out = out.view, .log_sum_exp = sums.view});
  });
  return out.give();
}

// The gradients of query, key, value and grad_out.
nb::tuple double_backward(const nb::tuple& tangents, nb::handle grad_out, const nb::tuple& saved,
                          const nb::dict& options) {
  const Forward forward(saved, options);
  const Array gradient = take_rows(grad_out, "grad_out");
  const Tangents along(tangents);
  NewRows made[] = {new_rows_like(nb::object(saved[2])), new_rows_like(nb::object(saved[3])),
                    new_rows_like(nb::object(saved[4])), new_rows_like(grad_out)};
  run_released(2 * forward.operations(), [&] {
    attention_double_backward(
        forward.query.view, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
        gradient.view, along.views, forward.call.options,
        {.query = made[0].view, .key = made[1].view, .value = made[2].view, .grad_out = made[3].view});
  });
  return nb::make_tuple(made[0].give(), made[1].give(), made[2].give(), made[3].give());
}

}  // namespace

void bind_tensors(nb::module_& module) {
#define QKV_TUPLE "tuple[typing.Any, ...]"
#define QKV_OPTIONS "options: dict[str, typing.Any]"
#define QKV_TENSORS "query: Array, key: Array, value: Array, " QKV_OPTIONS
  module.def("_attend", &attend, "query"_a, "key"_a, "value"_a, "options"_a,
             nb::sig("def _attend(" QKV_TENSORS ") -> typing.Any"));
  module.def("_is_watched", &is_watched, "tensor"_a, nb::sig("def _is_watched(tensor: Array) -> bool"));
  module.def("_tensor_attention", &forward, "query"_a, "key"_a, "value"_a, "options"_a, "count"_a,
             nb::sig("def _tensor_attention(" QKV_TENSORS ", count: int) -> " QKV_TUPLE));
  module.def("_tensor_backward", &backward, "grad_out"_a, "saved"_a, "options"_a, "needs"_a,
             nb::sig("def _tensor_backward(grad_out: Array, saved: " QKV_TUPLE ", " QKV_OPTIONS
                     ", needs: tuple[bool, ...]) -> " QKV_TUPLE));
  module.def("_tensor_jvp", &jvp, "tangents"_a, "saved"_a, "options"_a,
             nb::sig("def _tensor_jvp(tangents: " QKV_TUPLE ", saved: " QKV_TUPLE ", " QKV_OPTIONS ") -> typing.Any"));
  module.def("_tensor_double_backward", &double_backward, "tangents"_a, "grad_out"_a, "saved"_a, "options"_a,
             nb::sig("def _tensor_double_backward(tangents: " QKV_TUPLE ", grad_out: Array, saved: " QKV_TUPLE
                     ", " QKV_OPTIONS ") -> " QKV_TUPLE));
#undef QKV_TUPLE
#undef QKV_OPTIONS
#undef QKV_TENSORS
}

}  // namespace qkv::python
