// attention_backward(), attention_jvp() and attention_double_backward(): of arrays, and of tensors of torch, whose
// gradients and tangents are those that it asks for, in its order and layouts.
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "qkv/attention/attention_backward.h"
#include "qkv/attention/attention_double_backward.h"
#include "qkv/attention/attention_jvp.h"
#include "tensors.h"

namespace qkv::python {
namespace {

// What a forward pass took and gave.
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

  // Of torch as long as `needs`, None for what is not needed.
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

// Adds a place for each parameter of the options: sinks, biases and those of a score, which are of its own type.
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

void bind_derivatives(nb::module_& module) {
  Described(module)
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
