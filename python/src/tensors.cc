// Attention and its derivatives on tensors of torch, for the operators of qkv.torch: all that stands between them and
// the library, in one call. Gradients are the caller's affair.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "call_options.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "values.h"

namespace qkv::python {
namespace {

nb::object from_torch(const char* name) { return nb::module_::import_("torch").attr(name); }

// A new tensor, its strides in the order of those of `tensor`: what was split into heads is put together again without
// a copy.
nb::object empty_like(nb::handle tensor) {
  static const nb::object& function = *new nb::object(from_torch("empty_like"));
  return function(tensor);
}

// The tensor as the library reads it: the last dimension without gaps.
Array take_rows(nb::handle tensor, std::string_view name) {
  Array array = take_values(tensor, name);
  if (array.view.rank() == 0 || array.view.stride(-1) == 1) return array;
  return take_values(nb::object(tensor.attr("contiguous")()), name);
}

// Keys or values as many queries read them best.
//
// Heads that were split from rows lie apart. From 1,024 keys on their tiles push each other out of the cache at every
// block of queries: measured, a copy then takes 0.6 to 0.75 of the time, below 512 keys more than it saves.
Array take_near(nb::handle tensor, std::string_view name, const TensorView& query) {
  constexpr std::int64_t kManyKeys = 1024, kManyQueries = 64;
  Array array = take_rows(tensor, name);
  const TensorView& view = array.view;
  const bool is_far = view.rank() > 1 && query.rank() > 1 && view.size(-2) >= kManyKeys &&
                      query.size(-2) >= kManyQueries && view.stride(-2) > view.size(-1);
  return is_far ? take_values(nb::object(tensor.attr("contiguous")()), name) : array;
}

// What an operator takes after query, key and value, but for the last ones of its own.
CallOptions take_call(const nb::tuple& call, nb::handle threads) {
  if (nb::len(call) != 12) throw TypeError("call must have 12 entries");
  const nb::object sinks = call[0], bias = call[1], mask = call[2], lengths = call[3], documents = call[4];
  const nb::object seed = call[5], causal = call[6], scale = call[9];
  CallOptions taken{.options = {.score = Score::scaled_dot(), .threads = take_count(threads, "threads")}};
  AttentionOptions& options = taken.options;
  const auto kept = [&](Array array) { return taken.arrays.emplace_back(std::move(array)).view; };
  const auto narrow = [&](const Mask& by) { options.mask = options.mask & by; };
  if (nb::len(causal) > 0) options.mask = Mask::causal(take_align(causal));
  const std::int64_t left = take_whole(call[7], "left"), right = take_whole(call[8], "right");
  if (left >= 0 || right >= 0) narrow(Mask::window(left, right));
  if (!lengths.is_none()) narrow(Mask::lengths(kept(take_integers(lengths, "lengths"))));
  if (!documents.is_none()) narrow(Mask::documents(kept(take_integers(documents, "documents"))));
  if (!mask.is_none()) narrow(Mask::boolean(kept(take_booleans(mask, "mask"))));
  if (nb::len(bias) > 0) {
    for (nb::handle each : bias) options.bias = options.bias + Bias::view(kept(take_rows(each, "bias")));
  }
  if (!sinks.is_none()) options.sinks = kept(take_rows(sinks, "sinks"));
  if (!scale.is_none()) options.scale = take_number(scale, "scale");
  options.soft_cap = take_number(call[10], "soft_cap");
  options.dropout.p = take_number(call[11], "dropout");
  if (!seed.is_none()) options.dropout.seed = take_seed(seed.attr("item")(), "seed");
  if (options.dropout.p != 0 && seed.is_none()) throw std::invalid_argument("attention: dropout needs a seed");
  return taken;
}

Dtype type_of_sums(const TensorView& query) { return query.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

// (output,) and after it the log-sum-exp and the weights, if wanted.
nb::tuple forward(nb::handle query, nb::handle key, nb::handle value, const nb::tuple& call, bool log_sum_exp,
                  bool weights, nb::handle threads) {
  const Array q = take_rows(query, "query");
  const Array k = take_near(key, "key", q.view), v = take_near(value, "value", q.view);
  CallOptions taken = take_call(call, threads);
  Dims rows;
  for (int i = 0; i + 1 < q.view.rank(); ++i) rows.push_back(q.view.size(i));
  nb::object out;
  if (q.view.rank() > 0 && v.view.rank() > 0 && q.view.size(-1) != v.view.size(-1)) {
    nb::list shape;
    for (const std::int64_t extent : rows) shape.append(extent);
    shape.append(v.view.size(-1));
    out = query.attr("new_empty")(shape);
  } else {
    out = empty_like(query);
  }
  const WritableArray to = take_new(out);
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
  run_call(taken, most_operations(q.view, k.view),
           [&](const AttentionOptions& options) { attention(q.view, k.view, v.view, to.view, options, extras); });
  nb::list results;
  results.append(out);
  if (log_sum_exp) results.append(give_array(std::move(sums), Kind::torch));
  if (weights) results.append(give_array(std::move(probabilities), Kind::torch));
  return nb::tuple(results);
}

// What every derivative takes of the forward pass.
struct Forward {
  Array query, key, value, out, log_sum_exp;
  CallOptions call;

  double operations() const { return 4 * most_operations(query.view, key.view); }
};

Forward take_forward(const nb::tuple& inputs, const nb::tuple& results, const nb::tuple& call, nb::handle threads) {
  if (nb::len(inputs) != 3 || nb::len(results) != 2) throw TypeError("inputs must have 3 entries and results 2");
  Array query = take_rows(inputs[0], "query");
  Array key = take_near(inputs[1], "key", query.view), value = take_near(inputs[2], "value", query.view);
  return {std::move(query),
          std::move(key),
          std::move(value),
          take_rows(results[0], "out"),
          take_rows(results[1], "log_sum_exp"),
          take_call(call, threads)};
}

// A gradient for each of query, key, value, sinks and the entries of bias that `needs` says True of, None for the
// others.
nb::tuple backward(nb::handle grad_out, const nb::tuple& results, const nb::tuple& inputs, const nb::tuple& call,
                   const nb::tuple& needs, nb::handle threads) {
  Forward forward = take_forward(inputs, results, call, threads);
  const Array gradient = take_rows(grad_out, "grad_out");
  const nb::object biases = call[1];
  constexpr std::size_t kBias = 4;
  if (nb::len(needs) != kBias + nb::len(biases)) throw TypeError("needs must have an entry for each gradient");
  nb::list given;
  std::vector<WritableArray> places;
  const auto place = [&](nb::handle like) {
    const bool wanted = take_flag(nb::object(needs[nb::len(given)]), "needs") && !like.is_none();
    given.append(wanted ? empty_like(like) : nb::none());
    return wanted ? places.emplace_back(take_new(given[nb::len(given) - 1])).view : MutableTensorView();
  };
  AttentionGradients gradients{
      .query = place(inputs[0]), .key = place(inputs[1]), .value = place(inputs[2]), .sinks = place(call[0])};
  for (nb::handle each : biases) gradients.bias.push_back(place(each));
  run_call(forward.call, forward.operations(), [&](const AttentionOptions& options) {
    attention_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                       forward.log_sum_exp.view, gradient.view, options, gradients);
  });
  return nb::tuple(given);
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
nb::object jvp(const nb::tuple& tangents, const nb::tuple& results, const nb::tuple& inputs, const nb::tuple& call,
               nb::handle threads) {
  Forward forward = take_forward(inputs, results, call, threads);
  const Tangents along(tangents);
  const nb::object out = empty_like(results[0]);
  const WritableArray to = take_new(out);
  Tensor sums = Tensor::uninitialized(forward.log_sum_exp.view.shape(), forward.log_sum_exp.view.dtype());
  run_call(forward.call, forward.operations(), [&](const AttentionOptions& options) {
    attention_jvp(forward.query.view, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
                  along.views, options, {.out = to.view, .log_sum_exp = sums});
  });
  return out;
}

// The gradients of query, key, value and grad_out.
nb::tuple double_backward(const nb::tuple& tangents, nb::handle grad_out, const nb::tuple& results,
                          const nb::tuple& inputs, const nb::tuple& call, nb::handle threads) {
  Forward forward = take_forward(inputs, results, call, threads);
  const Array gradient = take_rows(grad_out, "grad_out");
  const Tangents along(tangents);
  nb::list given;
  std::vector<WritableArray> places;
  const auto place = [&](nb::handle like) {
    given.append(empty_like(like));
    return places.emplace_back(take_new(given[nb::len(given) - 1])).view;
  };
  const AttentionSecondGradients gradients{
      .query = place(inputs[0]), .key = place(inputs[1]), .value = place(inputs[2]), .grad_out = place(grad_out)};
  run_call(forward.call, 2 * forward.operations(), [&](const AttentionOptions& options) {
    attention_double_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                              forward.log_sum_exp.view, gradient.view, along.views, options, gradients);
  });
  return nb::tuple(given);
}

}  // namespace

void bind_tensors(nb::module_& module) {
  module.def("_tensor_attention", &forward, "query"_a, "key"_a, "value"_a, "call"_a, "log_sum_exp"_a, "weights"_a,
             "threads"_a,
             nb::sig("def _tensor_attention(query: Array, key: Array, value: Array, call: tuple[typing.Any, ...], "
                     "log_sum_exp: bool, weights: bool, threads: int) -> tuple[typing.Any, ...]"));
  module.def("_tensor_backward", &backward, "grad_out"_a, "results"_a, "inputs"_a, "call"_a, "needs"_a, "threads"_a,
             nb::sig("def _tensor_backward(grad_out: Array, results: tuple[typing.Any, ...], inputs: "
                     "tuple[typing.Any, ...], call: tuple[typing.Any, ...], needs: tuple[bool, ...], threads: int) -> "
                     "tuple[typing.Any, ...]"));
  module.def("_tensor_jvp", &jvp, "tangents"_a, "results"_a, "inputs"_a, "call"_a, "threads"_a,
             nb::sig("def _tensor_jvp(tangents: tuple[typing.Any, ...], results: tuple[typing.Any, ...], inputs: "
                     "tuple[typing.Any, ...], call: tuple[typing.Any, ...], threads: int) -> typing.Any"));
  module.def("_tensor_double_backward", &double_backward, "tangents"_a, "grad_out"_a, "results"_a, "inputs"_a, "call"_a,
             "threads"_a,
             nb::sig("def _tensor_double_backward(tangents: tuple[typing.Any, ...], grad_out: Array, results: "
                     "tuple[typing.Any, ...], inputs: tuple[typing.Any, ...], call: tuple[typing.Any, ...], threads: "
                     "int) -> tuple[typing.Any, ...]"));
}

}  // namespace qkv::python
