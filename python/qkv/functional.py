"""Attention under the names, defaults and polarity of torch.nn.functional."""

from __future__ import annotations

import sys
from typing import Any

import numpy

from . import _qkv
from .arrays import Array, ArrayT


def scaled_dot_product_attention(
    query: ArrayT,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> ArrayT:
    """``softmax(query key^T scale + attn_mask) value``, as torch.nn.functional.scaled_dot_product_attention.

    query [..., heads, q_len, head_dim], key [..., heads, k_len, head_dim], value [..., heads, k_len, value_dim]; without
    heads [q_len, head_dim]. All but the last two dimensions are broadcast. attn_mask: bool, where True means "takes part",
    or numbers that are added, float32 or of query's type; broadcastable to [..., heads, q_len, k_len]. is_causal: top-left,
    not together with attn_mask. dropout_p draws its seed from ``random``. enable_gqa: key and value may have fewer heads,
    which divide the query's. Tensors of torch are computed as by qkv.torch.attention(): they may require gradients, and
    dropout draws from torch's generator.

    A row that is wholly masked gives 0. ValueError and TypeError as qkv.attention().

    >>> import numpy, qkv
    >>> x = numpy.eye(2, dtype="f")
    >>> qkv.scaled_dot_product_attention(x, x, x, is_causal=True)[0]
    array([1., 0.], dtype=float32)
    """
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention: attn_mask and is_causal exclude each other")
    query, key, value = _broadcast(query, key, value, enable_gqa)
    if attn_mask is not None:
        attn_mask = _mask_of(attn_mask, query)
    mask, bias = (attn_mask, None) if _type_of(attn_mask) == "bool" else (None, attn_mask)
    options: dict[str, Any] = {"mask": "causal" if is_causal else mask, "bias": bias, "scale": scale}
    if dropout_p:
        options["dropout"] = dropout_p
    if all(_is_tensor(each) for each in (query, key, value)):
        from .torch import attention

        return attention(query, key, value, **options)
    if dropout_p:
        import random  # it takes long to import

        options["seed"] = random.getrandbits(64)
    return _qkv.attention(query, key, value, **options)


def _broadcast(query: Any, key: Any, value: Any, enable_gqa: bool) -> tuple[Any, Any, Any]:
    shapes = [tuple(getattr(each, "shape", ())) for each in (query, key, value)]
    if len({shape[:-2] for shape in shapes}) == 1 or any(len(shape) < 2 for shape in shapes):  # the second is refused
        return query, key, value
    kept = -3 if enable_gqa else -2
    try:
        rows = numpy.broadcast_shapes(*(shape[:kept] for shape in shapes))
        kv_heads = numpy.broadcast_shapes(*(shape[kept:-2] for shape in shapes[1:]))
    except ValueError:
        given = ", ".join(f"{name} {list(shape)}" for name, shape in zip(("query", "key", "value"), shapes))
        hint = "" if enable_gqa else "; enable_gqa=True shares heads of keys"
        raise ValueError(f"scaled_dot_product_attention: {given} cannot be broadcast{hint}") from None
    heads = (shapes[0][kept:-2], kv_heads, kv_heads)
    query, key, value = (_expanded(x, rows + own + s[-2:]) for x, own, s in zip((query, key, value), heads, shapes))
    return query, key, value


def _expanded(array: Any, shape: tuple[int, ...]) -> Any:
    if tuple(array.shape) == shape:
        return array
    if _is_tensor(array):
        return array.expand(shape)
    return (numpy if isinstance(array, numpy.ndarray) else array.__array_namespace__()).broadcast_to(array, shape)


def _mask_of(mask: Any, query: Any) -> Any:
    """A mask for qkv.attention(): numbers in the type of sums."""
    kind, own = _type_of(mask), _type_of(query)
    if not kind:
        raise TypeError(f"attn_mask must be an array, got {type(mask).__name__}")
    if kind not in ("bool", "float32", own):
        raise ValueError(f"scaled_dot_product_attention: attn_mask must be bool, float32 or {own}, got {kind}")
    sums = "float64" if own == "float64" else "float32"
    return mask if kind in ("bool", sums) or _is_tensor(mask) else mask.astype(sums)


def _is_tensor(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _type_of(array: Any) -> str:
    return str(getattr(array, "dtype", "")).rpartition(".")[2]
