// Attention on tensors of torch in one call, with the keywords of attention(); tensors may require gradients, which the
// caller sees to. And the derivatives, for these and other arrays: attention_backward(), attention_jvp() and
// attention_double_backward().
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "values.h"

namespace qkv::python {
namespace {

// The state of torch, read without looking up names and without running Python code.
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

// Whether the view covers every element between its first and its last one, once, and rows have no gaps.
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

// A future array: our own memory, row-major or with strides for torch, or already a tensor.
struct NewRows {
  Tensor memory{};
  nb::object tensor{};
  MutableTensorView view{};
  bool has_strides = false;

  nb::object give(Kind kind) {
    if (tensor.is_valid()) return std::move(tensor);
    return has_strides ? give_tensor(std::move(memory), view) : give_array(std::move(memory), kind);
  }
};

// Row-major.
NewRows new_rows(const Dims& shape, Dtype dtype) {
  NewRows made{.memory = Tensor::uninitialized(shape, dtype)};
  made.view = made.memory.view();
  return made;
}

// Like torch.empty_like of the tensor with this view, but without gaps in the last dimension: heads that were split
// from rows become rows again without a copy.
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

// The same for rows that are the tensor, or a copy of it.
NewRows new_rows_like(nb::handle tensor, const Array& rows) {
  return strided_like(tensor, rows.object.is(tensor) ? rows.view : take_values(tensor, "a tensor").view);
}

// The options of attention(), on as many threads as torch has unless given.
CallOptions take_tensor_options(const nb::dict& options) {
  Keywords keywords("attention", options, &take_rows);
  CallOptions call = take_options(keywords);
  if (call.options.threads == 0) call.options.threads = TorchState::get().threads();
  return call;
}

// Keys or values as these queries read them best.
Array take_keys(nb::handle tensor, std::string_view name, const TensorView& query) {
  Array array = take_rows(tensor, name);
  if (!is_better_copied(array.view, query)) return array;
  return take_values(nb::object(tensor.attr("contiguous")()), name);
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

// A small call costs little besides its overhead, so the usual case is handled here: tensors of torch itself on the
// CPU, no dropout, nothing that watches. Gives the output; True if a gradient is wanted; None for any other call, which
// qkv.torch handles.
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
// transformation, a trace, autocast or forward mode, and for other devices.
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

// The inputs and results of a forward pass.
struct Forward {
  bool of_torch;
  Array query, key, value, out, log_sum_exp;
  CallOptions call{};

  Forward(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse)
      : of_torch(false),
        query(take_dense(q, "query")),
        key(take_dense(k, "key")),
        value(take_dense(v, "value")),
        out(take_floats(o, "out")),
        log_sum_exp(take_floats(lse, "log_sum_exp")) {}

  // `saved`: out, log_sum_exp, query, key, value.
  Forward(const nb::tuple& saved, const nb::dict& options)
      : of_torch(true),
        query(take_rows(saved[2], "query")),
        key(take_keys(saved[3], "key", query.view)),
        value(take_keys(saved[4], "value", query.view)),
        out(take_rows(saved[0], "out")),
        log_sum_exp(take_rows(saved[1], "log_sum_exp")),
        call(take_tensor_options(options)) {}

  double operations() const { return 4 * most_operations(query.view, key.view); }
};

// Places for results by name, in the order of the tensors of qkv.torch, which says which of them it needs.
class Places {
 public:
  explicit Places(const Forward& forward, std::optional<nb::tuple> needs = {})
      : of_torch_(forward.of_torch), kind_(forward.query.kind), needs_(std::move(needs)) {}

  MutableTensorView add(const char* name, nb::handle like, const Array& rows, Dtype dtype) {
    NewRows& made = made_.emplace_back(name, NewRows{}).second;
    if (needs_ && !take_flag(nb::object((*needs_)[made_.size() - 1]), "needs")) return {};
    made = of_torch_ ? new_rows_like(like, rows) : new_rows(rows.view.shape(), dtype);
    return made.view;
  }
  MutableTensorView add(const char* name, nb::handle like, const Array& rows) {
    return add(name, like, rows, rows.view.dtype());
  }

  // For torch as many as `needs` has, None for those that are not needed.
  nb::tuple give() {
    nb::list given;
    for (auto& [name, rows] : made_) given.append(rows.view ? rows.give(kind_) : nb::object(nb::none()));
    while (needs_ && nb::len(given) < nb::len(*needs_)) given.append(nb::none());
    return nb::tuple(given);
  }
  // Several of a name as a tuple.
  nb::dict give_named() {
    nb::dict given;
    for (auto& [name, rows] : made_) {
      const std::string_view called = name;
      if (called != "bias" && called != "alibi_slopes" && called != "tables") {
        given[name] = rows.give(kind_);
        continue;
      }
      if (!given.contains(name)) given[name] = nb::make_tuple();
      given[name] = nb::object(given[name]) + nb::make_tuple(rows.give(kind_));
    }
    return given;
  }

 private:
  bool of_torch_;
  Kind kind_;
  std::optional<nb::tuple> needs_;
  std::vector<std::pair<const char*, NewRows>> made_{};
};

// Adds a place for each parameter of the options: sinks, biases and the parameters of a score, in their own type.
AttentionGradients place_parameters(Places& places, const nb::dict& options, Dtype query) {
  AttentionGradients gradients;
  const auto given = [&](const char* name) -> nb::handle {
    const nb::handle value = PyDict_GetItemString(options.ptr(), name);
    return value.is_valid() ? value : nb::handle(Py_None);
  };
  const auto add = [&](const char* name, nb::handle parameter) {
    const Array rows = take_values(parameter, name);
    const bool is_double = query == Dtype::f64 || rows.view.dtype() == Dtype::f64;
    return places.add(name, parameter, rows, is_double ? Dtype::f64 : Dtype::f32);
  };
  if (!given("sinks").is_none()) gradients.sinks = add("sinks", given("sinks"));
  const nb::handle bias = given("bias");
  nb::object biases = parts_of(bias, "Bias");
  if (bias.is_none()) biases = nb::make_tuple();
  if (!biases.is_valid()) biases = nb::make_tuple(nb::make_tuple("view", nb::make_tuple(bias)));
  for (const nb::handle part : biases) {
    const std::string name = take_text(nb::object(part[0]), "bias");
    auto& of_kind = name == "view" ? gradients.bias : name == "alibi" ? gradients.alibi_slopes : gradients.tables;
    const char* field = name == "view" ? "bias" : name == "alibi" ? "alibi_slopes" : "tables";
    of_kind.push_back(add(field, nb::object(nb::object(part[1])[0])));
  }
  const nb::object scores = parts_of(given("score"), "Score");
  if (!scores.is_valid()) return gradients;
  const nb::object arguments = nb::object(scores[0])[1];
  const auto parameter = [&](const char* name, std::size_t at) {
    const nb::object object = arguments[at];
    return places.add(name, object, take_values(object, name));
  };
  const std::size_t count = nb::len(arguments);
  gradients.score.w_query = parameter("w_query", 0);
  if (count > 2) gradients.score.w_key = parameter("w_key", 1);
  if (count > 1) gradients.score.v = parameter("v", count - 1);
  return gradients;
}

// Fills places for query, key and value, which are `like`, and for the parameters of these options.
void run_backward(const Forward& forward, const nb::tuple& like, const Array& grad_out, const nb::dict& parameters,
                  Places& places) {
  const MutableTensorView query = places.add("query", like[0], forward.query),
                          key = places.add("key", like[1], forward.key),
                          value = places.add("value", like[2], forward.value);
  AttentionGradients gradients = place_parameters(places, parameters, forward.query.view.dtype());
  gradients.query = query;
  gradients.key = key;
  gradients.value = value;
  run_released(forward.operations(), [&] {
    attention_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                       forward.log_sum_exp.view, grad_out.view, forward.call.options, gradients);
  });
}

nb::object array_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle log_sum_exp,
                          nb::handle grad_out, const nb::kwargs& given) {
  Forward forward(query, key, value, out, log_sum_exp);
  const Array gradient = take_floats(grad_out, "grad_out");
  bool parameters = false;
  Keywords keywords("attention_backward", given);
  keywords.read("parameters", parameters);
  forward.call = take_options(keywords);
  Places places(forward);
  run_backward(forward, nb::make_tuple(query, key, value), gradient, parameters ? nb::dict(given) : nb::dict(), places);
  return result_of("AttentionGradients")(**places.give_named());
}

nb::tuple tensor_backward(nb::handle grad_out, const nb::tuple& saved, const nb::dict& options,
                          const nb::tuple& needs) {
  const Forward forward(saved, options);
  Places places(forward, needs);
  run_backward(forward, nb::make_tuple(saved[2], saved[3], saved[4]), take_rows(grad_out, "grad_out"), options, places);
  return places.give();
}

// The tangents of query, key and value.
struct Tangents {
  std::vector<Array> arrays{};
  AttentionTangents views{};

  static constexpr std::pair<const char*, TensorView AttentionTangents::*> kNames[] = {
      {"tangent_query", &AttentionTangents::query},
      {"tangent_key", &AttentionTangents::key},
      {"tangent_value", &AttentionTangents::value}};

  explicit Tangents(Keywords& keywords) {
    for (const auto& [name, place] : kNames) keywords.read_floats(name, views.*place);
  }
  // Any of the three may be None.
  explicit Tangents(const nb::tuple& given) {
    for (std::size_t i = 0; i < nb::len(given); ++i) {
      if (nb::object(given[i]).is_none()) continue;
      views.*kNames[i].second = arrays.emplace_back(take_rows(given[i], kNames[i].first)).view;
    }
  }
};

nb::tuple run_jvp(const Forward& forward, nb::handle out, nb::handle log_sum_exp, const Tangents& along) {
  Places places(forward);
  const AttentionOutputTangents tangents{.out = places.add("out", out, forward.out),
                                         .log_sum_exp = places.add("log_sum_exp", log_sum_exp, forward.log_sum_exp)};
  run_released(forward.operations(), [&] {
    attention_jvp(forward.query.view, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
                  along.views, forward.call.options, tangents);
  });
  return places.give();
}

nb::tuple array_jvp(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle log_sum_exp,
                    const nb::kwargs& given) {
  Forward forward(query, key, value, out, log_sum_exp);
  Keywords keywords("attention_jvp", given);
  const Tangents along(keywords);
  forward.call = take_options(keywords);
  return run_jvp(forward, out, log_sum_exp, along);
}

nb::object tensor_jvp(const nb::tuple& tangents, const nb::tuple& saved, const nb::dict& options) {
  return run_jvp(Forward(saved, options), saved[0], saved[1], Tangents(tangents))[0];
}

nb::tuple run_double_backward(const Forward& forward, const nb::tuple& like, nb::handle grad_out, const Array& gradient,
                              const Tangents& along) {
  Places places(forward);
  const AttentionSecondGradients gradients{.query = places.add("query", like[0], forward.query),
                                           .key = places.add("key", like[1], forward.key),
                                           .value = places.add("value", like[2], forward.value),
                                           .grad_out = places.add("grad_out", grad_out, gradient)};
  run_released(2 * forward.operations(), [&] {
    attention_double_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                              forward.log_sum_exp.view, gradient.view, along.views, forward.call.options, gradients);
  });
  return places.give();
}

nb::tuple array_double_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out,
                                nb::handle log_sum_exp, nb::handle grad_out, const nb::kwargs& given) {
  Forward forward(query, key, value, out, log_sum_exp);
  const Array gradient = take_floats(grad_out, "grad_out");
  Keywords keywords("attention_double_backward", given);
  const Tangents along(keywords);
  forward.call = take_options(keywords);
  return run_double_backward(forward, nb::make_tuple(query, key, value), grad_out, gradient, along);
}

nb::tuple tensor_double_backward(const nb::tuple& tangents, nb::handle grad_out, const nb::tuple& saved,
                                 const nb::dict& options) {
  return run_double_backward(Forward(saved, options), nb::make_tuple(saved[2], saved[3], saved[4]), grad_out,
                             take_rows(grad_out, "grad_out"), Tangents(tangents));
}

}  // namespace

void bind_tensors(nb::module_& module) {
  Described(module)
      .def("_attend", &attend, "query"_a, "key"_a, "value"_a, "options"_a)
      .def("_is_watched", &is_watched, "tensor"_a)
      .def("_tensor_attention", &forward, "query"_a, "key"_a, "value"_a, "options"_a, "count"_a)
      .def("attention_backward", &array_backward, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a, "grad_out"_a,
           "keywords"_a)
      .def("attention_jvp", &array_jvp, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a, "keywords"_a)
      .def("attention_double_backward", &array_double_backward, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a,
           "grad_out"_a, "keywords"_a)
      .def("_tensor_backward", &tensor_backward, "grad_out"_a, "saved"_a, "options"_a, "needs"_a)
      .def("_tensor_jvp", &tensor_jvp, "tangents"_a, "saved"_a, "options"_a)
      .def("_tensor_double_backward", &tensor_double_backward, "tangents"_a, "grad_out"_a, "saved"_a, "options"_a);
}

}  // namespace qkv::python
