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
#include "calls.h"
#include "inputs/call_options.h"
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

nb::tuple backward(nb::handle query, nb::handle key, nb::handle value, nb::handle out, nb::handle log_sum_exp,
                   nb::handle grad_out, const nb::kwargs& keywords) {
  const Forward forward(query, key, value, out, log_sum_exp);
  const Array gradient = take_floats(grad_out, "grad_out");
  std::vector<std::string> want{"query", "key", "value"};
  CallOptions call = take_options("attention_backward", keywords, [&](std::string_view name, nb::handle given) {
    if (name != "want") return false;
    want = take_texts(given, "want");
    return true;
  });
  const AttentionOptions& options = call.options;
  AttentionGradients gradients;
  // For each name the number of results: a list of them for what there may be several of.
  struct Group {
    bool is_list;
    std::vector<std::size_t> places;
  };
  std::vector<Group> groups;
  Results results;
  const TensorView& q = forward.query.view;
  const auto parameters = [&](std::vector<MutableTensorView>& into, const auto& views) {
    Group group{true, {}};
    for (const auto& view : views) {
      group.places.push_back(results.tensors.size());
      into.push_back(results.like(view, parameter_type(view, q)));
    }
    groups.push_back(std::move(group));
  };
  const auto one = [&](MutableTensorView& into, const TensorView& view, Dtype dtype) {
    if (!view) throw std::invalid_argument("attention_backward: want names what the call does not have");
    groups.push_back({false, {results.tensors.size()}});
    into = results.like(view, dtype);
  };
  for (const std::string& name : want) {
    if (name == "query") {
      one(gradients.query, q, q.dtype());
    } else if (name == "key") {
      one(gradients.key, forward.key.view, q.dtype());
    } else if (name == "value") {
      one(gradients.value, forward.value.view, q.dtype());
    } else if (name == "bias") {
      parameters(gradients.bias, options.bias.views());
    } else if (name == "alibi_slopes") {
      parameters(gradients.alibi_slopes, options.bias.alibi_slopes());
    } else if (name == "tables") {
      std::vector<TensorView> tables;
      for (const RelativeTable& table : options.bias.tables()) tables.push_back(table.values());
      parameters(gradients.tables, tables);
    } else if (name == "sinks") {
      one(gradients.sinks, options.sinks, parameter_type(options.sinks, q));
    } else if (name == "w_query") {
      one(gradients.score.w_query, options.score.w_query(), options.score.w_query().dtype());
    } else if (name == "w_key") {
      one(gradients.score.w_key, options.score.w_key(), options.score.w_key().dtype());
    } else if (name == "v") {
      one(gradients.score.v, options.score.v(), options.score.v().dtype());
    } else {
      throw std::invalid_argument("attention_backward: want names \"" + name +
                                  "\"; known are query, key, value, bias, alibi_slopes, tables, sinks, w_query, w_key "
                                  "and v");
    }
  }
  run_released(forward.operations(), [&] {
    attention_backward(q, forward.key.view, forward.value.view, forward.out.view, forward.log_sum_exp.view,
                       gradient.view, call.options, gradients);
  });
  nb::list given;
  for (const Group& group : groups) {
    nb::list arrays;
    for (const std::size_t at : group.places) {
      arrays.append(give_array(std::move(results.tensors[at]), forward.query.kind));
    }
    given.append(group.is_list ? nb::object(arrays) : nb::object(arrays[0]));
  }
  return nb::tuple(given);
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
  module.def("attention_backward", &backward, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a, "grad_out"_a,
             "keywords"_a,
             nb::sig("def attention_backward(query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, "
                     "grad_out: Array, *, " QKV_CALL_KEYWORDS
                     ", want: collections.abc.Sequence[str] = ('query', 'key', 'value')) -> tuple[typing.Any, ...]"),
             R"(Gradients of attention, recomputed tile by tile: no matrix of q_len x k_len.

out and log_sum_exp as attention() gave them for these arguments; grad_out like out. want: "query", "key", "value",
"sinks", "w_query", "w_key" and "v" (of a score), an array each; "bias", "alibi_slopes", "tables", a list each, in the
order in which the bias was summed.

>>> import numpy, qkv
>>> x = numpy.ones((2, 2), "f")
>>> out, lse = qkv.attention(x, x, x, want=("log_sum_exp",))
>>> qkv.attention_backward(x, x, x, out, lse, x, want=("value",))[0]
array([[1., 1.],
       [1., 1.]], dtype=float32)
)");
  module.def(
      "attention_jvp", &jvp, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a, "keywords"_a,
      nb::sig("def attention_jvp(query: Array, key: Array, value: Array, out: Array, log_sum_exp: Array, *, "
              "tangent_query: Array | None = None, tangent_key: Array | None = None, tangent_value: Array | None "
              "= None, " QKV_CALL_KEYWORDS ") -> tuple[typing.Any, typing.Any]"),
      R"(How out and log_sum_exp move when query, key and value move along tangents (forward mode).

Tangents in the shapes and the type of query, key and value; None is 0. For float32 and float64, without soft cap and
dropout.

>>> import numpy, qkv
>>> x = numpy.ones((2, 2), "f")
>>> out, lse = qkv.attention(x, x, x, want=("log_sum_exp",))
>>> qkv.attention_jvp(x, x, x, out, lse, tangent_value=3 * x)[0]
array([[3., 3.],
       [3., 3.]], dtype=float32)
)");
  module.def("attention_double_backward", &double_backward, "query"_a, "key"_a, "value"_a, "out"_a, "log_sum_exp"_a,
             "grad_out"_a, "keywords"_a,
             nb::sig("def attention_double_backward(query: Array, key: Array, value: Array, out: Array, log_sum_exp: "
                     "Array, grad_out: Array, *, tangent_query: Array | None = None, tangent_key: Array | None = None, "
                     "tangent_value: Array | None = None, " QKV_CALL_KEYWORDS
                     ") -> tuple[typing.Any, typing.Any, typing.Any, typing.Any]"),
             "Gradients with respect to query, key, value and grad_out of ``<tangent_query, dq> + <tangent_key, dk> + "
             "<tangent_value, dv>``, where dq, dk and dv are those of attention_backward(). For the options of "
             "attention_jvp().");
}

}  // namespace qkv::python
