"""The operators ``torch.ops.qkv.*``: attention for torch's dispatcher, its fake tensors and torch.compile.

They have no gradients; ``gradients.py`` adds them. After query, key and value each takes the options of qkv.attention() as
``call.py`` takes them apart: ``tensors``, and ``call``, a text. ``saved`` are the output and the log-sum-exp of
the forward pass, query, key, value, and ``tensors``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _qkv
from .call import may_have_batches, together

_INPUTS = "Tensor query, Tensor key, Tensor value"
_CALL = "Tensor[] tensors, str call"
_RESULTS = "Tensor out, Tensor log_sum_exp"
_TANGENTS = "Tensor? tangent_query, Tensor? tangent_key, Tensor? tangent_value"
_LIBRARY = torch.library.Library("qkv", "DEF")  # the operators live as long as it


def attention(query: Tensor, key: Tensor, value: Tensor, tensors: Sequence[Tensor], call: str, count: int) -> Any:
    """The first ``count`` of the output, the log-sum-exp and the weights."""
    if torch.compiler.is_compiling() or _qkv._is_watched(query):
        return torch.ops.qkv.attention.default(query, key, value, list(tensors), call, count)
    return _qkv._tensor_attention(query, key, value, together(call, tensors), count)


def attention_backward(grad_out: Tensor, saved: Sequence[Tensor], call: str, needs: Any) -> Any:
    """A gradient for each of query, key, value and tensors that ``needs`` says True of, None for the others."""
    if torch.compiler.is_compiling() or _qkv._is_watched(grad_out):
        found = iter(torch.ops.qkv.attention_backward.default(grad_out, *_inputs(saved), call, list(needs)))
        return tuple(next(found) if needed else None for needed in needs)
    return _qkv._tensor_backward(grad_out, tuple(saved[:5]), together(call, saved[5:]), tuple(needs))


def attention_jvp(tangents: Any, saved: Sequence[Tensor], call: str) -> Tensor:
    """The tangent of the output along the tangents of query, key and value."""
    return torch.ops.qkv.attention_jvp.default(*tangents, *_inputs(saved), call)


def attention_double_backward(tangents: Any, grad_out: Tensor, saved: Sequence[Tensor], call: str) -> list[Tensor]:
    """Gradients of query, key, value and grad_out of the product of tangents and gradients."""
    return list(torch.ops.qkv.attention_double_backward.default(*tangents, grad_out, *_inputs(saved), call))


def _inputs(saved: Sequence[Tensor]) -> tuple[Any, ...]:
    return (*saved[:5], list(saved[5:]))


def _attention(query: Tensor, key: Tensor, value: Tensor, tensors: list[Tensor], call: str, count: int) -> list[Tensor]:
    return list(_qkv._tensor_attention(query, key, value, together(call, tensors), count))


def _empty_like(tensor: Tensor) -> Tensor:
    """As the extension makes one: strides in the order of the tensor's, the last dimension without gaps."""
    made = torch.empty_like(tensor)
    return made if made.dim() == 0 or made.stride(-1) == 1 else tensor.new_empty(tensor.shape)


def _attention_fake(
    query: Tensor, key: Tensor, value: Tensor, tensors: list[Tensor], call: str, count: int
) -> list[Tensor]:
    sums = torch.float64 if query.dtype == torch.float64 else torch.float32
    same = value.shape[-1] == query.shape[-1]
    results = [
        _empty_like(query) if same else query.new_empty((*query.shape[:-1], value.shape[-1])),
        query.new_empty(query.shape[:-1], dtype=sums),
        query.new_empty((*query.shape[:-1], key.shape[-2]), dtype=sums),
    ]
    return results[:count]


def _backward(grad_out: Tensor, *call: Any) -> list[Tensor]:
    *saved, tensors, text, needs = call
    found = _qkv._tensor_backward(grad_out, tuple(saved), together(text, tensors), tuple(needs))
    return [gradient for gradient in found if gradient is not None]


def _backward_fake(grad_out: Tensor, *call: Any) -> list[Tensor]:
    *saved, tensors, _, needs = call
    return [_empty_like(tensor) for tensor, needed in zip((*saved[2:], *tensors), needs) if needed]


def _jvp(*call: Any) -> Tensor:
    return _qkv._tensor_jvp(call[:3], call[3:8], together(call[9], call[8]))


def _jvp_fake(*call: Any) -> Tensor:
    return _empty_like(call[3])


def _double_backward(*call: Any) -> list[Tensor]:
    return list(_qkv._tensor_double_backward(call[:3], call[3], call[4:9], together(call[10], call[9])))


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
    tensors, of_tensors = given["tensors"]
    broadcast = [given["query"], *zip(tensors, of_tensors or [None] * len(tensors))]
    ranks = {tensor.dim() - (dim is not None) for tensor, dim in broadcast}
    if len(ranks) == 1 and may_have_batches(given["call"][0], len(tensors)):
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


_define("attention", f"({_INPUTS}, {_CALL}, int count) -> Tensor[]", _attention, _attention_fake)
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
