"""Results of calls other than arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic

from .arrays import ArrayT

_NONE: Any = None  # for outputs that were not requested; typed as arrays, so that users need not check for None


@dataclass
class AttentionStats(Generic[ArrayT]):
    """The result of attention_stats(); outputs that were not requested are None. Statistics use the weights before
    dropout."""

    out: ArrayT
    log_sum_exp: ArrayT  #: [..., heads, q_len]
    weights: ArrayT = _NONE  #: [..., heads, q_len, k_len]
    logits: ArrayT = _NONE  #: [..., heads, q_len, k_len]
    row_weights: ArrayT = _NONE  #: [rows, k_len]
    row_maximum: ArrayT = _NONE  #: [..., heads, q_len]
    entropy: ArrayT = _NONE  #: [..., heads, q_len]
    self_weight: ArrayT = _NONE  #: [..., heads, q_len]
    previous_weight: ArrayT = _NONE  #: [..., heads, q_len]
    top_keys: ArrayT = _NONE  #: [..., heads, q_len, n]
    top_weights: ArrayT = _NONE  #: [..., heads, q_len, n]
    received: ArrayT = _NONE  #: [..., heads, k_len]
    block_weights: ArrayT = _NONE  #: [..., heads, r, c]


@dataclass
class AttentionGradients(Generic[ArrayT]):
    """The result of attention_backward(); gradients of parameters if requested and if the call has them."""

    query: ArrayT
    key: ArrayT
    value: ArrayT
    sinks: ArrayT = _NONE
    bias: tuple[ArrayT, ...] = ()  #: of the arrays, in the order in which they were added
    alibi_slopes: tuple[ArrayT, ...] = ()
    tables: tuple[ArrayT, ...] = ()
    w_query: ArrayT = _NONE  #: of a score; "w" of concat and bilinear
    w_key: ArrayT = _NONE
    v: ArrayT = _NONE


@dataclass(frozen=True)
class Plan:
    """The plan of a call of attention()."""

    kernel: str  #: "prefill", "decode", "prefill and decode" or "none"
    target: str  #: the CPU instructions
    threads: int  #: that have work to do
    workspace: int  #: bytes besides inputs and outputs
    tiles: int  #: of all heads
    skipped_tiles: int  #: of these, those that are never computed: no query sees a key in them
    operations: float  #: multiplications and additions in the tiles that are computed
    bytes: float  #: of inputs and outputs, each once
    remarks: tuple[str, ...]  #: why this is not the fastest possible path, one line each


@dataclass(frozen=True)
class Receipt:
    """How exact an output is."""

    rows: int  #: that were recomputed
    worst_error: float  #: the largest ``|out - exact|`` over their elements
    largest_value: float  #: the largest ``|exact|``, to compare the error with
    sequence: int  #: of the worst error, as head and query
    head: int
    query: int
