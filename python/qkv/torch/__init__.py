"""Attention for torch, with gradients, and models of torch made to use it.

>>> import torch, qkv.torch
>>> x = torch.zeros(1, 2, 3, 4, requires_grad=True)
>>> qkv.torch.attention(x, x, x, mask="causal").sum().backward()
"""

from .functional import attention, attention_stats
from .layers import MultiheadAttention, TransformerEncoderLayer
from .module import Layer
from .replacement import Replaced, replace
from .whole import WholeEncoder, WholeTranslator, whole

__all__ = [
    "Layer",
    "MultiheadAttention",
    "Replaced",
    "TransformerEncoderLayer",
    "WholeEncoder",
    "WholeTranslator",
    "attention",
    "attention_stats",
    "replace",
    "whole",
]
