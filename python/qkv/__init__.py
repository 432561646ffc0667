"""Exact attention on ordinary CPUs, and the models built on it.

>>> import numpy, qkv
>>> query = key = value = numpy.ones((2, 8, 10, 64), "f")
>>> qkv.attention(query, key, value, mask=qkv.causal()).shape
(2, 8, 10, 64)

Arrays of NumPy, torch, JAX or anything else with ``__dlpack__`` on the CPU are read without a copy, and results are of
the same kind.
"""

from importlib.metadata import version as _version

from ._qkv import (
    Bias,
    FormatError,
    KeyValueCache,
    Mask,
    Plan,
    Receipt,
    Score,
    additive,
    alibi,
    attention,
    attention_backward,
    attention_double_backward,
    attention_jvp,
    bias,
    bilinear,
    boolean,
    causal,
    clipped,
    concat,
    dilated,
    documents,
    dropout_mask,
    lengths,
    merge_attention,
    plan,
    prefix,
    select_target,
    set_threads,
    shaw,
    swin,
    t5,
    target,
    threads,
    verify,
    window,
)
from .arrays import Array
from .embedder import Embedder
from .functional import scaled_dot_product_attention
from .tokenizer import Encoding, Tokenizer
from .translator import Hypothesis, Translation, Translator

__version__ = _version("qkv")

__all__ = [
    "Array",
    "Bias",
    "Embedder",
    "Encoding",
    "FormatError",
    "Hypothesis",
    "KeyValueCache",
    "Mask",
    "Plan",
    "Receipt",
    "Score",
    "Tokenizer",
    "Translation",
    "Translator",
    "additive",
    "alibi",
    "attention",
    "attention_backward",
    "attention_double_backward",
    "attention_jvp",
    "bias",
    "bilinear",
    "boolean",
    "causal",
    "clipped",
    "concat",
    "dilated",
    "documents",
    "dropout_mask",
    "lengths",
    "merge_attention",
    "plan",
    "prefix",
    "scaled_dot_product_attention",
    "select_target",
    "set_threads",
    "shaw",
    "swin",
    "t5",
    "target",
    "threads",
    "verify",
    "window",
]
