"""The operators ``torch.ops.qkv.*``: what torch's dispatcher, its fake tensors and torch.compile see of attention.

They know no gradients; ``gradients.py`` puts them together. Every one takes the arguments of ``_CALL``, which the functions
below take as one tuple, ``call``: sinks [heads]; bias, each broadcastable to the logits; mask, bool; lengths [batch];
documents [batch, tokens]; seed, an int64 scalar; causal "", "top-left" or "bottom-right"; left, right: the window, -1 for
an open side. ``inputs`` are query, key and value, ``results`` the output and the log-sum-exp of the forward pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _qkv

_INPUTS = "Tensor query, Tensor key, Tensor value"
_CALL = (
    "Tensor? sinks, Tensor[] bias, Tensor? mask, Tensor? lengths, Tensor? documents, Tensor? seed, str causal, int left, "
    "int right, float? scale, float soft_cap, float dropout"
)
_RESULTS = "Tensor out, Tensor log_sum_exp"
_TANGENTS = "Tensor? tangent_query, Tensor? tangent_key, Tensor? tangent_value"
_LIBRARY = torch.library.Library("qkv", "DEF")  # the operators live as long as it

Call = tuple[Any, ...]


def is_watched(tensor: Tensor) -> bool:
    """Whether a call must go through torch's dispatcher, which takes longer than a small call: for torch.compile, a
    subclass, a mode or a transformation, and what is not on the CPU."""
    kind = type(tensor)
    return (
        torch.compiler.is_compiling()
        or not (kind is Tensor or kind is torch.nn.Parameter)
        or not tensor.is_cpu
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
    )


def attention(query: Tensor, key: Tensor, value: Tensor, call: Call, log_sum_exp: bool, weights: bool) -> Any:
    """The output, the log-sum-exp if it is wanted, the weights if they are."""
    if is_watched(query):
        return torch.ops.qkv.attention.default(query, key, value, *call, log_sum_exp, weights)
    return _qkv._tensor_attention(query, key, value, call, log_sum_exp, weights, torch.get_num_threads())


def attention_backward(grad_out: Tensor, results: Any, inputs: Any, call: Call, needs: Any) -> Any:
    """A gradient for each of query, key, value, sinks and the biases that ``needs`` says True of, None for the others."""
    if is_watched(grad_out):
        needs = [needed and like is not None for needed, like in zip(needs, (*inputs, call[0], *call[1]))]
        found = iter(torch.ops.qkv.attention_backward.default(grad_out, *results, *inputs, *call, needs))
        return tuple(next(found) if needed else None for needed in needs)
    return _qkv._tensor_backward(grad_out, results, inputs, call, needs, torch.get_num_threads())


def attention_jvp(tangents: Any, results: Any, inputs: Any, call: Call) -> Tensor:
    """The tangent of the output along those of query, key and value."""
    tangent: Tensor = torch.ops.qkv.attention_jvp.default(*tangents, *results, *inputs, *call)
    return tangent


def attention_double_backward(tangents: Any, grad_out: Tensor, results: Any, inputs: Any, call: Call) -> list[Tensor]:
    """Gradients of query, key, value and grad_out of the product of tangents and gradients."""
    return list(torch.ops.qkv.attention_double_backward.default(*tangents, grad_out, *results, *inputs, *call))


def _attention(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> list[Tensor]:
    *call, log_sum_exp, weights = rest
    threads = torch.get_num_threads()
    return list(_qkv._tensor_attention(query, key, value, tuple(call), log_sum_exp, weights, threads))


def _attention_fake(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> list[Tensor]:
    *_, log_sum_exp, weights = rest
    sums = torch.float64 if query.dtype == torch.float64 else torch.float32
    if value.shape[-1] == query.shape[-1]:
        results = [torch.empty_like(query)]
    else:
        results = [query.new_empty((*query.shape[:-1], value.shape[-1]))]
    if log_sum_exp:
        results.append(query.new_empty(query.shape[:-1], dtype=sums))
    if weights:
        results.append(query.new_empty((*query.shape[:-1], key.shape[-2]), dtype=sums))
    return results


def _backward(grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor,
              *rest: Any) -> list[Tensor]:  # fmt: skip
    *call, needs = rest
    inputs, results = (query, key, value), (out, log_sum_exp)
    found = _qkv._tensor_backward(grad_out, results, inputs, tuple(call), tuple(needs), torch.get_num_threads())
    return [gradient for gradient in found if gradient is not None]


def _backward_fake(grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor,
                   sinks: Tensor | None, bias: list[Tensor], *rest: Any) -> list[Tensor]:  # fmt: skip
    of = (query, key, value, sinks, *bias)
    return [torch.empty_like(tensor) for tensor, needed in zip(of, rest[-1]) if needed and tensor is not None]


def _jvp(tangent_query: Tensor | None, tangent_key: Tensor | None, tangent_value: Tensor | None, out: Tensor,
         log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor, *call: Any) -> Tensor:  # fmt: skip
    tangents, inputs = (tangent_query, tangent_key, tangent_value), (query, key, value)
    tangent: Tensor = _qkv._tensor_jvp(tangents, (out, log_sum_exp), inputs, call, torch.get_num_threads())
    return tangent


def _jvp_fake(tangent_query: Any, tangent_key: Any, tangent_value: Any, out: Tensor, *rest: Any) -> Tensor:
    return torch.empty_like(out)


def _double_backward(tangent_query: Tensor | None, tangent_key: Tensor | None, tangent_value: Tensor | None,
                     grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor,
                     *call: Any) -> list[Tensor]:  # fmt: skip
    tangents, results = (tangent_query, tangent_key, tangent_value), (out, log_sum_exp)
    inputs, threads = (query, key, value), torch.get_num_threads()
    return list(_qkv._tensor_double_backward(tangents, grad_out, results, inputs, call, threads))


def _double_backward_fake(tangent_query: Any, tangent_key: Any, tangent_value: Any, grad_out: Tensor, out: Tensor,
                          log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor, *call: Any) -> list[Tensor]:  # fmt: skip
    return [torch.empty_like(tensor) for tensor in (query, key, value, grad_out)]


def _define(name: str, signature: str, run: Any, fake: Any) -> None:
    _LIBRARY.define(name + signature)
    _LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"qkv::{name}", fake, lib=_LIBRARY)


_define("attention", f"({_INPUTS}, {_CALL}, bool log_sum_exp, bool weights) -> Tensor[]", _attention, _attention_fake)
_define(
    "attention_backward",
    f"(Tensor grad_out, {_RESULTS}, {_INPUTS}, {_CALL}, bool[] needs) -> Tensor[]",
    _backward,
    _backward_fake,
)
_define("attention_jvp", f"({_TANGENTS}, {_RESULTS}, {_INPUTS}, {_CALL}) -> Tensor", _jvp, _jvp_fake)
_define(
    "attention_double_backward",
    f"({_TANGENTS}, Tensor grad_out, {_RESULTS}, {_INPUTS}, {_CALL}) -> Tensor[]",
    _double_backward,
    _double_backward_fake,
)
