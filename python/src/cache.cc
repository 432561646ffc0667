// KeyValueCache: the keys and values of the tokens seen so far.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "calls.h"
#include "keywords.h"
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

nb::object attend(const KeyValueCache& cache, nb::handle query, const nb::kwargs& given) {
  const Array q = take_dense(query, "query");
  Keywords keywords("KeyValueCache.attention", given);
  const CallOptions call = take_options(keywords);
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
  add_class<KeyValueCache>(module, "KeyValueCache")
      .def("__init__", &make_cache, nb::kw_only(), "batch"_a = 1, "kv_heads"_a = 1, "head_dim"_a = 64,
           "value_dim"_a = nb::none(), "dtype"_a = "float32", "page_rows"_a = 16)
      .def("__getstate__", &state_of)
      .def("__setstate__", &set_state, "state"_a)
      .def("append", &append, "key"_a, "value"_a, "offsets"_a = nb::none())
      .def(
          "reorder",
          [](KeyValueCache& cache, nb::handle parents) { cache.reorder(take_whole_numbers(parents, "parents")); },
          "parents"_a)
      .def("lengths", [](const KeyValueCache& cache) { return give_array(Tensor::copy(cache.lengths()), Kind::numpy); })
      .def("attention", &attend, "query"_a, "keywords"_a);
}

}  // namespace qkv::python
