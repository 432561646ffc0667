"""Layers of Transformers. They are pickled as the keywords that made them, and their parameters."""

from __future__ import annotations

from typing import Any

from ._qkv import Decoder, Encoder, Layer, MultiHeadAttention, PatchEmbedding, Saved, Transformer

__all__ = ["Decoder", "Encoder", "Layer", "MultiHeadAttention", "PatchEmbedding", "Saved", "Transformer"]


def _rebuild(kind: Any, config: dict[str, Any], state: dict[str, Any]) -> Any:
    layer = kind(**config)
    layer.load_state_dict(state)
    return layer
