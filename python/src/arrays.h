// Arrays of Python as views without a copy, and results as arrays of the kind that the caller uses.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>
#include <string_view>

#include "qkv/tensor.h"

namespace qkv::python {

namespace nb = nanobind;

// Whose arrays a caller passes, and gets back.
enum class Kind { numpy, torch, jax, other };

// A view, and what keeps its elements alive.
struct Array {
  Kind kind = Kind::numpy;
  TensorView view{};
  nb::ndarray<nb::ro> owner{};
  nb::object object{};  // instead of an owner
};
struct WritableArray {
  MutableTensorView view{};
  nb::ndarray<> owner{};
  nb::object object{};
};

// TypeError, naming the argument, for anything but an array on the CPU of a type that qkv has.
Array take_array(nb::handle object, std::string_view name);
// Arrays of f32, f64, bf16 or f16; of i32 or i64; of bool or u8. TypeError for other types.
Array take_floats(nb::handle object, std::string_view name);
// The same without gaps in its last dimension, ValueError otherwise.
Array take_dense(nb::handle object, std::string_view name);
// An array of NumPy for a list or another sequence, int32 if its numbers fit; other objects as they are.
nb::object array_of(nb::handle object, std::string_view name);
// Lists, too.
Array take_integers(nb::handle object, std::string_view name);
Array take_booleans(nb::handle object, std::string_view name);
// As take_floats(), but a tensor of torch may require grad.
Array take_values(nb::handle object, std::string_view name);
// As take_values(); copies a tensor of torch whose last dimension has gaps.
Array take_rows(nb::handle object, std::string_view name);
// ValueError for an array that is read-only.
WritableArray take_writable(nb::handle object, std::string_view name);
// A new array, which nothing else uses yet.
WritableArray take_new(const nb::object& object);

// The numbers of a tensor of torch itself, no subclass, on the CPU, of a type that qkv has, and not lazily negated; for
// anything else false, without a word.
bool view_tensor(nb::handle object, TensorView& view);
bool is_tensor(nb::handle object);  // of torch itself
bool requires_grad(nb::handle tensor);

// The tensor as an array of this kind, which owns it: no copy.
nb::object give_array(Tensor tensor, Kind kind);
// A class of qkv.results.
nb::object result_of(const char* name);
// The view, of the memory of `tensor`, as a tensor of torch. Some tensor must have been seen before.
nb::object give_tensor(Tensor tensor, const MutableTensorView& view);

}  // namespace qkv::python
