// Attention and its derivatives on tensors of torch, for the operators of qkv.torch: all that stands between them and
// the library, in one call. Gradients are the caller's affair.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "inputs/call_options.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "tensor_calls.h"
#include "tensor_layouts.h"
#include "values.h"

namespace qkv::python {
namespace {

nb::object from_torch(const char* name) { return nb::module_::import_("torch").attr(name); }

struct NewTensor {
  nb::object tensor;
  WritableArray array;

  explicit NewTensor(nb::object made) : tensor(std::move(made)), array(take_new(tensor)) {}
};

// Its last dimension is without gaps, the strides of the others in the order of those of `tensor`: what was split into
// heads is put together again without a copy.
NewTensor empty_like(nb::handle tensor) {
  static const nb::object& function = *new nb::object(from_torch("empty_like"));
  NewTensor made(function(tensor));
  const MutableTensorView& view = made.array.view;
  if (view.rank() == 0 || view.stride(-1) == 1) return made;
  return NewTensor(tensor.attr("new_empty")(tensor.attr("shape")));
}

// Keys or values as many queries read them best.
Array take_near(nb::handle tensor, std::string_view name, const TensorView& query) {
  Array array = take_rows(tensor, name);
  if (!is_better_copied(array.view, query)) return array;
  return take_values(nb::object(tensor.attr("contiguous")()), name);
}

std::vector<nb::object> entries(const nb::tuple& tuple, std::size_t from) {
  std::vector<nb::object> taken;
  for (std::size_t i = from; i < nb::len(tuple); ++i) taken.push_back(tuple[i]);
  return taken;
}

Dtype type_of_sums(const TensorView& query) { return query.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

// (output,) and after it the log-sum-exp and the weights, if wanted.
nb::tuple forward(nb::handle query, nb::handle key, nb::handle value, const nb::tuple& rest, const nb::tuple& plain,
                  bool log_sum_exp, bool weights, nb::handle threads) {
  const Array q = take_rows(query, "query");
  const Array k = take_near(key, "key", q.view), v = take_near(value, "value", q.view);
  CallOptions taken = take_call(plain, entries(rest, 0), take_count(threads, "threads"));
  Dims rows;
  for (int i = 0; i + 1 < q.view.rank(); ++i) rows.push_back(q.view.size(i));
  const auto of_values = [&] {
    nb::list shape;
    for (const std::int64_t extent : rows) shape.append(extent);
    shape.append(v.view.size(-1));
    return NewTensor(query.attr("new_empty")(shape));
  };
  const bool has_size_of_query = q.view.rank() == 0 || v.view.rank() == 0 || q.view.size(-1) == v.view.size(-1);
  const NewTensor out = has_size_of_query ? empty_like(query) : of_values();
  Tensor sums, probabilities;
  if (log_sum_exp) sums = Tensor::uninitialized(rows, type_of_sums(q.view));
  if (weights) {
    Dims pairs = rows;
    pairs.push_back(k.view.rank() > 1 ? k.view.size(-2) : 0);
    probabilities = Tensor::uninitialized(pairs, type_of_sums(q.view));
  }
  AttentionExtras extras;
  if (log_sum_exp) extras.log_sum_exp = sums;
  if (weights) extras.weights = probabilities;
  run_released(most_operations(q.view, k.view),
               [&] { attention(q.view, k.view, v.view, out.array.view, taken.options, extras); });
  nb::list results;
  results.append(out.tensor);
  if (log_sum_exp) results.append(give_array(std::move(sums), Kind::torch));
  if (weights) results.append(give_array(std::move(probabilities), Kind::torch));
  return nb::tuple(results);
}

// What a forward pass took and gave: `saved`, the output, the log-sum-exp, query, key, value, and `rest`.
struct Forward {
  static constexpr std::size_t kQuery = 2, kRest = 5;

  std::vector<nb::object> rest;
  Array out, log_sum_exp, query, key, value;
  CallOptions call;

  Forward(const nb::tuple& saved, const nb::tuple& plain, nb::handle threads)
      : rest(entries(saved, kRest)),
        out(take_rows(saved[0], "out")),
        log_sum_exp(take_rows(saved[1], "log_sum_exp")),
        query(take_rows(saved[kQuery], "query")),
        key(take_near(saved[kQuery + 1], "key", query.view)),
        value(take_near(saved[kQuery + 2], "value", query.view)),
        call(take_call(plain, rest, take_count(threads, "threads"))) {}

  double operations() const { return 4 * most_operations(query.view, key.view); }
};

// Places for gradients, new tensors like others.
struct Gradients {
  nb::list tensors;
  std::vector<WritableArray> arrays;

  // Of a tensor that needs none, None.
  MutableTensorView place(nb::handle like, bool needed = true) {
    if (!needed) {
      tensors.append(nb::none());
      return {};
    }
    NewTensor made = empty_like(like);
    tensors.append(made.tensor);
    return arrays.emplace_back(std::move(made.array)).view;
  }
};

// A gradient for each of query, key, value and `rest` that `needs` says True of, None for the others.
nb::tuple backward(nb::handle grad_out, const nb::tuple& saved, const nb::tuple& plain, const nb::tuple& needs,
                   nb::handle threads) {
  Forward forward(saved, plain, threads);
  const Array gradient = take_rows(grad_out, "grad_out");
  if (nb::len(needs) + Forward::kQuery != nb::len(saved)) throw TypeError("needs must have an entry for each input");
  Gradients made;
  const auto place = [&] {
    const std::size_t i = nb::len(made.tensors);
    const nb::object like = saved[i + Forward::kQuery];
    return made.place(like, take_flag(nb::object(needs[i]), "needs") && !like.is_none());
  };
  AttentionGradients gradients{.query = place(), .key = place(), .value = place()};
  if (!forward.rest.empty()) {
    gradients.sinks = place();
    for (int i = 0; i < 4; ++i) made.tensors.append(nb::none());  // mask, lengths, documents, seed
    while (nb::len(made.tensors) < nb::len(needs)) gradients.bias.push_back(place());
  }
  run_released(forward.operations(), [&] {
    attention_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                       forward.log_sum_exp.view, gradient.view, forward.call.options, gradients);
  });
  return nb::tuple(made.tensors);
}

// The tangents of query, key and value, which may be None; keeps their arrays alive.
struct Tangents {
  std::array<Array, 3> arrays{};
  AttentionTangents views{};

  explicit Tangents(const nb::tuple& given) {
    constexpr const char* kNames[] = {"tangent_query", "tangent_key", "tangent_value"};
    TensorView* const places[] = {&views.query, &views.key, &views.value};
    if (nb::len(given) != arrays.size()) throw TypeError("tangents must have 3 entries");
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      if (nb::object(given[i]).is_none()) continue;
      arrays[i] = take_rows(given[i], kNames[i]);
      *places[i] = arrays[i].view;
    }
  }
};

// The tangent of the output.
nb::object jvp(const nb::tuple& tangents, const nb::tuple& saved, const nb::tuple& plain, nb::handle threads) {
  Forward forward(saved, plain, threads);
  const Tangents along(tangents);
  const NewTensor out = empty_like(nb::object(saved[0]));
  Tensor sums = Tensor::uninitialized(forward.log_sum_exp.view.shape(), forward.log_sum_exp.view.dtype());
  run_released(forward.operations(), [&] {
    attention_jvp(forward.query.view, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
                  along.views, forward.call.options, {.out = out.array.view, .log_sum_exp = sums});
  });
  return out.tensor;
}

// The gradients of query, key, value and grad_out.
nb::tuple double_backward(const nb::tuple& tangents, nb::handle grad_out, const nb::tuple& saved,
                          const nb::tuple& plain, nb::handle threads) {
  Forward forward(saved, plain, threads);
  const Array gradient = take_rows(grad_out, "grad_out");
  const Tangents along(tangents);
  Gradients made;
  const auto place = [&](std::size_t i) { return made.place(nb::object(saved[i])); };
  const AttentionSecondGradients gradients{
      .query = place(2), .key = place(3), .value = place(4), .grad_out = made.place(grad_out)};
  run_released(2 * forward.operations(), [&] {
    attention_double_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                              forward.log_sum_exp.view, gradient.view, along.views, forward.call.options, gradients);
  });
  return nb::tuple(made.tensors);
}

}  // namespace

void bind_tensors(nb::module_& module) {
#define QKV_TUPLE "tuple[typing.Any, ...]"
  module.def("_tensor_attention", &forward, "query"_a, "key"_a, "value"_a, "rest"_a, "plain"_a, "log_sum_exp"_a,
             "weights"_a, "threads"_a,
             nb::sig("def _tensor_attention(query: Array, key: Array, value: Array, rest: " QKV_TUPLE
                     ", plain: " QKV_TUPLE ", log_sum_exp: bool, weights: bool, threads: int) -> " QKV_TUPLE));
  module.def("_tensor_backward", &backward, "grad_out"_a, "saved"_a, "plain"_a, "needs"_a, "threads"_a,
             nb::sig("def _tensor_backward(grad_out: Array, saved: " QKV_TUPLE ", plain: " QKV_TUPLE
                     ", needs: tuple[bool, ...], threads: int) -> " QKV_TUPLE));
  module.def("_tensor_jvp", &jvp, "tangents"_a, "saved"_a, "plain"_a, "threads"_a,
             nb::sig("def _tensor_jvp(tangents: " QKV_TUPLE ", saved: " QKV_TUPLE ", plain: " QKV_TUPLE
                     ", threads: int) -> typing.Any"));
  module.def("_tensor_double_backward", &double_backward, "tangents"_a, "grad_out"_a, "saved"_a, "plain"_a, "threads"_a,
             nb::sig("def _tensor_double_backward(tangents: " QKV_TUPLE ", grad_out: Array, saved: " QKV_TUPLE
                     ", plain: " QKV_TUPLE ", threads: int) -> " QKV_TUPLE));
#undef QKV_TUPLE
}

}  // namespace qkv::python
