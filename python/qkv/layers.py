"""Layers of Transformers. They are pickled as the keywords that made them, and their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ._qkv import Decoder, Encoder, Layer, MultiHeadAttention, PatchEmbedding, Saved, Transformer
from .arrays import Array
from .options import AnyBias, AnyMask

if TYPE_CHECKING:
    from typing_extensions import Required

__all__ = ["Decoder", "Encoder", "Layer", "MultiHeadAttention", "PatchEmbedding", "Saved", "Transformer"]


class LayerConfig(TypedDict, total=False):
    """Options of every layer: its numbers are drawn from the seed as torch draws its own."""

    seed: int | None
    dtype: Literal["float32", "float64"]  #: "float32"


class HeadsConfig(LayerConfig, total=False):
    """Options of layers with attention."""

    model_dim: Required[int]
    heads: int  #: 1
    kv_heads: int | None  #: heads
    head_dim: int | None  #: model_dim / heads
    bias: bool  #: True
    scale: float | None
    soft_cap: float  #: 0: off
    rotary_base: float | None  #: None: no rotary positions
    rotary_pairs: Literal["halves", "neighbours"]  #: "halves"
    window: tuple[int, int] | None


class MultiHeadAttentionConfig(HeadsConfig, total=False):
    """Sizes are model_dim unless given."""

    key_input_dim: int | None
    value_input_dim: int | None
    out_dim: int | None
    bias_kv: bool  #: False
    zero_attention: bool  #: False
    scheme: Literal["packed", "per_head", "two_stage"]  #: "packed"


class TransformerLayerConfig(HeadsConfig, total=False):
    """The layers of stacks."""

    ff_dim: Required[int]
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"]  #: "relu"
    epsilon: float  #: 1e-5
    gated: bool  #: False
    norm_order: Literal["post", "pre", "both", "parallel"]  #: "post"
    normalization: Literal["layer", "rms"]  #: "layer"
    layer_scale: bool  #: False


class StackConfig(TransformerLayerConfig, total=False):
    """Options of Encoder and Decoder."""

    layers: int  #: 6
    final_norm: bool  #: True


class TransformerConfig(TransformerLayerConfig, total=False):
    """Options of Transformer."""

    encoder_layers: int  #: 6
    decoder_layers: int  #: 6
    final_norms: bool  #: True


class PatchEmbeddingConfig(LayerConfig, total=False):
    """Positions of pictures with another grid are interpolated, bicubic, as torch.nn.functional.interpolate does."""

    dim: Required[int]
    patch: Required[int | tuple[int, int]]  #: height and width in pixels
    grid: Required[int | tuple[int, int]]  #: the patches of the pictures that positions are learnt for
    channels: int  #: 3


class LayerOptions(TypedDict, total=False):
    """Options of a call of any layer with attention, or of a recurrent one."""

    dropout: float  #: 0; in training, with save, and with a seed
    seed: int | None
    threads: int | None  #: None: the process's number


class HeadsOptions(LayerOptions, total=False):
    """Options of a call of MultiHeadAttention."""

    mask: AnyMask
    bias: AnyBias
    offsets_query: Array | None
    offsets_key: Array | None
    average_weights: bool  #: True


class StackOptions(LayerOptions, total=False):
    """Options of a call of Encoder."""

    mask: AnyMask
    bias: AnyBias
    offsets: Array | None


class DecoderOptions(StackOptions, total=False):
    """Options of a call of Decoder."""

    memory_mask: AnyMask
    memory_bias: AnyBias
    memory_offsets: Array | None


class TransformerOptions(LayerOptions, total=False):
    """Options of a call of Transformer."""

    source_mask: AnyMask
    source_bias: AnyBias
    target_mask: AnyMask
    target_bias: AnyBias
    memory_mask: AnyMask
    memory_bias: AnyBias
    source_offsets: Array | None
    target_offsets: Array | None


def _rebuild(kind: Any, config: dict[str, Any], state: dict[str, Any]) -> Any:
    layer = kind(**config)
    layer.load_state_dict(state)
    return layer
