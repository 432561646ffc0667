"""Attention for Hugging Face transformers, under the name "qkv"."""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import sdpa_mask

from .options import AttentionOptions, Bias, Mask
from .torch.layers import attended

try:  # models keep the requested outputs there; many do not pass output_attentions down
    from transformers.utils.output_capturing import _active_collector as _wanted
except ImportError:
    _wanted = None

# What models hand down to every layer and attention does not read.
_READ_ELSEWHERE = frozenset(
    "cache_position grid_thw logits_to_keep max_length_k max_length_q num_items_in_batch output_hidden_states "
    "output_router_logits position_ids return_dict token_type_ids use_cache".split()
)


def register() -> None:
    """Registers ``attn_implementation="qkv"`` with transformers, including its masks.

    From then on a model whose class has attention of its own, which never asks for an implementation by name, raises
    ValueError when it is made with "qkv" or set to it: its masks would be wrong.

    >>> import qkv.transformers
    >>> qkv.transformers.register()
    """
    AttentionInterface.register("qkv", attention_forward)
    AttentionMaskInterface.register("qkv", sdpa_mask)  # without masks of its own a name gets none at all
    _wrap("get_correct_attn_implementation", "requested_attention", _check_request)
    _wrap("set_attn_implementation", "attn_implementation", _check_setting)


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
    indices: Tensor | None = None,
    output_attentions: bool | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    **others: Any,
) -> tuple[Tensor, Tensor | None]:
    """Called by AttentionInterface: (output [batch, q_len, heads, head_dim], weights or None).

    attention_mask: bool, True means "may attend", or numbers that are added; it already has the sliding window. Without
    one, several queries of a causal module are the last of its tokens and see the keys up to their own. indices [batch,
    q_len, count]: the only keys that each query may see. The weights of output_attentions are those before dropout.

    ValueError for an argument that is not known here: it could change the result.
    """
    for name, given in others.items():
        if name not in _READ_ELSEWHERE and given is not None and given is not False:
            raise ValueError(
                f'attn_implementation="qkv" does not know {name}, which {type(module).__name__} hands over and which could '
                'change the result; use attn_implementation="eager"'
            )
    q_len, k_len = query.shape[2], key.shape[2]
    bias: Any = position_bias
    mask: Any = None
    if attention_mask is None:
        if is_causal is None:
            is_causal = getattr(module, "is_causal", True)
        if q_len > 1 and is_causal:
            mask = Mask.causal("top-left" if q_len == k_len else "bottom-right")
        if sliding_window is not None and q_len == 1:  # the keys that its window reaches: the last ones
            key, value = key[:, :, -sliding_window:], value[:, :, -sliding_window:]
            bias = None if bias is None else bias[..., -sliding_window:]
        elif sliding_window is not None:
            window = Mask.window(sliding_window - 1, 0 if is_causal else sliding_window - 1)
            mask = window if mask is None else mask & window
    elif attention_mask.dtype == torch.bool:
        mask = attention_mask
    else:
        bias = attention_mask if bias is None else Bias.view(bias) + Bias.view(attention_mask)
    if indices is not None:
        chosen = indices.new_zeros((*indices.shape[:2], k_len), dtype=torch.bool).scatter(-1, indices.long(), True)[:, None]
        mask = chosen if mask is None else mask & chosen
    documents = _documents(query, key, cu_seq_lens_q, cu_seq_lens_k)
    if documents is not None:
        mask = Mask.documents(documents) if mask is None else Mask.documents(documents) & mask
    options: AttentionOptions = {"mask": mask, "bias": bias, "scale": scaling, "sinks": s_aux, "soft_cap": softcap or 0.0}
    if dropout:
        options["dropout"] = dropout
    out, weights = attended(query, key, value, output_attentions or _are_weights_captured(), options)
    return out.transpose(1, 2).contiguous(), weights


def _wrap(name: str, parameter: str, check: Any) -> None:
    """Makes a method of PreTrainedModel run a check of its first parameter before it, once however often it is wrapped."""
    method = getattr(PreTrainedModel, name)
    if hasattr(method, "_qkv_check"):
        return

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        check(self, args[0] if args else kwargs.get(parameter))
        return method(self, *args, **kwargs)

    checked._qkv_check = check  # type: ignore[attr-defined]
    setattr(PreTrainedModel, name, checked)


def _check_request(model: Any, requested: str | None) -> None:
    """For get_correct_attn_implementation, which every model and sub-model calls when it is made."""
    if requested != "qkv":
        return
    for kind in type(model).__mro__:
        reason = _reason_to_refuse(kind) if issubclass(kind, PreTrainedModel) and kind is not PreTrainedModel else ""
        if reason:
            sdpa = ' or "sdpa"' if model._supports_sdpa and kind.__name__ not in _REFUSED else ""
            raise ValueError(f'{type(model).__name__} {reason}; use attn_implementation="eager"{sdpa}')


def _check_setting(model: Any, requested: str | dict[str, Any] | None) -> None:
    """For set_attn_implementation, which only logs a warning where it leaves a model as it was."""
    if requested != "qkv" and not isinstance(requested, dict):
        return
    wanted = dict(_settings(model.config, requested))
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            _check_request(module, wanted.get(id(module.config), wanted[id(model.config)]))


def _settings(config: Any, requested: Any) -> Iterator[tuple[int, str]]:
    """The ids of a config and its sub-configs, and what set_attn_implementation sets each to."""
    named = requested if isinstance(requested, dict) else None
    yield id(config), requested if named is None else named.get("", config._attn_implementation)
    for name in config.sub_configs:
        part = getattr(config, name, None)
        if part is not None:
            yield from _settings(part, requested if named is None else named.get(name, part._attn_implementation))


_OF_ITS_OWN = 'has attention of its own, which attn_implementation="qkv" does not reach'
_CALLED_CAUSAL = 'tells attn_implementation="qkv" that attention without a mask is causal, which it is not'
# Files with attention of both kinds, or where is_causal is wrong.
_REFUSED = {
    "BigBirdPegasusEncoder": _OF_ITS_OWN,
    "BridgeTowerModel": _CALLED_CAUSAL,
    "Phi4MultimodalVisionModel": _CALLED_CAUSAL,
}


def _reason_to_refuse(kind: type) -> str:
    """Why the models of a class cannot be right; empty if they can."""
    return _REFUSED.get(kind.__name__) or (_OF_ITS_OWN if _computes_attention(kind.__module__) else "")


@functools.cache
def _computes_attention(name: str) -> bool:
    """Whether a file of models has classes of attention and never asks for an implementation, or knows a few by name."""
    try:
        source = inspect.getsource(sys.modules[name])
    except (KeyError, OSError, TypeError):  # typed into an interpreter
        return False
    if re.search(r"_CLASSES\[(self\.)?config\._attn_implementation\]", source):
        return True
    return bool(re.search(r"^class \w*Attention\w*\(nn\.Module\):", source, re.MULTILINE)) and (
        "ALL_ATTENTION_FUNCTIONS" not in source
    )


def _are_weights_captured() -> bool:
    if _wanted is None or torch.compiler.is_compiling():
        return False
    return any("attentions" in kind for kind in _wanted.get() or ())


def _documents(query: Tensor, key: Tensor, starts: Tensor | None, key_starts: Tensor | None) -> Tensor | None:
    """The number of each token's sequence in a packed row."""
    if starts is None and key_starts is None:
        return None
    if starts is None or key_starts is None or not torch.equal(starts, key_starts):
        raise ValueError("cu_seq_lens_q and cu_seq_lens_k must be given together and be equal")
    if query.shape[0] != 1 or query.shape[2] != key.shape[2] or int(starts[-1]) != query.shape[2]:
        raise ValueError("cu_seq_lens_q must be the sequences of one row without a cache of keys")
    return torch.bucketize(torch.arange(query.shape[2]), starts[1:], right=True)[None]
