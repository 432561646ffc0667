"""The options of attention: the same for NumPy, JAX and torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar

from . import _qkv
from .arrays import Array, ArrayOrSequence

Align = Literal["top-left", "bottom-right"]
Weights = Literal["f32", "bf16", "int8", "int8_groups", "q8", "q4"]  # of models
ModelPrecision = Literal["exact", "reduced", "reduced_pairs"]
Made = TypeVar("Made", bound="_Parts")

is_tracing: Callable[[], bool] = lambda: False  # qkv.torch sets it: a graph has no numbers to look at  # noqa: E731


class _Parts:
    """Calls of static methods, their names and arguments, which the extension reads."""

    __array_ufunc__ = None  # an array of NumPy leaves operators to it
    _sign = ""

    def __init__(self, *parts: tuple[str, tuple[Any, ...]]) -> None:
        self.parts = parts

    @classmethod
    def _of(cls: type[Made], name: str, *arguments: Any) -> Made:
        return cls((name, arguments if is_tracing() else _qkv._checked(cls.__name__, name, arguments)))

    def _joined(self: Made, first: Any, second: Any) -> Made:
        if not is_tracing():
            first, second = (_qkv._parts(type(self).__name__, f"an operand of {self._sign}", each) for each in (first, second))
        kind = type(self)
        return kind(*(part for each in (first, second) for part in parts_of(kind, each)))

    def __bool__(self) -> bool:
        how = f": combine them by {self._sign}" if self._sign else ""
        raise TypeError(f"a {type(self).__name__} is neither true nor false{how}")

    def __repr__(self) -> str:
        return f" {self._sign} ".join(_text(type(self).__name__, *part) for part in self.parts)


def parts_of(kind: type[_Parts], value: Any) -> tuple[tuple[str, tuple[Any, ...]], ...]:
    """Keywords of a mask or a bias, which may be an array or "causal"."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, kind):
        return value.parts
    if isinstance(value, str):
        return ((value, (None,)),)
    return (("boolean" if kind is Mask else "view", (value,)),)


def _text(kind: str, name: str, arguments: tuple[Any, ...]) -> str:
    if name == "compiled":
        return f"{arguments[0]!r}.compiled()"
    given = [argument for argument in arguments if argument is not None]
    is_long = any(hasattr(argument, "__dlpack__") for argument in given)
    return f"qkv.{kind}.{name}({'...' if is_long else ', '.join(map(_quoted, given))})"


def _quoted(argument: Any) -> str:
    return f'"{argument}"' if isinstance(argument, str) else repr(argument)


class Mask(_Parts):
    """Which keys a query may attend to; masks combine by ``&``: a key is visible if every part lets it through. Query i has
    position p = i, or with align="bottom-right", and over a cache, i plus key length minus query length; key j has
    position j. A mask keeps its arrays alive.

    >>> import qkv
    >>> qkv.Mask.causal() & qkv.Mask.window(2, 0)
    qkv.Mask.causal() & qkv.Mask.window(2, 0)
    >>> qkv.Mask.lengths([3, 5])
    qkv.Mask.lengths(...)
    """

    _sign = "&"

    def __and__(self, other: Mask | Array | Literal["causal"]) -> Mask:
        return self._joined(self, other)

    def __rand__(self, other: Mask | Array | Literal["causal"]) -> Mask:
        return self._joined(other, self)

    def compiled(self, threads: int | None = None) -> Mask:
        """The same mask with its boolean arrays and document ids read once, for use in many calls: they must not change
        afterwards."""
        return Mask(("compiled", (self, _qkv._CompiledMask(self, threads))))

    @staticmethod
    def causal(align: Align | None = None) -> Mask:
        """Keys j <= p."""
        return Mask._of("causal", align)

    @staticmethod
    def window(left: int, right: int, align: Align | None = None) -> Mask:
        """Keys p - left <= j <= p + right; -1 leaves that side open."""
        return Mask._of("window", left, right, align)

    @staticmethod
    def dilated(left: int, right: int, step: int, align: Align | None = None) -> Mask:
        """Keys p - left * step <= j <= p + right * step with p - j divisible by step; -1 leaves that side open."""
        return Mask._of("dilated", left, right, step, align)

    @staticmethod
    def chunks(size: int, align: Align | None = None) -> Mask:
        """Keys of its own chunk: j / size = p / size, rounded down."""
        return Mask._of("chunks", size, align)

    @staticmethod
    def prefix(counts: ArrayOrSequence, align: Align | None = None) -> Mask:
        """Keys j < counts[sequence] or j <= p: a prefix that every query sees, and causal after it; int32 or int64
        [batch]."""
        return Mask._of("prefix", counts, align)

    @staticmethod
    def lengths(counts: ArrayOrSequence) -> Mask:
        """Keys j < counts[sequence]; int32 or int64 [batch]."""
        return Mask._of("lengths", counts)

    @staticmethod
    def documents(query_ids: ArrayOrSequence, key_ids: ArrayOrSequence | None = None) -> Mask:
        """Keys of the query's own document: ids are equal; int32 or int64 [batch, length], packed [tokens]. key_ids: the
        queries' unless given."""
        return Mask._of("documents", query_ids, key_ids)

    @staticmethod
    def boolean(visible: ArrayOrSequence) -> Mask:
        """Keys where visible is true: bool or uint8, broadcastable to [batch, heads, q_len, k_len]."""
        return Mask._of("boolean", visible)


class Bias(_Parts):
    """Terms added to the logits after scale and soft cap; biases combine by ``+``: at most four arrays and four tables.
    A bias keeps its arrays alive."""

    _sign = "+"

    def __add__(self, other: Bias | Array) -> Bias:
        return self._joined(self, other)

    def __radd__(self, other: Bias | Array) -> Bias:
        return self._joined(other, self)

    @staticmethod
    def view(values: Array) -> Bias:
        """An array that is added: float32 (float64 for float64 inputs), broadcastable to [batch, heads, q_len, k_len]. It
        follows IEEE arithmetic; to hide a key, use a mask."""
        return Bias._of("view", values)

    @staticmethod
    def alibi(slopes: Array) -> Bias:
        """``-slope * |p - j|``; slopes: float32 [heads] or [batch, heads] (Press et al., 2021)."""
        return Bias._of("alibi", slopes)

    @staticmethod
    def t5(table: Array, bidirectional: bool = True, max_distance: int = 128) -> Bias:
        """T5's relative positions: the number of the head and of the bucket of ``j - p``; table [buckets, heads] (Raffel et
        al., 2020)."""
        return Bias._of("t5", table, bidirectional, max_distance)

    @staticmethod
    def clipped(table: Array) -> Bias:
        """Relative positions up to a distance n: bucket ``clamp(j - p, -n, n) + n``; table [2 n + 1, heads]."""
        return Bias._of("clipped", table)

    @staticmethod
    def shaw(table: Array) -> Bias:
        """``scale * (q . table[bucket])`` with the buckets of :meth:`clipped`; table [2 n + 1, head_dim] (Shaw et al.,
        2018)."""
        return Bias._of("shaw", table)

    @staticmethod
    def swin(table: Array, height: int, width: int) -> Bias:
        """Relative places in a window of height x width cells; table [(2 height - 1) (2 width - 1), heads] (Liu et al.,
        2021)."""
        return Bias._of("swin", table, height, width)


class Score(_Parts):
    """How a query and a key become one number; "scaled_dot" and "dot" are names of the two without parameters. The default
    scale of the others is 1."""

    @staticmethod
    def additive(w_query: Array, w_key: Array, v: Array) -> Score:
        """``v . tanh(w_query q + w_key k)``: w_query [hidden, query size], w_key [hidden, key size], v [hidden] (Bahdanau et
        al., 2014)."""
        return Score._of("additive", w_query, w_key, v)

    @staticmethod
    def concat(w: Array, v: Array) -> Score:
        """``v . tanh(w [q; k])``: w [hidden, query size + key size], v [hidden] (Luong et al., 2015)."""
        return Score._of("concat", w, v)

    @staticmethod
    def bilinear(w: Array) -> Score:
        """``q^T w k``: w [query size, key size] (Luong et al., 2015)."""
        return Score._of("bilinear", w)


AnyMask: TypeAlias = Mask | Array | Literal["causal"] | None  # of bools, where True may attend
AnyBias: TypeAlias = Bias | Array | None  # of floats


class AttentionOptions(TypedDict, total=False):
    """The keywords of every call of attention, of its derivatives, plan() and verify()."""

    mask: AnyMask
    bias: AnyBias
    scale: float | None  #: 1/sqrt(head_dim) unless given; 1 for every score but "scaled_dot"
    soft_cap: float | None  #: ``cap * tanh(logits / cap)``; 0: off
    softmax_scale: float | None  #: scale by the name of flash-attention
    softcap: float | None  #: soft_cap by the name of flash-attention
    score: Score | Literal["scaled_dot", "dot"] | None
    dropout: float | None  #: needs a seed; torch draws one
    seed: int | None
    sinks: Array | None  #: [heads], each head's logit of one more key without a value
    offsets_query: ArrayOrSequence | None  #: int32 or int64 [batch + 1]: query is packed, [tokens, heads, head_dim]
    offsets_key: ArrayOrSequence | None
    cu_seqlens_q: ArrayOrSequence | None  #: offsets_query by the name of flash-attention
    cu_seqlens_k: ArrayOrSequence | None
    block_table: ArrayOrSequence | None  #: int32 [batch, blocks]: key [pages, rows, kv_heads, head_dim], value alike
    precision: Literal["exact", "reduced", "reduced_pairs"] | None  #: of products; docs/semantics.md, "Precision"
    empty_rows: Literal["zero", "nan"] | None  #: the output of a query that sees no key; "nan": as torch.nn.MultiheadAttention
    memory_limit: int | None  #: bytes besides inputs and outputs: uses fewer threads to keep it, else ValueError
    threads: int | None  #: None: the process's number


class StatsOptions(AttentionOptions, total=False):
    """Outputs of attention_stats() besides the output and the log-sum-exp. Statistics use the weights."""

    weights: bool
    logits: bool
    row_weights: Array | None  #: the weights of these rows, int64 [n, 3] of (batch, head, query)
    row_maximum: bool  #: the largest logit
    entropy: bool
    self_weight: bool  #: on the query's own position
    previous_weight: bool  #: on the one before
    top_keys: int | None  #: how many keys with the largest weights of each query; also gives top_weights
    received: bool  #: by a key, over all queries
    block_weights: tuple[int, int] | None  #: averages over these numbers of equal parts of queries and keys


class TangentOptions(AttentionOptions, total=False):
    """Keywords of calls along tangents, in the shapes and type of query, key and value; None is 0."""

    tangent_query: Array | None
    tangent_key: Array | None
    tangent_value: Array | None
