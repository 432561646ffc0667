// attention(), merge_attention() and dropout_mask().
#include "qkv/attention.h"

#include <fmt/format.h>

#include <new>
#include <optional>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "extras.h"
#include "qkv/attention/attention_plan.h"
#include "qkv/attention/dropout.h"

namespace qkv::python {
namespace {

Tensor empty_output(const TensorView& query, const TensorView& value) {
  Dims shape = query.shape();
  if (!shape.empty() && value.rank() > 0) shape[shape.size() - 1] = value.size(-1);
  return Tensor::uninitialized(shape, query.dtype());
}

nb::object attention_of(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs& keywords) {
  const Array q = take_dense(query, "query"), k = take_dense(key, "key"), v = take_dense(value, "value");
  nb::object out = nb::none(), want;
  CallOptions call = take_options("attention", keywords, [&](std::string_view name, nb::handle given) {
    if (name == "out") {
      out = nb::borrow(given);
    } else if (name == "want") {
      want = nb::borrow(given);
    } else {
      return false;
    }
    return true;
  });
  std::optional<Extras> extras;
  Tensor made;
  try {
    if (want.is_valid()) extras.emplace(want, q.view, k.view, call);
    if (out.is_none()) made = empty_output(q.view, v.view);
  } catch (const std::bad_alloc&) {
    plan(q.view, k.view, v.view, call.options);  // refuses what does not fit together
    throw;
  }
  const WritableArray given = out.is_none() ? WritableArray{.view = made.view()} : take_writable(out, "out");
  run_released(most_operations(q.view, k.view), [&] {
    attention(q.view, k.view, v.view, given.view, call.options, extras ? extras->views() : AttentionExtras{});
  });
  if (out.is_none()) out = give_array(std::move(made), q.kind);
  if (!extras || extras->empty()) return out;
  nb::list results;
  results.append(out);
  for (const nb::object& extra : extras->give(q.kind)) results.append(extra);
  return nb::tuple(results);
}

nb::tuple merge(nb::handle out, nb::handle log_sum_exp, nb::handle other_out, nb::handle other_log_sum_exp) {
  const Array first = take_floats(out, "out"), first_sum = take_floats(log_sum_exp, "log_sum_exp");
  const Array other = take_floats(other_out, "other_out");
  const Array other_sum = take_floats(other_log_sum_exp, "other_log_sum_exp");
  Tensor merged, sum;
  run_released(10 * static_cast<double>(first.view.element_count()), [&] {
    merged = Tensor::copy(first.view);
    sum = Tensor::copy(first_sum.view);
    merge_attention(merged, sum, other.view, other_sum.view);
  });
  return nb::make_tuple(give_array(std::move(merged), first.kind), give_array(std::move(sum), first.kind));
}

nb::object mask_of_dropout(nb::handle shape, nb::handle p, nb::handle seed, nb::handle first) {
  const std::vector<std::int64_t> extents = take_whole_numbers(shape, "shape"), at = take_whole_numbers(first, "first");
  if (at.size() != 4) throw std::invalid_argument("first must be (sequence, head, query, key)");
  const Dropout dropout{.p = take_number(p, "p"), .seed = take_seed(seed, "seed")};
  Tensor kept = Tensor::uninitialized(Dims(std::span(extents)), Dtype::boolean);
  run_released(10 * static_cast<double>(kept.element_count()),
               [&] { dropout_mask(dropout, kept, {at[0], at[1], at[2], at[3]}); });
  return give_array(std::move(kept), Kind::numpy);
}

}  // namespace

void bind_attention(nb::module_& module) {
  module.def("attention", &attention_of, "query"_a, "key"_a, "value"_a, "keywords"_a,
             nb::sig("def attention(query: Array, key: Array, value: Array, *, " QKV_CALL_KEYWORDS
                     ", out: Array | None = None, want: collections.abc.Sequence[str | tuple[str, object]] = ()) -> "
                     "typing.Any"),
             R"(Exact attention in one fused pass.

``dropout(softmax(mask(cap(scale * score(query, key)) + bias))) value``

Padded: query [..., heads, q_len, head_dim], key [..., kv_heads, k_len, head_dim], value [..., kv_heads, k_len,
value_dim]; the output is [..., heads, q_len, value_dim]. Packed (offsets_query, offsets_key, int32 or int64
[batch + 1]): query [tokens, heads, head_dim], key and value alike. Paged keys (block_table, int32 [batch, blocks]): key
[pages, rows, kv_heads, head_dim], value alike, with qkv.Mask.lengths() in the mask.

Arrays of NumPy (bfloat16 by ml_dtypes), torch, JAX or anything else with __dlpack__ on the CPU are read without a copy;
the results are of query's kind. float32, float64, bfloat16 or float16, the same for query, key and value; any strides
with a last one of 1.

scale: 1/sqrt(head_dim) unless given (1 for "dot"). soft_cap: ``cap * tanh(logits / cap)``, 0: off. dropout needs a seed.
sinks: [heads], each head's logit of one more key without a value. precision "reduced": products in bf16 where this CPU
has them. memory_limit: bytes besides inputs and outputs, kept by fewer threads, or ValueError. threads: 0 for the
process's number. out: where the output goes, of query's type or float32. want: optional outputs, given back after the
output in a tuple: "log_sum_exp", "weights", "logits", "row_maximum", "entropy", "self_weight", "previous_weight",
"received", ("top_keys", n), ("top_weights", n), ("block_weights", (r, c)), ("row_weights", rows).

A query that sees no key gives 0, and log-sum-exp -inf. The same bits for any batch and any number of threads.

Raises TypeError for what is no array or of another kind, naming the argument; ValueError for shapes, types that differ,
a last stride other than 1, and an out that is read-only or shares memory with an input.

>>> import numpy, qkv
>>> query, key = numpy.zeros((1, 2), "f"), numpy.zeros((2, 2), "f")
>>> qkv.attention(query, key, numpy.array([[1, 2], [3, 4]], "f"))
array([[2., 3.]], dtype=float32)
)");

  module.def("merge_attention", &merge, "out"_a, "log_sum_exp"_a, "other_out"_a, "other_log_sum_exp"_a,
             nb::sig("def merge_attention(out: Array, log_sum_exp: Array, other_out: Array, other_log_sum_exp: Array) "
                     "-> tuple[typing.Any, typing.Any]"),
             R"(Joins two results over disjoint keys into new arrays (out, log_sum_exp): attention to all keys at once.

``m = max(lse, other_lse); out = (e^(lse - m) out + e^(other_lse - m) other_out) / (e^(lse - m) + e^(other_lse - m))``

out, other_out: [..., q_len, value_dim], all four float32 or all float64. A part with log-sum-exp -inf adds nothing.

>>> import numpy, qkv
>>> one, zero = numpy.ones((1, 1)), numpy.zeros(1)
>>> qkv.merge_attention(one, zero, 3 * one, zero)[0]
array([[2.]])
)");

  module.def("dropout_mask", &mask_of_dropout, "shape"_a, "p"_a, "seed"_a, "first"_a = nb::make_tuple(0, 0, 0, 0),
             nb::sig("def dropout_mask(shape: collections.abc.Sequence[int], p: float, seed: int, first: "
                     "collections.abc.Sequence[int] = (0, 0, 0, 0)) -> numpy.typing.NDArray[numpy.bool_]"),
             R"(Which weights dropout keeps: bool [..., heads, q_len, k_len].

``first``: (sequence, head, query, key) of the first element, for a part of a mask. It depends on p, the seed and these
indices alone.

>>> import qkv
>>> qkv.dropout_mask((1, 1, 4), 0.0, seed=1)
array([[[ True,  True,  True,  True]]])
)");
}

}  // namespace qkv::python
