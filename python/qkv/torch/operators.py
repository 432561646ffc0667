"""The operators ``torch.ops.qkv.*``: what torch's dispatcher, its fake tensors and torch.compile see of attention.

They know no gradients; ``gradients.py`` puts them together. Every one takes the arguments of ``_CALL``:
sinks [heads]; bias, each broadcastable to the logits; mask, bool; lengths [batch]; documents [batch, tokens]; seed, an
int64 scalar; causal "", "top-left" or "bottom-right"; left, right: the window, -1 for an open side.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import _qkv

_CALL = (
    "Tensor query, Tensor key, Tensor value, Tensor? sinks, Tensor[] bias, Tensor? mask, Tensor? lengths, "
    "Tensor? documents, Tensor? seed, str causal, int left, int right, float? scale, float soft_cap, float dropout"
)
_TANGENTS = "Tensor? tangent_query, Tensor? tangent_key, Tensor? tangent_value"
_LIBRARY = torch.library.Library("qkv", "DEF")  # the operators live as long as it


def _options(
    sinks: Tensor | None,
    bias: list[Tensor],
    mask: Tensor | None,
    lengths: Tensor | None,
    documents: Tensor | None,
    seed: Tensor | None,
    causal: str,
    left: int,
    right: int,
    scale: float | None,
    soft_cap: float,
    dropout: float,
) -> dict[str, Any]:
    options: dict[str, Any] = {"threads": torch.get_num_threads()}
    masks = []
    if causal:
        align: Any = causal
        masks.append(_qkv.causal(align))
    if left >= 0 or right >= 0:
        masks.append(_qkv.window(left, right))
    if lengths is not None:
        masks.append(_qkv.lengths(lengths))
    if documents is not None:
        masks.append(_qkv.documents(documents))
    if mask is not None:
        masks.append(_qkv.boolean(mask))
    if masks:
        options["mask"] = masks[0]
        for other in masks[1:]:
            options["mask"] &= other
    if bias:
        options["bias"] = _qkv.bias(_rows(bias[0]))
        for other in bias[1:]:
            options["bias"] += _qkv.bias(_rows(other))
    if sinks is not None:
        options["sinks"] = _rows(sinks)
    if scale is not None:
        options["scale"] = scale
    if soft_cap:
        options["soft_cap"] = soft_cap
    if dropout:
        options["dropout"] = dropout
        options["seed"] = None if seed is None else int(seed)
    return options


def _rows(tensor: Tensor) -> Tensor:
    """The tensor as the library reads it: no gradient, the last dimension without gaps."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _near(tensor: Tensor, query: Tensor) -> Tensor:
    """Keys or values as many queries read them best.

    Heads that were split from rows lie apart. From 1,024 keys on their tiles push each other out of the cache at every
    block of queries: measured, a copy then takes 0.6 to 0.75 of the time, below 512 keys more than it saves.
    """
    tensor = _rows(tensor)
    keys, size = tensor.shape[-2:]
    if keys >= 1024 and query.shape[-2] >= 64 and tensor.stride(-2) > size:
        return tensor.contiguous()
    return tensor


def _output(query: Tensor, value: Tensor) -> Tensor:
    # In the order of query's strides: heads that were split from rows are merged into rows again without a copy.
    if value.shape[-1] == query.shape[-1]:
        return torch.empty_like(query)
    return query.new_empty((*query.shape[:-1], value.shape[-1]))


def _sums(query: Tensor) -> torch.dtype:
    return torch.float64 if query.dtype == torch.float64 else torch.float32


def _attention(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> list[Tensor]:
    *call, log_sum_exp, weights = rest
    query, key, value = _rows(query), _near(key, query), _near(value, query)
    out = _output(query, value)
    want = ("log_sum_exp",) * log_sum_exp + ("weights",) * weights
    results = _qkv.attention(query, key, value, out=out, want=want, **_options(*call))
    return list(results) if want else [results]


def _attention_fake(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> list[Tensor]:
    *_, log_sum_exp, weights = rest
    results = [_output(_rows(query), value)]
    if log_sum_exp:
        results.append(query.new_empty(query.shape[:-1], dtype=_sums(query)))
    if weights:
        results.append(query.new_empty((*query.shape[:-1], key.shape[-2]), dtype=_sums(query)))
    return results


def _backward(grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor,
              *rest: Any) -> list[Tensor]:  # fmt: skip
    *call, want = rest
    forward = (_rows(query), _near(key, query), _near(value, query), *map(_rows, (out, log_sum_exp, grad_out)))
    gradients = []
    for gradient in _qkv.attention_backward(*forward, want=tuple(want), **_options(*call)):
        gradients += gradient if isinstance(gradient, list) else [gradient]
    return gradients


def _backward_fake(grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, query: Tensor, key: Tensor, value: Tensor,
                   sinks: Tensor | None, bias: list[Tensor], *rest: Any) -> list[Tensor]:  # fmt: skip
    of = {"query": [query], "key": [key], "value": [value], "sinks": [sinks], "bias": bias}
    return [_like(tensor) for name in rest[-1] for tensor in of[name] if tensor is not None]


def _like(tensor: Tensor) -> Tensor:
    return tensor.new_empty(tensor.shape)


def _jvp(out: Tensor, log_sum_exp: Tensor, tangent_query: Tensor | None, tangent_key: Tensor | None,
         tangent_value: Tensor | None, query: Tensor, key: Tensor, value: Tensor, *call: Any) -> Tensor:  # fmt: skip
    forward = (_rows(tensor) for tensor in (query, key, value, out, log_sum_exp))
    options: Any = {**_tangents(tangent_query, tangent_key, tangent_value), **_options(*call)}
    tangent: Tensor = _qkv.attention_jvp(*forward, **options)[0]
    return tangent


def _jvp_fake(out: Tensor, *rest: Any) -> Tensor:
    return _like(out)


def _double_backward(grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, tangent_query: Tensor | None,
                     tangent_key: Tensor | None, tangent_value: Tensor | None, query: Tensor, key: Tensor, value: Tensor,
                     *call: Any) -> list[Tensor]:  # fmt: skip
    forward = (_rows(tensor) for tensor in (query, key, value, out, log_sum_exp, grad_out))
    options: Any = {**_tangents(tangent_query, tangent_key, tangent_value), **_options(*call)}
    return list(_qkv.attention_double_backward(*forward, **options))


def _double_backward_fake(grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, tangent_query: Tensor | None,
                          tangent_key: Tensor | None, tangent_value: Tensor | None, query: Tensor, key: Tensor,
                          value: Tensor, *rest: Any) -> list[Tensor]:  # fmt: skip
    return [_like(tensor) for tensor in (query, key, value, grad_out)]


def _tangents(query: Tensor | None, key: Tensor | None, value: Tensor | None) -> dict[str, Tensor]:
    named = {"tangent_query": query, "tangent_key": key, "tangent_value": value}
    return {name: _rows(tensor) for name, tensor in named.items() if tensor is not None}


def _define(name: str, signature: str, run: Any, fake: Any) -> Any:
    _LIBRARY.define(name + signature)
    _LIBRARY.impl(name, run, "CPU")
    torch.library.register_fake(f"qkv::{name}", fake, lib=_LIBRARY)
    operator = getattr(torch.ops.qkv, name).default

    def call(first: Tensor, *rest: Any) -> Any:
        # The dispatcher, which takes longer than a small call, only for those who look at operators.
        if torch.compiler.is_compiling() or not _is_plain(first):
            return operator(first, *rest)
        return run(first, *rest)

    return call


def _is_plain(tensor: Tensor) -> bool:
    """Whether nobody watches calls: no subclass, mode or transformation."""
    kind = type(tensor)
    return (
        (kind is Tensor or kind is torch.nn.Parameter)
        and tensor.is_cpu
        and not torch._C._len_torch_dispatch_stack()
        and not torch._C._are_functorch_transforms_active()
    )


_KEPT = "Tensor out, Tensor log_sum_exp"
attention = _define(
    "attention", f"({_CALL}, bool log_sum_exp, bool weights) -> Tensor[]", _attention, _attention_fake
)
attention_backward = _define(
    "attention_backward", f"(Tensor grad_out, {_KEPT}, {_CALL}, str[] want) -> Tensor[]", _backward, _backward_fake
)
attention_jvp = _define("attention_jvp", f"({_KEPT}, {_TANGENTS}, {_CALL}) -> Tensor", _jvp, _jvp_fake)
attention_double_backward = _define(
    "attention_double_backward",
    f"(Tensor grad_out, {_KEPT}, {_TANGENTS}, {_CALL}) -> Tensor[]",
    _double_backward,
    _double_backward_fake,
)
