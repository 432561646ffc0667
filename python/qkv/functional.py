"""Attention under the names, defaults and polarity of torch.nn.functional."""

from __future__ import annotations

from typing import Any

from . import _qkv
from .arrays import Array


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """``softmax(query key^T scale + attn_mask) value``, as torch.nn.functional.scaled_dot_product_attention has it.

    query [..., heads, q_len, head_dim], key [..., heads, k_len, head_dim], value [..., heads, k_len, value_dim]; without
    heads [q_len, head_dim]. attn_mask: bool, where True means "takes part", or float32 (float64 for float64 inputs), which
    is added; broadcastable to [..., heads, q_len, k_len]. is_causal: top-left, not together with attn_mask. dropout_p
    draws its seed from ``random``. enable_gqa: key and value may have fewer heads, which divide those of query.

    A row that is wholly masked gives 0. ValueError and TypeError as qkv.attention().

    >>> import numpy, qkv
    >>> x = numpy.eye(2, dtype="f")
    >>> qkv.scaled_dot_product_attention(x, x, x, is_causal=True)[0]
    array([1., 0.], dtype=float32)
    """
    if attn_mask is not None and is_causal:
        raise ValueError("scaled_dot_product_attention: attn_mask and is_causal exclude each other")
    heads, kv_heads = _heads(query), _heads(key)
    if heads != kv_heads and not enable_gqa:
        raise ValueError(
            f"scaled_dot_product_attention: query has {heads} heads and key {kv_heads}; enable_gqa=True shares them"
        )
    options: dict[str, Any] = {"scale": scale, "dropout": dropout_p}
    if dropout_p:
        import random  # it takes long to import

        options["seed"] = random.getrandbits(64)
    if is_causal:
        options["mask"] = _qkv.causal()
    elif attn_mask is not None and _is_bool(attn_mask):
        options["mask"] = _qkv.boolean(attn_mask)
    elif attn_mask is not None:
        options["bias"] = _qkv.bias(attn_mask)
    return _qkv.attention(query, key, value, **options)


def _heads(array: Any) -> int:
    shape: Any = getattr(array, "shape", ())
    return int(shape[-3]) if len(shape) > 2 else 1


def _is_bool(array: Any) -> bool:
    return str(getattr(array, "dtype", "")).endswith("bool")
