// attention_backward(), attention_jvp() and attention_double_backward().
#include <fmt/format.h>

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "call_options.h"
#include "calls.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"

namespace qkv::python {
namespace {

// What a forward pass took and gave.
struct Forward {
  Array query, key, value, out, log_sum_exp;

  Forward(nb::handle q, nb::handle k, nb::handle v, nb::handle o, nb::handle lse)
      : query(take_dense(q, "query")),
        key(take_dense(k, "key")),
        value(take_dense(v, "value")),
        out(take_floats(o, "out")),
        log_sum_exp(take_floats(lse, "log_sum_exp")) {}

  double operations() const { return 4 * most_operations(query.view, key.view); }
};

// Places for results, handed over in the order of their names.
struct Results {
  std::deque<Tensor> tensors;

  MutableTensorView like(const TensorView& view) { return like(view, view.dtype()); }
  MutableTensorView like(const TensorView& view, Dtype dtype) {
    return tensors.emplace_back(Tensor::uninitialized(view.shape(), dtype)).view();
  }

  nb::tuple give(Kind kind) {
    nb::list given;
    for (Tensor& tensor : tensors) given.append(give_array(std::move(tensor), kind));
    return nb::tuple(given);
  }
};

Dtype parameter_type(const TensorView& parameter, const TensorView& query) {
  return query.dtype() == Dtype::f64 || parameter.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
}

nb::object backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle log_sum_exp,
                    nb::handle grad_out, const nb::kwargs& keywords) {
  const Forward forward(query, key, value, out, log_sum_exp);
  const Array gradient = take_floats(grad_out, "grad_out");
  bool parameters = false;
  const CallOptions call = take_options("attention_backward", keywords, [&](std::string_view name, nb::handle given) {
    if (name == "parameters") parameters = take_flag(given, name);
    return name == "parameters";
  });
  const AttentionOptions& options = call.options;
  const TensorView& q = forward.query.view;
  Results results;
  // What becomes an argument of AttentionGradients, by name: one place, or a tuple of several.
  std::vector<std::pair<const char*, std::size_t>> single, listed;
  AttentionGradients gradients;
  const auto one = [&](const char* name, MutableTensorView& into, const TensorView& view, Dtype dtype) {
    if (!view) return;
    single.emplace_back(name, results.tensors.size());
    into = results.like(view, dtype);
  };
  const auto list = [&](const char* name, std::vector<MutableTensorView>& into, const auto& views) {
    for (const TensorView& view : views) {
      listed.emplace_back(name, results.tensors.size());
      into.push_back(results.like(view, parameter_type(view, q)));
    }
  };
  one("query", gradients.query, q, q.dtype());
  one("key", gradients.key, forward.key.view, q.dtype());
  one("value", gradients.value, forward.value.view, q.dtype());
  if (parameters) {
    std::vector<TensorView> tables;
    for (const RelativeTable& table : options.bias.tables()) tables.push_back(table.values());
    list("bias", gradients.bias, options.bias.views());
    list("alibi_slopes", gradients.alibi_slopes, options.bias.alibi_slopes());
    list("tables", gradients.tables, tables);
    if (options.sinks) one("sinks", gradients.sinks, options.sinks, parameter_type(options.sinks, q));
    const Score& score = options.score;
    one("w_query", gradients.score.w_query, score.w_query(), score.w_query().dtype());
    one("w_key", gradients.score.w_key, score.w_key(), score.w_key().dtype());
    one("v", gradients.score.v, score.v(), score.v().dtype());
  }
  run_released(forward.operations(), [&] {
    attention_backward(q, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
                       gradient.view, options, gradients);
  });
  const auto give = [&](std::size_t at) { return give_array(std::move(results.tensors[at]), forward.query.kind); };
  nb::dict given;
  for (const auto& [name, at] : single) given[name] = give(at);
  for (const auto& [name, at] : listed) {
    if (!given.contains(name)) given[name] = nb::make_tuple();
    given[name] = nb::object(given[name]) + nb::make_tuple(give(at));
  }
  return result_of("AttentionGradients")(**given);
}

// Runs `work` along the keywords tangent_query, tangent_key and tangent_value, with the options that the others name.
void run_along(const char* function, const nb::kwargs& keywords, double operations,
               const std::function<void(const AttentionTangents&, const AttentionOptions&)>& work) {
  std::vector<Array> arrays;
  AttentionTangents tangents;
  const std::pair<std::string_view, TensorView*> places[] = {
      {"tangent_query", &tangents.query}, {"tangent_key", &tangents.key}, {"tangent_value", &tangents.value}};
  CallOptions call = take_options(function, keywords, [&](std::string_view name, nb::handle given) {
    for (const auto& [known, place] : places) {
      if (name != known) continue;
      if (!given.is_none()) *place = arrays.emplace_back(take_floats(given, name)).view;
      return true;
    }
    return false;
  });
  run_released(operations, [&] { work(tangents, call.options); });
}

nb::tuple jvp(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle log_sum_exp,
              const nb::kwargs& keywords) {
  const Forward forward(query, key, value, out, log_sum_exp);
  Results results;
  const AttentionOutputTangents outputs{.out = results.like(forward.out.view),
                                        .log_sum_exp = results.like(forward.log_sum_exp.view)};
  run_along("attention_jvp", keywords, forward.operations(),
            [&](const AttentionTangents& tangents, const AttentionOptions& options) {
              attention_jvp(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                            forward.log_sum_exp.view, tangents, options, outputs);
            });
  return results.give(forward.query.kind);
}

nb::tuple double_backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle log_sum_exp,
                          nb::handle grad_out, const nb::kwargs& keywords) {
  const Forward forward(query, key, value, out, log_sum_exp);
  const Array gradient = take_floats(grad_out, "grad_out");
  Results results;
  const AttentionSecondGradients gradients{.query = results.like(forward.query.view),
                                           .key = results.like(forward.key.view),
                                           .value = results.like(forward.value.view),
                                           .grad_out = results.like(gradient.view)};
  run_along("attention_double_backward", keywords, 2 * forward.operations(),
            [&](const AttentionTangents& tangents, const AttentionOptions& options) {
              attention_double_backward(forward.query.view, forward.key.view, forward.value.view, forward.out.view,
                                        forward.log_sum_exp.view, gradient.view, tangents, options, gradients);
            });
  return results.give(forward.query.kind);
}

}  // namespace

void bind_derivatives(nb::module_& module) {
  module.def(
      "attention_backward", &backward, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a, "grad_out"_a,
      "keywords"_a,
      nb::sig("def attention_backward(query: ArrayT, key: Array, value: Array, out: Array, log_sum_exp: Array, "
              "grad_out: Array, *, parameters: bool = False, " QKV_CALL_KEYWORDS ") -> AttentionGradients[ArrayT]"),
      R"(Gradients of attention, recomputed tile by tile: no matrix of q_len x k_len.

out and log_sum_exp as attention() gave them for these arguments; grad_out like out. parameters: also those of sinks,
biases and a score.

>>> import numpy, qkv
>>> x = numpy.ones((2, 2), "f")
>>> out, lse = qkv.attention(x, x, x, return_lse=True)
>>> qkv.attention_backward(x, x, x, out, lse, x).value
array([[1., 1.],
       [1., 1.]], dtype=float32)
)");
  module.def(
      "attention_jvp", &jvp, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a, "keywords"_a,
      nb::sig("def attention_jvp(query: ArrayT, key: Array, value: Array, out: Array, log_sum_exp: Array, *, "
              "tangent_query: Array | None = None, tangent_key: Array | None = None, tangent_value: Array | None "
              "= None, " QKV_CALL_KEYWORDS ") -> tuple[ArrayT, ArrayT]"),
      R"(How out and log_sum_exp move when query, key and value move along tangents (forward mode).

Tangents in the shapes and the type of query, key and value; None is 0. For float32 and float64, without soft cap and
dropout.

>>> import numpy, qkv
>>> x = numpy.ones((2, 2), "f")
>>> out, lse = qkv.attention(x, x, x, return_lse=True)
>>> qkv.attention_jvp(x, x, x, out, lse, tangent_value=3 * x)[0]
array([[3., 3.],
       [3., 3.]], dtype=float32)
)");
  module.def(
      "attention_double_backward", &double_backward, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a,
      "grad_out"_a, "keywords"_a,
      nb::sig("def attention_double_backward(query: ArrayT, key: Array, value: Array, out: Array, log_sum_exp: "
              "Array, grad_out: Array, *, tangent_query: Array | None = None, tangent_key: Array | None = None, "
              "tangent_value: Array | None = None, " QKV_CALL_KEYWORDS ") -> tuple[ArrayT, ArrayT, ArrayT, ArrayT]"),
      "Gradients with respect to query, key, value and grad_out of ``<tangent_query, dq> + <tangent_key, dk> + "
      "<tangent_value, dv>``, where dq, dk and dv are those of attention_backward(). For the options of "
      "attention_jvp().");
}

}  // namespace qkv::python
