"""attention() on tensors of torch, with gradients."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch import Tensor

from .. import _qkv
from . import operators
from .gradients import Attention, Constants, PlainAttention, TransformedAttention, is_transformed

_WANTED = ("log_sum_exp", "weights")
_NOTHING = (False, False)
_NONE: tuple[Any, ...] = ()


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | Sequence[Any] | None = None,
    bias: Tensor | Sequence[Tensor] | None = _NONE,
    causal: str | None = None,
    window: tuple[int, int] = (-1, -1),
    lengths: Tensor | Sequence[int] | None = None,
    documents: Tensor | Sequence[Any] | None = None,
    scale: float | None = None,
    soft_cap: float = 0.0,
    dropout: float = 0.0,
    seed: int | None = None,
    sinks: Tensor | None = None,
    want: Sequence[str] = _NONE,
) -> Any:
    """``dropout(softmax(mask(soft_cap(scale query key^T) + bias))) value`` in one fused pass, as qkv.attention() has it.

    query [..., heads, q_len, head_dim], key [..., kv_heads, k_len, head_dim], value [..., kv_heads, k_len, value_dim],
    of one type: float32, float64, bfloat16 or float16; torch.autocast casts them as for torch's own attention. mask:
    bool, True means "may attend"; bias: added to the logits, up to four; both broadcast to [batch, heads, q_len, k_len].
    causal: "top-left" or "bottom-right". window: keys from ``p - left`` to ``p + right`` of a query at p, -1 leaves a side
    open. lengths [batch]: keys of each sequence. documents [batch, tokens]: a query sees the keys with its own number.
    mask, lengths and documents may be lists. dropout draws its seed from torch's generator unless one is given. sinks
    [heads]: the logit of one more key without a value. want: "log_sum_exp" and "weights" (before dropout), given back after
    the output in a tuple, without gradient. Threads: torch.get_num_threads().

    Gradients go to query, key, value, bias and sinks. Second derivatives and forward mode exist for query, key and value
    in float32 and float64, without soft_cap and dropout; third ones, and forward mode of forward mode, are refused. Works
    under torch.compile(fullgraph=True) and the transformations of torch.func, of which vmap makes one call of many; a call
    each where there are lengths, documents, sinks, dropout, or a mask or bias with fewer dimensions than query.

    TypeError and ValueError as qkv.attention() raises them.

    >>> import torch, qkv.torch
    >>> x = torch.eye(2, requires_grad=True)
    >>> qkv.torch.attention(x, x, x, causal="top-left")[0].detach()
    tensor([1., 0.])
    """
    if type(window) is not tuple or len(window) != 2:
        window = _pair_of(window)
    plain = (causal or "", *window, scale, soft_cap, dropout)
    if (
        not torch.compiler.is_dynamo_compiling()
        and mask is lengths is documents is sinks is None
        and bias is want is _NONE
        and not dropout
    ):  # most calls: all that follows would take longer than a small one
        out = _qkv._plain_attention(query, key, value, plain)
        if out is True:
            return PlainAttention.apply(plain, query, key, value)
        if out is not None:
            return out
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            _refuse(name, tensor)
    if isinstance(want, str) or not isinstance(want, Sequence):
        raise TypeError(f'want must be a tuple of names such as ("weights",), got {type(want).__name__}')
    for name in want:
        if name not in _WANTED:
            raise ValueError(f"want names {name!r}; known are log_sum_exp and weights")
    if torch.is_autocast_enabled("cpu"):
        query, key, value = _autocast(query), _autocast(key), _autocast(value)
    biases = () if bias is None else (bias,) if isinstance(bias, Tensor) or not isinstance(bias, Sequence) else tuple(bias)
    drawn = None
    if dropout:
        drawn = torch.randint(2**63 - 1, ()) if seed is None else _seed_of(seed)
    rest: tuple[Tensor | None, ...] = ()
    if biases or not (sinks is mask is lengths is documents is drawn is None):
        sums = torch.float64 if query.dtype == torch.float64 else torch.float32
        sinks = None if sinks is None else _floats(sinks, "sinks", sums)
        mask, lengths, documents = _whole(mask, "mask"), _whole(lengths, "lengths"), _whole(documents, "documents")
        rest = (sinks, mask, lengths, documents, drawn, *(_floats(each, "bias", sums) for each in biases))
    wanted = ("log_sum_exp" in want, "weights" in want) if want else _NOTHING
    transformed = is_transformed()
    if transformed or torch.is_grad_enabled() and _needs_gradient(query, key, value, *rest):
        if transformed:
            results = TransformedAttention.apply(Constants(wanted, plain), query, key, value, *rest)
        else:
            compiling = torch.compiler.is_dynamo_compiling()
            tensors = (query, key, value, *rest)
            results = Attention.apply(wanted, plain, *(_distinct(tensors) if compiling else tensors))
    else:
        results = operators.attention(query, key, value, rest, plain, *wanted)
    if not want:
        return results if isinstance(results, Tensor) else results[0]
    given = _WANTED if transformed else tuple(name for name in _WANTED if name in want)
    return (results[0], *(results[1 + given.index(name)] for name in want))


def _pair_of(window: Any) -> tuple[int, int]:
    if isinstance(window, Sequence) and not isinstance(window, str) and len(window) == 2:
        return window[0], window[1]
    raise TypeError(f"window must be (left, right), -1 for an open side, got {window!r}")


def _seed_of(seed: int) -> Tensor:
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"seed must be a whole number, got {type(seed).__name__}")
    seed = operator.index(seed)
    if not 0 <= seed < 2**64:
        raise ValueError("seed must be a number from 0 to 2^64 - 1")
    return torch.tensor(seed if seed < 2**63 else seed - 2**64)  # the same bits in an int64


def _floats(given: Any, name: str, dtype: torch.dtype) -> Tensor:
    if not isinstance(given, Tensor):
        _refuse(name, given)
    if not given.is_floating_point():
        raise TypeError(f"{name} must be of floats, got {given.dtype}")
    return given.to(dtype)


def _whole(given: Any, name: str) -> Tensor | None:
    """Of whole numbers or bools, which may be a list."""
    if given is None or isinstance(given, Tensor):
        return given
    if isinstance(given, Sequence) and not isinstance(given, str):
        return torch.as_tensor(given)
    _refuse(name, given)


def _distinct(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The same tensors, each another object, without which torch.compile traces no function of its own."""
    found: list[Tensor | None] = []
    for tensor in tensors:
        if tensor is not None and any(tensor is other for other in found):
            tensor = tensor.view_as(tensor)
        found.append(tensor)
    return found


def _autocast(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype("cpu"))


def _needs_gradient(*tensors: Tensor | None) -> bool:
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def _refuse(name: str, given: Any) -> NoReturn:
    hint = f"; torch.as_tensor({name}) is one" if hasattr(given, "__array__") else ""
    if isinstance(given, _qkv.Mask):
        hint = "; causal=, window=, lengths= and documents= say what masks of qkv.attention() do"
    raise TypeError(f"{name} must be a torch.Tensor, got {type(given).__name__}{hint}")
