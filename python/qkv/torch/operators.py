"""The operators ``torch.ops.qkv.*``: what torch's dispatcher, its fake tensors and torch.compile see of attention.

They know no gradients; ``gradients.py`` puts them together. Beside query, key and value every one takes the arguments of
``_CALL``, which the functions below take as two tuples: ``rest``, sinks [heads], mask, bool, lengths [batch], documents
[batch, tokens], seed, an int64 scalar, any of them None, and each bias, broadcastable to the logits, or nothing at all; and
``plain``, causal "", "top-left" or "bottom-right", left and right, the window, -1 for an open side, scale, soft_cap and
dropout. ``saved`` are the output and the log-sum-exp of the forward pass, query, key, value, and ``rest``.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from .. import _qkv

_INPUTS = "Tensor query, Tensor key, Tensor value"
_CALL = (
    "Tensor? sinks, Tensor? mask, Tensor? lengths, Tensor? documents, Tensor? seed, Tensor[] bias, str causal, int left, "
    "int right, float? scale, float soft_cap, float dropout"
)
_RESULTS = "Tensor out, Tensor log_sum_exp"
_TANGENTS = "Tensor? tangent_query, Tensor? tangent_key, Tensor? tangent_value"
_LIBRARY = torch.library.Library("qkv", "DEF")  # the operators live as long as it

_NOTHING: tuple[Any, ...] = (None, None, None, None, None, [])

Plain = tuple[str, int, int, float | None, float, float]


def is_watched(tensor: Tensor) -> bool:
    """Whether a call must go through torch's dispatcher, which takes longer than a small call: for torch.compile, a
    subclass, a mode, a transformation or a trace, and what is not on the CPU."""
    kind = type(tensor)
    return (
        torch.compiler.is_compiling()
        or not (kind is Tensor or kind is torch.nn.Parameter)
        or not tensor.is_cpu
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
    )


def attention(
    query: Tensor, key: Tensor, value: Tensor, rest: Any, plain: Plain, log_sum_exp: bool, weights: bool
) -> Any:
    """The output, the log-sum-exp if it is wanted, the weights if they are."""
    if is_watched(query):
        return torch.ops.qkv.attention.default(query, key, value, *_listed(rest), *plain, log_sum_exp, weights)
    return _qkv._tensor_attention(query, key, value, rest, plain, log_sum_exp, weights, torch.get_num_threads())


def attention_backward(grad_out: Tensor, saved: Any, plain: Plain, needs: Any) -> Any:
    """A gradient for each of query, key, value and rest that ``needs`` says True of, None for the others."""
    if is_watched(grad_out):
        needs = [needed and tensor is not None for needed, tensor in zip(needs, saved[2:])]
        found = iter(torch.ops.qkv.attention_backward.default(grad_out, *_inputs(saved), *plain, needs))
        return tuple(next(found) if needed else None for needed in needs)
    return _qkv._tensor_backward(grad_out, saved, plain, needs, torch.get_num_threads())


def attention_jvp(tangents: Any, saved: Any, plain: Plain) -> Tensor:
    """The tangent of the output along those of query, key and value."""
    tangent: Tensor = torch.ops.qkv.attention_jvp.default(*tangents, *_inputs(saved), *plain)
    return tangent


def attention_double_backward(tangents: Any, grad_out: Tensor, saved: Any, plain: Plain) -> list[Tensor]:
    """Gradients of query, key, value and grad_out of the product of tangents and gradients."""
    return list(torch.ops.qkv.attention_double_backward.default(*tangents, grad_out, *_inputs(saved), *plain))


def _listed(rest: Any) -> tuple[Any, ...]:
    return (*rest[:5], list(rest[5:])) if rest else _NOTHING


def _inputs(saved: Any) -> tuple[Any, ...]:
    return (*saved[:5], *_listed(saved[5:]))


def _unlisted(call: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """rest and plain of what an operator was called with."""
    return (*call[:5], *call[5]), tuple(call[6:12])


def _attention(query: Tensor, key: Tensor, value: Tensor, *call: Any) -> list[Tensor]:
    rest, plain = _unlisted(call)
    log_sum_exp, weights = call[12:]
    return list(_qkv._tensor_attention(query, key, value, rest, plain, log_sum_exp, weights, torch.get_num_threads()))


def _empty_like(tensor: Tensor) -> Tensor:
    """As the extension makes one: strides in the order of the tensor's, the last dimension without gaps."""
    made = torch.empty_like(tensor)
    return made if made.dim() == 0 or made.stride(-1) == 1 else tensor.new_empty(tensor.shape)


def _attention_fake(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> list[Tensor]:
    *_, log_sum_exp, weights = rest
    sums = torch.float64 if query.dtype == torch.float64 else torch.float32
    if value.shape[-1] == query.shape[-1]:
        results = [_empty_like(query)]
    else:
        results = [query.new_empty((*query.shape[:-1], value.shape[-1]))]
    if log_sum_exp:
        results.append(query.new_empty(query.shape[:-1], dtype=sums))
    if weights:
        results.append(query.new_empty((*query.shape[:-1], key.shape[-2]), dtype=sums))
    return results


def _backward(grad_out: Tensor, *call: Any) -> list[Tensor]:
    rest, plain = _unlisted(call[5:])
    needs = (*call[-1], *(False,) * (3 + len(rest) - len(call[-1])))
    found = _qkv._tensor_backward(grad_out, (*call[:5], *rest), plain, needs, torch.get_num_threads())
    return [gradient for gradient in found if gradient is not None]


def _backward_fake(grad_out: Tensor, *call: Any) -> list[Tensor]:
    tensors = (*call[2:10], *call[10])
    return [_empty_like(tensor) for tensor, needed in zip(tensors, call[-1]) if needed and tensor is not None]


def _jvp(*call: Any) -> Tensor:
    rest, plain = _unlisted(call[8:])
    tangent: Tensor = _qkv._tensor_jvp(call[:3], (*call[3:8], *rest), plain, torch.get_num_threads())
    return tangent


def _jvp_fake(*call: Any) -> Tensor:
    return _empty_like(call[3])


def _double_backward(*call: Any) -> list[Tensor]:
    rest, plain = _unlisted(call[9:])
    saved, threads = (*call[4:9], *rest), torch.get_num_threads()
    return list(_qkv._tensor_double_backward(call[:3], call[3], saved, plain, threads))


def _double_backward_fake(*call: Any) -> list[Tensor]:
    return [_empty_like(tensor) for tensor in (*call[6:9], call[3])]


def _each(function: Any, dims: Any, arguments: Any) -> list[Any]:
    """function(tensor, dimension or None) of each tensor among arguments, in lists, too; the others as they are."""
    return [
        _each(function, dim or [None] * len(each), each) if isinstance(each, (list, tuple))
        else function(each, dim) if isinstance(each, Tensor)
        else each
        for dim, each in zip(dims, arguments)
    ]  # fmt: skip


def _vmapped(operator: Any, info: Any, dims: Any, *call: Any) -> tuple[Any, Any]:
    """The rule of vmap: one more dimension in front of each tensor, or a call each where one has no place for it."""
    given = dict(zip((argument.name for argument in operator._schema.arguments), zip(call, dims)))
    biases, of_biases = given["bias"]
    broadcast = [given["query"], given["mask"], *zip(biases, of_biases or [None] * len(biases))]
    ranks = {tensor.dim() - (dim is not None) for tensor, dim in broadcast if tensor is not None}
    if len(ranks) == 1 and all(given[name][0] is None for name in ("sinks", "lengths", "documents", "seed")):
        size = info.batch_size
        front = lambda tensor, dim: tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)  # noqa: E731
        results = operator(*_each(front, dims, call))
    else:
        one = lambda at: lambda tensor, dim: tensor if dim is None else tensor.select(dim, at)  # noqa: E731
        each = [operator(*_each(one(at), dims, call)) for at in range(info.batch_size)]
        results = torch.stack(each) if isinstance(each[0], Tensor) else [torch.stack(parts) for parts in zip(*each)]
    return results, 0 if isinstance(results, Tensor) else [0] * len(results)


def _define(name: str, signature: str, run: Any, fake: Any) -> None:
    _LIBRARY.define(name + signature)
    _LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"qkv::{name}", fake, lib=_LIBRARY)
    operator = getattr(torch.ops.qkv, name).default
    torch.library.register_vmap(f"qkv::{name}", functools.partial(_vmapped, operator), lib=_LIBRARY)


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
