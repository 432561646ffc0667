"""torch's nn.MultiheadAttention and nn.TransformerEncoderLayer on our attention."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..options import AttentionOptions, Bias
from .functional import attention, attention_stats


def attended(
    query: Tensor, key: Tensor, value: Tensor, need_weights: bool | None, options: AttentionOptions
) -> tuple[Tensor, Tensor | None]:
    """The output, and the weights if they are needed."""
    if need_weights:
        stats = attention_stats(query, key, value, weights=True, **options)
        return stats.out, stats.weights
    return attention(query, key, value, **options), None


class MultiheadAttention(nn.MultiheadAttention):
    """nn.MultiheadAttention, the same parameters and arguments, without bias_k, bias_v and add_zero_attn.

    A query that sees no key gives 0, not NaN, and need_weights gives the weights before dropout. A mask of a type that
    torch refuses is refused with torch's exception.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise RuntimeError("is_causal is a hint about attn_mask: give both")
        _check_masks(query, need_weights, key_padding_mask=key_padding_mask, attn_mask=attn_mask)
        batched = query.dim() == 3
        first = batched and not self.batch_first  # [length, batch, size], else [batch, length, size]
        query, key, value = self._projected(query, key, value)
        if not batched:
            query, key, value = query[None], key[None], value[None]
        heads = [self._split(tensor.transpose(0, 1) if first else tensor) for tensor in (query, key, value)]
        masks: Any = None
        bias: Any = None
        if is_causal and key_padding_mask is None and not need_weights:
            masks, attn_mask = "causal", None
        if attn_mask is not None:
            shape = (1, 1) if attn_mask.dim() == 2 else (-1, self.num_heads)
            masks, bias = _added(attn_mask.reshape(*shape, *attn_mask.shape[-2:]), masks, bias)
        if key_padding_mask is not None:
            masks, bias = _added(key_padding_mask.reshape(-1, 1, 1, key_padding_mask.shape[-1]), masks, bias)
        options: AttentionOptions = {"mask": masks, "bias": bias}
        if self.training and self.dropout:
            options["dropout"] = self.dropout
        out, weights = attended(heads[0], heads[1], heads[2], need_weights, options)
        out = self.out_proj(out.transpose(1, 2).flatten(2))
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not batched:
            return out[0], None if weights is None else weights[0]
        return out.transpose(0, 1) if first else out, weights

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        if self._qkv_same_embed_dim:
            if query is key and key is value:
                return functional.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(functional.linear(*each) for each in zip((query, key, value), weights, biases))

    def _split(self, rows: Tensor) -> Tensor:
        return rows.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)


class TransformerEncoderLayer(nn.TransformerEncoderLayer):
    """nn.TransformerEncoderLayer without torch's fast path, which never calls the attention inside."""

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        _check_masks(src, False, src_key_padding_mask=src_key_padding_mask, src_mask=src_mask)

        def attended(x: Tensor) -> Tensor:
            return self._sa_block(x, src_mask, src_key_padding_mask, is_causal=is_causal)

        if self.norm_first:
            src = src + attended(self.norm1(src))
            return src + self._ff_block(self.norm2(src))
        src = self.norm1(src + attended(src))
        return self.norm2(src + self._ff_block(src))


def _check_masks(query: Tensor, need_weights: bool, **masks: Tensor | None) -> None:
    """Raises what torch raises for a mask that is neither bool nor numbers of a type that can be added to the logits."""
    for name, mask in masks.items():
        if mask is None or mask.dtype == torch.bool:
            continue
        if not mask.is_floating_point():
            raise AssertionError(f"only bool and floating types of {name} are supported, got {mask.dtype}")
        known = (query.dtype,) if need_weights else (query.dtype, torch.float32)
        if mask.dtype not in known and not torch.is_autocast_enabled("cpu"):
            expected = " or ".join(str(each) for each in dict.fromkeys((torch.bool, *known)))
            raise RuntimeError(f"{name} must be of {expected} beside a query of {query.dtype}, got {mask.dtype}")


def _added(mask: Tensor, masks: Any, bias: Any) -> tuple[Any, Any]:
    """Of torch's layers True means "may not attend"; numbers are added."""
    if mask.dtype == torch.bool:
        return ~mask if masks is None else masks & ~mask, bias
    return masks, mask if bias is None else Bias.view(bias) + Bias.view(mask)


def reason_to_keep(module: nn.Module) -> str:
    """Why a layer cannot be one of the above; empty if it can."""
    if isinstance(module, nn.MultiheadAttention):
        if module.bias_k is not None or module.add_zero_attn:
            return "bias_k, bias_v and add_zero_attn add a key that our masks do not know"
    return ""


OURS: dict[type[nn.Module], Any] = {
    nn.MultiheadAttention: MultiheadAttention,
    nn.TransformerEncoderLayer: TransformerEncoderLayer,
}
