// The classes Bias, with `+`, and Score: arrays, ALiBi, tables of relative positions; scores with parameters.
#include <utility>

#include "arguments.h"
#include "values.h"

namespace qkv::python {
namespace {

BiasValue view(nb::handle values) {
  Array array = take_floats(values, "values");
  return {Bias::view(array.view), {array}, call_of("view", values)};
}

BiasValue alibi(nb::handle slopes) {
  Array array = take_floats(slopes, "slopes");
  return {Bias::alibi(array.view), {array}, call_of("alibi", slopes)};
}

template <class Make>
BiasValue table(nb::handle values, nb::tuple call, const Make& make) {
  Array array = take_floats(values, "table");
  return {Bias::table(make(array.view)), {array}, std::move(call)};
}

BiasValue t5(nb::handle values, nb::handle bidirectional, nb::handle max_distance) {
  const RelativeTable::T5Buckets buckets{.bidirectional = take_flag(bidirectional, "bidirectional"),
                                         .max_distance = take_whole(max_distance, "max_distance")};
  return table(values, call_of("t5", values, bidirectional, max_distance),
               [&](const TensorView& view) { return RelativeTable::t5(view, buckets); });
}

BiasValue swin(nb::handle values, nb::handle height, nb::handle width) {
  const std::int64_t rows = take_whole(height, "height"), columns = take_whole(width, "width");
  return table(values, call_of("swin", values, height, width),
               [&](const TensorView& view) { return RelativeTable::swin(view, rows, columns); });
}

BiasValue joined_biases(const BiasValue& a, const BiasValue& b) { return joined(a.value + b.value, a, b); }

BiasValue sum(nb::handle one, nb::handle other) {
  constexpr const char* kName = "an operand of +";
  return joined_biases(take_bias(one, kName), take_bias(other, kName));
}

}  // namespace

const BiasValue& take_bias(nb::handle object, std::string_view name) {
  return take_kept<BiasValue>(object, name, "a bias such as qkv.Bias.view(array) or qkv.Bias.alibi(slopes)");
}

Score take_score(nb::handle object, std::string_view name, std::vector<Array>& arrays) {
  if (PyUnicode_Check(object.ptr())) {
    return take_choice<Score>(object, name, {{"scaled_dot", Score::scaled_dot()}, {"dot", Score::dot()}});
  }
  const char* const wanted = "\"scaled_dot\", \"dot\" or a score such as qkv.Score.bilinear(w)";
  return keep(take_kept<ScoreValue>(object, name, wanted), arrays);
}

void bind_biases(nb::module_& module) {
  nb::class_<BiasValue> type(
      module, "Bias",
      "What is added to the logits after scale and soft cap; biases combine by ``+``: at most four "
      "arrays and four tables. A bias keeps its arrays alive.");
  add_values(type, " + ", &joined_biases);
  type.def("__add__", &sum, "other"_a, nb::sig("def __add__(self, other: Bias) -> Bias"))
      .def("__radd__", &sum, "other"_a, nb::sig("def __radd__(self, other: Bias) -> Bias"));

  type.def_static(
      "view", &view, "values"_a, nb::sig("def view(values: Array) -> Bias"),
      "An array that is added: float32 (float64 for float64 inputs), broadcastable to [batch, heads, q_len, "
      "k_len]. It follows IEEE arithmetic; to hide a key, use a mask.");
  type.def_static("alibi", &alibi, "slopes"_a, nb::sig("def alibi(slopes: Array) -> Bias"),
                  "``-slope * |p - j|``; slopes: float32 [heads] or [batch, heads] (Press et al., 2021).");
  type.def_static(
      "t5", &t5, "table"_a, "bidirectional"_a = true, "max_distance"_a = 128,
      nb::sig("def t5(table: Array, bidirectional: bool = True, max_distance: int = 128) -> Bias"),
      "T5's relative positions: the number of the head and of the bucket of ``j - p``; table [buckets, heads] "
      "(Raffel et al., 2020).");
  type.def_static(
      "clipped", [](nb::handle values) { return table(values, call_of("clipped", values), &RelativeTable::clipped); },
      "table"_a, nb::sig("def clipped(table: Array) -> Bias"),
      "Relative positions up to a distance n: bucket ``clamp(j - p, -n, n) + n``; table [2 n + 1, heads].");
  type.def_static(
      "shaw", [](nb::handle values) { return table(values, call_of("shaw", values), &RelativeTable::shaw); }, "table"_a,
      nb::sig("def shaw(table: Array) -> Bias"),
      "``scale * (q . table[bucket])`` with the buckets of :meth:`clipped`; table [2 n + 1, head_dim] (Shaw et "
      "al., 2018).");
  type.def_static(
      "swin", &swin, "table"_a, "height"_a, "width"_a,
      nb::sig("def swin(table: Array, height: int, width: int) -> Bias"),
      "Relative places in a window of height x width cells; table [(2 height - 1) (2 width - 1), heads] (Liu et "
      "al., 2021).");
}

void bind_scores(nb::module_& module) {
  nb::class_<ScoreValue> type(
      module, "Score",
      "How a query and a key become one number; \"scaled_dot\" and \"dot\" are names of the two without parameters.");
  add_values(type, "", [](const ScoreValue&, const ScoreValue& other) { return other; });
  type.def_static(
      "additive",
      [](nb::handle w_query, nb::handle w_key, nb::handle v) {
        const Array a = take_floats(w_query, "w_query"), b = take_floats(w_key, "w_key"), c = take_floats(v, "v");
        return ScoreValue{Score::additive(a.view, b.view, c.view), {a, b, c}, call_of("additive", w_query, w_key, v)};
      },
      "w_query"_a, "w_key"_a, "v"_a, nb::sig("def additive(w_query: Array, w_key: Array, v: Array) -> Score"),
      "``v . tanh(w_query q + w_key k)``: w_query [hidden, query size], w_key [hidden, key size], v [hidden] (Bahdanau "
      "et al., 2014). Default scale 1.");
  type.def_static(
      "concat",
      [](nb::handle w, nb::handle v) {
        const Array a = take_floats(w, "w"), b = take_floats(v, "v");
        return ScoreValue{Score::concat(a.view, b.view), {a, b}, call_of("concat", w, v)};
      },
      "w"_a, "v"_a, nb::sig("def concat(w: Array, v: Array) -> Score"),
      "``v . tanh(w [q; k])``: w [hidden, query size + key size], v [hidden] (Luong et al., 2015). Default scale 1.");
  type.def_static(
      "bilinear",
      [](nb::handle w) {
        const Array a = take_floats(w, "w");
        return ScoreValue{Score::bilinear(a.view), {a}, call_of("bilinear", w)};
      },
      "w"_a, nb::sig("def bilinear(w: Array) -> Score"),
      "``q^T w k``: w [query size, key size] (Luong et al., 2015). Default scale 1.");
}

}  // namespace qkv::python
