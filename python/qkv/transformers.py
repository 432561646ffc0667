"""Attention for Hugging Face transformers, under the name "qkv"."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from .torch import attention

try:  # where models keep what they were asked for; many do not hand output_attentions down
    from transformers.utils.output_capturing import _active_collector as _wanted
except ImportError:
    _wanted = None

# What models hand down to every layer and attention does not read.
_READ_ELSEWHERE = frozenset(
    "cache_position logits_to_keep max_length_k max_length_q num_items_in_batch output_hidden_states "
    "output_router_logits position_ids return_dict token_type_ids use_cache".split()
)


def register() -> None:
    """Makes ``attn_implementation="qkv"`` known to transformers, with the masks that belong to it.

    >>> import qkv.transformers
    >>> qkv.transformers.register()
    """
    AttentionInterface.register("qkv", attention_forward)
    AttentionMaskInterface.register("qkv", sdpa_mask)  # without masks of its own a name gets none at all


def attention_forward(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    output_attentions: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """What AttentionInterface calls: (output [batch, q_len, heads, head_dim], weights or None).

    attention_mask: bool, True means "may attend", or numbers that are added; it already has the sliding window. Without
    one, several queries of a causal module see the keys up to their own index, as under "sdpa". The weights of
    output_attentions are those before dropout.

    ValueError for an argument that is not known here: it could change the result.
    """
    for name, given in others.items():
        if name not in _READ_ELSEWHERE and given is not None and given is not False:
            raise ValueError(f'attn_implementation="qkv" does not know {name}, which could change the result')
    q_len = query.shape[2]
    bias = [] if position_bias is None else [position_bias]
    mask, causal, window = None, None, (-1, -1)
    if attention_mask is None:
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        if q_len > 1 and is_causal:
            causal = "top-left"
        if sliding_window is not None:
            window = (sliding_window - 1, 0 if causal or q_len == 1 else sliding_window - 1)
            if q_len == 1:
                key, value, bias = _last(key, value, bias, sliding_window)
                window = (-1, -1)
    elif attention_mask.dtype == torch.bool:
        mask = attention_mask
    else:
        bias.append(attention_mask)
    output_attentions = output_attentions or _are_weights_captured()
    results = attention(
        query,
        key,
        value,
        mask=mask,
        bias=bias,
        causal=causal,
        window=window,
        documents=_documents(query, key, cu_seq_lens_q, cu_seq_lens_k),
        scale=scaling,
        soft_cap=softcap or 0.0,
        dropout=dropout,
        sinks=s_aux,
        want=("weights",) if output_attentions else (),
    )
    out, weights = results if output_attentions else (results, None)
    return out.transpose(1, 2).contiguous(), weights


def _are_weights_captured() -> bool:
    if _wanted is None or torch.compiler.is_compiling():
        return False
    return any("attentions" in kind for kind in _wanted.get() or ())


def _last(key: Tensor, value: Tensor, bias: list[Tensor], count: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """The keys that a single query's window reaches: the last ones."""
    return key[:, :, -count:], value[:, :, -count:], [each[..., -count:] for each in bias]


def _documents(query: Tensor, key: Tensor, starts: Tensor | None, key_starts: Tensor | None) -> Tensor | None:
    """The number of each token's sequence in a packed row."""
    if starts is None and key_starts is None:
        return None
    if starts is None or key_starts is None or not torch.equal(starts, key_starts):
        raise ValueError("cu_seq_lens_q and cu_seq_lens_k must be given together and be equal")
    if query.shape[0] != 1 or query.shape[2] != key.shape[2] or int(starts[-1]) != query.shape[2]:
        raise ValueError("cu_seq_lens_q must be the sequences of one row without a cache of keys")
    return torch.bucketize(torch.arange(query.shape[2]), starts[1:], right=True)[None]
