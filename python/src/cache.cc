// KeyValueCache: the keys and values of the tokens seen so far.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "call_options.h"
#include "calls.h"
#include "qkv/attention/key_value_cache.h"

namespace qkv::python {
namespace {

Dtype take_dtype(nb::handle object) {
  return take_choice<Dtype>(
      object, "dtype",
      {{"float32", Dtype::f32}, {"float64", Dtype::f64}, {"bfloat16", Dtype::bf16}, {"float16", Dtype::f16}});
}

void make_cache(KeyValueCache* place, nb::handle batch, nb::handle kv_heads, nb::handle head_dim, nb::handle value_dim,
                nb::handle dtype, nb::handle page_rows) {
  new (place) KeyValueCache({.batch = take_whole(batch, "batch"),
                             .kv_heads = take_whole(kv_heads, "kv_heads"),
                             .head_dim = take_whole(head_dim, "head_dim"),
                             .value_dim = value_dim.is_none() ? 0 : take_whole(value_dim, "value_dim"),
                             .dtype = take_dtype(dtype),
                             .page_rows = take_whole(page_rows, "page_rows")});
}

void append(KeyValueCache& cache, nb::handle key, nb::handle value, nb::handle offsets) {
  const Array k = take_dense(key, "key"), v = take_dense(value, "value");
  if (offsets.is_none()) return cache.append(k.view, v.view);
  cache.append(k.view, v.view, take_integers(offsets, "offsets").view);
}

nb::object attend(const KeyValueCache& cache, nb::handle query, const nb::kwargs& keywords) {
  const Array q = take_dense(query, "query");
  CallOptions call = take_options("KeyValueCache.attention", keywords, {});
  if (call.options.block_table || call.options.offsets_key) {
    throw std::invalid_argument("KeyValueCache.attention: the cache has its own block_table and offsets_key");
  }
  Dims shape = q.view.shape();
  if (!shape.empty()) shape[shape.size() - 1] = cache.values().size(-1);
  Tensor out = Tensor::uninitialized(shape, q.view.dtype());
  const auto cached = static_cast<double>(cache.keys().size(0) * cache.keys().size(1));
  run_released(4 * cached * static_cast<double>(q.view.element_count()),
               [&] { attention(q.view, cache, out, call.options); });
  return give_array(std::move(out), q.kind);
}

const char* numpy_name_of(Dtype dtype) {
  return dtype == Dtype::f64    ? "float64"
         : dtype == Dtype::f32  ? "float32"
         : dtype == Dtype::bf16 ? "bfloat16"
                                : "float16";
}

// The rows of all sequences, one after the other, in a type that NumPy has.
Tensor rows_of(const TensorView& pages, const KeyValueCache& cache) {
  const TensorView table = cache.block_table();
  std::int64_t tokens = 0;
  for (std::int64_t b = 0; b < cache.batch(); ++b) tokens += cache.length(b);
  const Dtype dtype = pages.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  Tensor rows = Tensor::uninitialized({tokens, pages.size(2), pages.size(3)}, dtype);
  for (std::int64_t b = 0, at = 0; b < cache.batch(); ++b) {
    for (std::int64_t row = 0; row < cache.length(b);) {
      const std::int64_t block = row / pages.size(1), count = std::min(pages.size(1), cache.length(b) - row);
      const TensorView page = pages.select(0, table.select(0, b).data<std::int32_t>()[block]);
      convert(page.slice(0, 0, count), MutableTensorView(rows).slice(0, at, at + count));
      row += count;
      at += count;
    }
  }
  return rows;
}

// The arguments of __init__ and of append().
nb::tuple state_of(const KeyValueCache& cache) {
  const TensorView keys = cache.keys(), values = cache.values();
  Tensor offsets = Tensor::zeros({cache.batch() + 1}, Dtype::i32);
  auto* ends = offsets.data<std::int32_t>();
  for (std::int64_t b = 0; b < cache.batch(); ++b) ends[b + 1] = ends[b] + static_cast<std::int32_t>(cache.length(b));
  return nb::make_tuple(
      nb::make_tuple(cache.batch(), keys.size(2), keys.size(3), values.size(3), numpy_name_of(keys.dtype()),
                     keys.size(1)),
      nb::make_tuple(give_array(rows_of(keys, cache), Kind::numpy), give_array(rows_of(values, cache), Kind::numpy),
                     give_array(std::move(offsets), Kind::numpy)));
}

void set_state(KeyValueCache& place, const nb::tuple& state) {
  const nb::object made = state[0], rows = state[1];
  make_cache(&place, nb::object(made[0]), nb::object(made[1]), nb::object(made[2]), nb::object(made[3]),
             nb::object(made[4]), nb::object(made[5]));
  append(place, nb::object(rows[0]), nb::object(rows[1]), nb::object(rows[2]));
}

}  // namespace

void bind_cache(nb::module_& module) {
  nb::class_<KeyValueCache>(module, "KeyValueCache",
                            R"(The keys and values of the tokens that a batch of sequences has seen so far.

Not for use by several threads at once while it changes.

>>> import numpy, qkv
>>> cache = qkv.KeyValueCache(batch=1, kv_heads=1, head_dim=2)
>>> cache.append(numpy.zeros((1, 1, 3, 2), "f"), numpy.ones((1, 1, 3, 2), "f"))
>>> cache.lengths()
array([3], dtype=int32)
>>> cache.attention(numpy.zeros((1, 1, 1, 2), "f"))
array([[[[1., 1.]]]], dtype=float32)
)")
      .def("__init__", &make_cache, nb::kw_only(), "batch"_a = 1, "kv_heads"_a = 1, "head_dim"_a = 64,
           "value_dim"_a = nb::none(), "dtype"_a = "float32", "page_rows"_a = 16,
           nb::sig("def __init__(self, *, batch: int = 1, kv_heads: int = 1, head_dim: int = 64, value_dim: int | None "
                   "= None, dtype: typing.Literal['float32', 'float64', 'bfloat16', 'float16'] = 'float32', page_rows: "
                   "int = 16) -> None"))
      .def("__getstate__", &state_of, nb::sig("def __getstate__(self) -> tuple[typing.Any, ...]"))
      .def("__setstate__", &set_state, "state"_a,
           nb::sig("def __setstate__(self, state: tuple[typing.Any, ...]) -> None"))
      .def("append", &append, "key"_a, "value"_a, "offsets"_a = nb::none(),
           nb::sig("def append(self, key: Array, value: Array, offsets: Array | None = None) -> None"),
           "Appends rows: key [batch, kv_heads, new, head_dim], value alike. With offsets packed: key [tokens, "
           "kv_heads, "
           "head_dim]; sequence b gets the rows offsets[b] <= row < offsets[b + 1].")
      .def(
          "reorder",
          [](KeyValueCache& cache, nb::handle parents) { cache.reorder(take_whole_numbers(parents, "parents")); },
          "parents"_a, nb::sig("def reorder(self, parents: collections.abc.Sequence[int]) -> None"),
          "Sequence b continues what was sequence parents[b]; there are as many sequences then as parents.")
      .def(
          "lengths", [](const KeyValueCache& cache) { return give_array(Tensor::copy(cache.lengths()), Kind::numpy); },
          nb::sig("def lengths(self) -> numpy.typing.NDArray[numpy.int32]"), "Cached keys of each sequence (a copy).")
      .def("attention", &attend, "query"_a, "keywords"_a,
           nb::sig("def attention(self, query: ArrayT, " QKV_CALL_KEYWORDS ") -> ArrayT"),
           "attention() with everything that is cached, the keys of the queries' own tokens included: query [batch, "
           "heads, q_len, head_dim], or packed with offsets_query. Query i has position length - q_len + i.");
}

}  // namespace qkv::python
