// The calls that most programs make of qkv.torch.attention(): tensors of torch itself on the CPU, no other tensors than
// query, key and value, no dropout, and nobody who watches. One call of the extension finds that out and computes it.
#include <optional>
#include <utility>

#include "arguments.h"
#include "bindings.h"
#include "qkv/attention.h"
#include "qkv/attention/attention_backward.h"
#include "tensor_calls.h"
#include "tensor_layouts.h"
#include "torch_state.h"

namespace qkv::python {
namespace {

// Work below this is done before another thread could have made use of the interpreter's lock.
constexpr double kTinyOperations = 1e5;

template <class Work>
void run(double operations, const Work& work) {
  if (operations < kTinyOperations) return work();
  run_released(operations, work);
}

bool is_plain(nb::handle tensor, TensorView& view) {
  return view_tensor(tensor, view) && is_floating(view.dtype()) && view.rank() > 1 && view.stride(-1) == 1;
}

// Query, key and value of a plain call.
struct PlainInputs {
  TensorView query, key, value;

  bool take(nb::handle q, nb::handle k, nb::handle v) {
    return is_plain(q, query) && is_plain(k, key) && is_plain(v, value) && !is_better_copied(key, query) &&
           !is_better_copied(value, query);
  }
  double operations() const { return most_operations(query, key); }
};

// Not set where torch has to say how the output lies.
std::optional<NewRows> new_output(const PlainInputs& inputs) {
  const TensorView &query = inputs.query, &value = inputs.value;
  if (value.size(-1) == query.size(-1)) return new_rows_like(query);
  Dims shape = query.shape();
  shape[query.rank() - 1] = value.size(-1);
  return new_rows(shape, query.dtype());
}

// The output; of a plain call that wants a gradient, True; of any other, None.
nb::object attend(nb::handle query, nb::handle key, nb::handle value, const nb::tuple& plain) {
  const TorchState& torch = TorchState::get();
  PlainInputs inputs;
  if (torch.is_watched() || !inputs.take(query, key, value)) return nb::none();
  if (torch.wants_gradients() && (requires_grad(query) || requires_grad(key) || requires_grad(value))) {
    return nb::bool_(true);
  }
  std::optional<NewRows> out = new_output(inputs);
  if (!out) return nb::none();
  const CallOptions call = take_call(plain, {}, torch.threads());
  run(inputs.operations(), [&] { attention(inputs.query, inputs.key, inputs.value, out->view, call.options); });
  return out->give();
}

// (output, log-sum-exp), of what attend() said True of; None where torch has to say how the output lies.
nb::object forward(nb::handle query, nb::handle key, nb::handle value, const nb::tuple& plain) {
  PlainInputs inputs;
  if (!inputs.take(query, key, value)) return nb::none();
  std::optional<NewRows> out = new_output(inputs);
  if (!out) return nb::none();
  Dims rows;
  for (int i = 0; i + 1 < inputs.query.rank(); ++i) rows.push_back(inputs.query.size(i));
  NewRows sums = new_rows(rows, inputs.query.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32);
  const CallOptions call = take_call(plain, {}, TorchState::get().threads());
  run(inputs.operations(),
      [&] { attention(inputs.query, inputs.key, inputs.value, out->view, call.options, {.log_sum_exp = sums.view}); });
  return nb::make_tuple(out->give(), sums.give());
}

// The gradients that `needs` says True of, None for the others; `saved`: output, log-sum-exp, query, key and value.
// None for all of it where the call is of another kind.
nb::object backward(nb::handle grad_out, const nb::tuple& saved, const nb::tuple& plain, const nb::tuple& needs) {
  const TorchState& torch = TorchState::get();
  PlainInputs inputs;
  TensorView gradient, out, sums;
  const bool fits = !torch.is_watched() && is_plain(grad_out, gradient) && is_plain(saved[0], out) &&
                    view_tensor(saved[1], sums) && inputs.take(saved[2], saved[3], saved[4]);
  if (!fits) return nb::none();
  std::optional<NewRows> made[3];
  MutableTensorView places[3];
  const TensorView* const like[] = {&inputs.query, &inputs.key, &inputs.value};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!nb::object(needs[i]).is(nb::bool_(true))) continue;
    made[i] = new_rows_like(*like[i]);
    if (!made[i]) return nb::none();
    places[i] = made[i]->view;
  }
  const CallOptions call = take_call(plain, {}, torch.threads());
  run(4 * inputs.operations(), [&] {
    attention_backward(inputs.query, inputs.key, inputs.value, out, sums, gradient, call.options,
                       {.query = places[0], .key = places[1], .value = places[2]});
  });
  const auto given = [&](std::size_t i) { return made[i] ? made[i]->give() : nb::object(nb::none()); };
  return nb::make_tuple(given(0), given(1), given(2));
}

}  // namespace

void bind_plain_tensors(nb::module_& module) {
#define QKV_TENSORS "query: typing.Any, key: typing.Any, value: typing.Any, plain: tuple[typing.Any, ...]"
  module.def("_plain_attention", &attend, "query"_a, "key"_a, "value"_a, "plain"_a,
             nb::sig("def _plain_attention(" QKV_TENSORS ") -> typing.Any"));
  module.def("_plain_forward", &forward, "query"_a, "key"_a, "value"_a, "plain"_a,
             nb::sig("def _plain_forward(" QKV_TENSORS ") -> typing.Any"));
  module.def("_plain_backward", &backward, "grad_out"_a, "saved"_a, "plain"_a, "needs"_a,
             nb::sig("def _plain_backward(grad_out: typing.Any, saved: tuple[typing.Any, ...], plain: "
                     "tuple[typing.Any, ...], needs: tuple[bool, ...]) -> typing.Any"));
#undef QKV_TENSORS
}

}  // namespace qkv::python
