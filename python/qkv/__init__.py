"""Exact attention on ordinary CPUs, and the models built on it.

>>> import numpy, qkv
>>> query = key = value = numpy.ones((2, 8, 10, 64), "f")
>>> qkv.attention(query, key, value, mask=qkv.causal()).shape
(2, 8, 10, 64)

Arrays of NumPy, torch, JAX or anything else with ``__dlpack__`` on the CPU are read without a copy, and results are of
the same kind.
"""

import copyreg
from typing import TYPE_CHECKING

from ._qkv import (
    BatchNorm,
    Bias,
    Conv1d,
    Conv2d,
    Decoder,
    Encoder,
    FormatError,
    Gru,
    KeyValueCache,
    Lstm,
    Mask,
    MultiHeadAttention,
    PatchEmbedding,
    Plan,
    Pool1d,
    Pool2d,
    Receipt,
    Rnn,
    Saved,
    Score,
    Transformer,
    __version__,
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
from .functional import scaled_dot_product_attention

copyreg.pickle(type(attention), lambda function: function.__name__)  # functions of the extension: by their names

if TYPE_CHECKING:
    from .embedder import Embedder
    from .pictures import ClassProbability, PictureClassifier, Vit, classify
    from .report import Report, explain
    from .tokenizer import Encoding, Tokenizer
    from .training import compare, train
    from .translator import Hypothesis, Translation, Translator

# Names whose modules are imported when one is used first: what they import takes longer than attention itself.
_MODULES = {
    "embedder": ("Embedder",),
    "pictures": ("ClassProbability", "PictureClassifier", "Vit", "classify"),
    "report": ("Report", "explain"),
    "tokenizer": ("Encoding", "Tokenizer"),
    "training": ("compare", "train"),
    "translator": ("Hypothesis", "Translation", "Translator"),
}

__all__ = [
    "Array",
    "BatchNorm",
    "Bias",
    "ClassProbability",
    "Conv1d",
    "Conv2d",
    "Decoder",
    "Embedder",
    "Encoder",
    "Encoding",
    "FormatError",
    "Gru",
    "Hypothesis",
    "KeyValueCache",
    "Lstm",
    "Mask",
    "MultiHeadAttention",
    "PatchEmbedding",
    "PictureClassifier",
    "Plan",
    "Pool1d",
    "Pool2d",
    "Receipt",
    "Report",
    "Rnn",
    "Saved",
    "Score",
    "Tokenizer",
    "Transformer",
    "Translation",
    "Translator",
    "Vit",
    "__version__",
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
    "classify",
    "clipped",
    "compare",
    "concat",
    "dilated",
    "documents",
    "dropout_mask",
    "explain",
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
    "train",
    "verify",
    "window",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = found = getattr(import_module(f"{__name__}.{module}"), name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
