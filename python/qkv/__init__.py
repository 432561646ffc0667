"""Exact attention on ordinary CPUs, and the models built on it.

>>> import numpy, qkv
>>> query = key = value = numpy.ones((2, 8, 10, 64), "f")
>>> qkv.attention(query, key, value, mask=qkv.Mask.causal()).shape
(2, 8, 10, 64)

Arrays of NumPy, torch, JAX or anything else with ``__dlpack__`` on the CPU are read without a copy, and results are of
the same kind.
"""

import copyreg
from typing import TYPE_CHECKING

from ._qkv import (
    FormatError,
    KeyValueCache,
    __version__,
    attention,
    attention_backward,
    attention_double_backward,
    attention_jvp,
    attention_stats,
    dropout_mask,
    merge_attention,
    plan,
    select_target,
    selected_target,
    set_threads,
    threads,
    verify,
)
from .arrays import Array
from .functional import scaled_dot_product_attention
from .options import AttentionOptions, Bias, Mask, Score

copyreg.pickle(type(attention), lambda function: function.__name__)  # functions of the extension: by their names

if TYPE_CHECKING:
    from .embedder import Embedder
    from .generator import Generator
    from .reports import Report, explain, head_view, model_view, report
    from .tokenizer import Tokenizer
    from .training import train
    from .translator import Translator

# Modules that are imported when one of their names is first used: their imports take longer than attention itself.
_MODULES = {
    "embedder": ("Embedder",),
    "generator": ("Generator",),
    "reports": ("Report", "explain", "head_view", "model_view", "report"),
    "tokenizer": ("Tokenizer",),
    "training": ("train",),
    "translator": ("Translator",),
}

_SHOWN_MODULES = ("lab", "layers", "pictures", "text")  # imported by their name

__all__ = [
    "Array",
    "AttentionOptions",
    "Bias",
    "Embedder",
    "FormatError",
    "Generator",
    "KeyValueCache",
    "Mask",
    "Report",
    "Score",
    "Tokenizer",
    "Translator",
    "__version__",
    "attention",
    "attention_backward",
    "attention_double_backward",
    "attention_jvp",
    "attention_stats",
    "dropout_mask",
    "explain",
    "head_view",
    "merge_attention",
    "model_view",
    "plan",
    "report",
    "scaled_dot_product_attention",
    "select_target",
    "selected_target",
    "set_threads",
    "threads",
    "train",
    "verify",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _MODULES.items():
        if name in names:
            globals()[name] = found = getattr(import_module(f"{__name__}.{module}"), name)
            return found
    if name in _SHOWN_MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted((*__all__, *_SHOWN_MODULES))
