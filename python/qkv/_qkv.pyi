"""What the extension gives: signatures and docstrings, which it has from here. Names with _ are the package's own."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

import numpy
import numpy.typing
from typing_extensions import Unpack

from .arrays import Array, ArrayT
from .lab import Conv1dConfig, LstmOptions, RecurrentConfig, RecurrentOptions, RnnConfig
from .layers import (
    DecoderOptions, HeadsOptions, MultiHeadAttentionConfig, PatchEmbeddingConfig, StackConfig, StackOptions, TransformerConfig,
    TransformerOptions,
)
from .options import AttentionOptions, StatsOptions, TangentOptions
from .results import AttentionGradients, AttentionStats, Plan, Receipt

__version__: str

class FormatError(ValueError):
    """A file or text breaks a rule of its format; the message names the file, the field and the rule."""

@overload
def attention(
    query: ArrayT, key: Array, value: Array, *, return_lse: Literal[False] = False, out: Array | None = None,
    **options: Unpack[AttentionOptions]
) -> ArrayT:
    """Exact attention in one fused pass.

    ``dropout(softmax(mask(cap(scale * score(query, key)) + bias))) value``

    Padded: query [..., heads, q_len, head_dim], key [..., kv_heads, k_len, head_dim], value [..., kv_heads, k_len,
    value_dim]; the output is [..., heads, q_len, value_dim]. Packed (offsets_query, offsets_key, int32 or int64
    [batch + 1]): query [tokens, heads, head_dim], key and value alike. Paged keys (block_table, int32 [batch, blocks]): key
    [pages, rows, kv_heads, head_dim], value alike, with qkv.Mask.lengths() in the mask.

    Arrays of NumPy (bfloat16 by ml_dtypes), torch, JAX or anything else with __dlpack__ on the CPU are read without a copy;
    the results are of query's kind. float32, float64, bfloat16 or float16, the same for query, key and value; any strides
    with a last one of 1.

    return_lse: gives (out, log-sum-exp [..., heads, q_len]). out: where the output goes, of query's type or float32. The
    other options are in qkv.options.AttentionOptions: mask, bias, scale, soft_cap, score, dropout and seed, sinks,
    offsets_query and offsets_key, block_table, precision, memory_limit, threads.

    A query that sees no key gives 0, and log-sum-exp -inf. The same bits for any batch and any number of threads.

    Raises TypeError, naming the argument, if it is not an array or has another type; ValueError for shapes, types that
    differ,
    a last stride other than 1, and an out that is read-only or shares memory with an input.

    >>> import numpy, qkv
    >>> query, key = numpy.zeros((1, 2), "f"), numpy.zeros((2, 2), "f")
    >>> qkv.attention(query, key, numpy.array([[1, 2], [3, 4]], "f"))
    array([[2., 3.]], dtype=float32)
    """

@overload
def attention(
    query: ArrayT, key: Array, value: Array, *, return_lse: Literal[True], out: Array | None = None,
    **options: Unpack[AttentionOptions]
) -> tuple[ArrayT, ArrayT]: ...

def attention_stats(query: ArrayT, key: Array, value: Array, **options: Unpack[StatsOptions]) -> AttentionStats[ArrayT]:
    """attention() with statistics: the output, the log-sum-exp and the requested statistics.

    These are named as in qkv.options.StatsOptions: entropy=True, top_keys=4, block_weights=(8, 8) ... Only weights and logits
    need a matrix of q_len x k_len.

    >>> import numpy, qkv
    >>> x = numpy.zeros((1, 4, 2), "f")
    >>> qkv.attention_stats(x, x, x, mask="causal", entropy=True).entropy.round(3)
    array([[0.   , 0.693, 1.099, 1.386]], dtype=float32)
    """

def merge_attention(out: ArrayT, log_sum_exp: Array, other_out: Array, other_log_sum_exp: Array) -> tuple[ArrayT, ArrayT]:
    """Joins two results over disjoint keys into new arrays (out, log_sum_exp): attention to all keys at once.

    ``m = max(lse, other_lse); out = (e^(lse - m) out + e^(other_lse - m) other_out) / (e^(lse - m) + e^(other_lse - m))``

    out, other_out: [..., q_len, value_dim], all four float32 or all float64. A part with log-sum-exp -inf adds nothing.

    >>> import numpy, qkv
    >>> one, zero = numpy.ones((1, 1)), numpy.zeros(1)
    >>> qkv.merge_attention(one, zero, 3 * one, zero)[0]
    array([[2.]])
    """

def dropout_mask(
    shape: Sequence[int], p: float, seed: int, first: Sequence[int] = (0, 0, 0, 0)
) -> numpy.typing.NDArray[numpy.bool_]:
    """Which weights dropout keeps: bool [..., heads, q_len, k_len].

    ``first``: (sequence, head, query, key) of the first element, for a part of a mask. It depends on p, the seed and these
    indices alone.

    >>> import qkv
    >>> qkv.dropout_mask((1, 1, 4), 0.0, seed=1)
    array([[[ True,  True,  True,  True]]])
    """

def attention_backward(
    query: ArrayT, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, *, parameters: bool = False,
    **options: Unpack[AttentionOptions]
) -> AttentionGradients[ArrayT]:
    """Gradients of attention, recomputed tile by tile: no matrix of q_len x k_len.

    out and log_sum_exp as attention() gave them for these arguments; grad_out like out. parameters: also gradients of sinks,
    biases and a score.

    >>> import numpy, qkv
    >>> x = numpy.ones((2, 2), "f")
    >>> out, lse = qkv.attention(x, x, x, return_lse=True)
    >>> qkv.attention_backward(x, x, x, out, lse, x).value
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """

def attention_jvp(
    query: ArrayT, key: Array, value: Array, out: Array, log_sum_exp: Array, **options: Unpack[TangentOptions]
) -> tuple[ArrayT, ArrayT]:
    """How out and log_sum_exp move when query, key and value move along tangents (forward mode).

    Tangents in the shapes and the type of query, key and value; None is 0. For float32 and float64, without soft cap and
    dropout.

    >>> import numpy, qkv
    >>> x = numpy.ones((2, 2), "f")
    >>> out, lse = qkv.attention(x, x, x, return_lse=True)
    >>> qkv.attention_jvp(x, x, x, out, lse, tangent_value=3 * x)[0]
    array([[3., 3.],
           [3., 3.]], dtype=float32)
    """

def attention_double_backward(
    query: ArrayT, key: Array, value: Array, out: Array, log_sum_exp: Array, grad_out: Array, **options: Unpack[TangentOptions]
) -> tuple[ArrayT, ArrayT, ArrayT, ArrayT]:
    """Gradients with respect to query, key, value and grad_out of ``<tangent_query, dq> + <tangent_key, dk> +
    <tangent_value, dv>``, where dq, dk and dv come from attention_backward(). Takes the options of attention_jvp()."""

def plan(query: Array, key: Array, value: Array, **options: Unpack[AttentionOptions]) -> Plan:
    """What attention() with these arguments would do, before anything runs.

    >>> import numpy, qkv
    >>> x = numpy.zeros((4, 256, 64), "f")
    >>> qkv.plan(x, x, x, mask=qkv.Mask.causal()).kernel
    'prefill'
    """

def verify(
    query: Array, key: Array, value: Array, out: Array, *, rows: int = 64, rows_seed: int = 1,
    **options: Unpack[AttentionOptions]
) -> Receipt:
    """Recomputes some rows of an output of attention() in double precision, by plain loops.

    rows: how many, drawn at random from rows_seed. The other keywords as attention() had them.

    >>> import numpy, qkv
    >>> x = numpy.ones((2, 8, 4), "f")
    >>> qkv.verify(x, x, x, qkv.attention(x, x, x)).worst_error
    0.0
    """

class KeyValueCache:
    """The keys and values of the tokens that a batch of sequences has seen so far.

    Not for use by several threads at once while it changes.

    >>> import numpy, qkv
    >>> cache = qkv.KeyValueCache(batch=1, kv_heads=1, head_dim=2)
    >>> cache.append(numpy.zeros((1, 1, 3, 2), "f"), numpy.ones((1, 1, 3, 2), "f"))
    >>> cache.lengths()
    array([3], dtype=int32)
    >>> cache.attention(numpy.zeros((1, 1, 1, 2), "f"))
    array([[[[1., 1.]]]], dtype=float32)
    """
    def __init__(
        self, *, batch: int = 1, kv_heads: int = 1, head_dim: int = 64, value_dim: int | None = None, dtype: Literal["float32",
        "float64", "bfloat16", "float16"] = "float32", page_rows: int = 16
    ) -> None: ...
    def __getstate__(self) -> tuple[Any, ...]: ...
    def __setstate__(self, state: tuple[Any, ...]) -> None: ...
    def append(self, key: Array, value: Array, offsets: Array | None = None) -> None:
        """Appends rows: key [batch, kv_heads, new, head_dim], value alike. With offsets packed: key [tokens, kv_heads,
        head_dim]; sequence b gets the rows offsets[b] <= row < offsets[b + 1]."""
    def reorder(self, parents: Sequence[int]) -> None:
        """Sequence b becomes a copy of sequence parents[b]; afterwards there are as many sequences as parents."""
    def lengths(self) -> numpy.typing.NDArray[numpy.int32]:
        """Cached keys of each sequence (a copy)."""
    def attention(self, query: ArrayT, **options: Unpack[AttentionOptions]) -> ArrayT:
        """attention() with everything that is cached, the keys of the queries' own tokens included: query [batch, heads,
        q_len, head_dim], or packed with offsets_query. Query i has position length - q_len + i."""

class Saved:
    """What a call of a layer with save=True keeps for backward()."""

class Layer:
    """What all layers have: parameters, and their gradients."""
    def state_dict(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """The parameters by torch's names (copies)."""
    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Copies arrays into the parameters, in their type. ValueError for names that are missing or unknown, and for other
        shapes; nothing has changed then."""
    def gradients(self) -> dict[str, numpy.typing.NDArray[Any]]:
        """What backward() added up for each parameter since zero_grad() (copies)."""
    def zero_grad(self) -> None:
        """Makes all gradients zero."""
    def backward(self, saved: Saved, grad_out: ArrayT | tuple[ArrayT | None, ...]) -> tuple[ArrayT, ...]:
        """The gradients of the inputs, from the values saved by a call with save=True and the gradient of its output. Adds
        to
        gradients()."""
    def __reduce__(self) -> tuple[Any, ...]: ...

class MultiHeadAttention(Layer):
    """Many attentions side by side: project to heads, attend, merge, project out.

    Parameters and results are as in torch.nn.MultiheadAttention, but masks are qkv's (True may attend), and
    for rows that see no key, which are 0 before the output projection. Options: qkv.layers.MultiHeadAttentionConfig.

    >>> import numpy, qkv
    >>> layer = qkv.layers.MultiHeadAttention(model_dim=8, heads=2)
    >>> layer(numpy.ones((1, 3, 8), "f"), mask=qkv.Mask.causal()).shape
    (1, 3, 8)
    >>> sorted(layer.state_dict())
    ['in_proj_bias', 'in_proj_weight', 'out_proj.bias', 'out_proj.weight']
    """
    def __init__(self, **config: Unpack[MultiHeadAttentionConfig]) -> None: ...
    @overload
    def __call__(
        self, query: ArrayT, key: Array | None = None, value: Array | None = None, *,
        need_weights: Literal[False] = False, save: Literal[False] = False,
        **options: Unpack[HeadsOptions]
    ) -> ArrayT:
        """query [batch, q_len, dim] or [q_len, dim], or ragged: rows [tokens, dim] with offsets_query, int32 [batch + 1];
        keys are the queries, and values the keys, unless given. need_weights: gives (out, weights), [batch, q_len, k_len]
        or without average_weights [batch, heads, q_len, k_len]. save: gives (out, saved), for backward()."""
    @overload
    def __call__(
        self, query: ArrayT, key: Array | None = None, value: Array | None = None, *,
        need_weights: Literal[True], save: Literal[False] = False,
        **options: Unpack[HeadsOptions]
    ) -> tuple[ArrayT, ArrayT]: ...
    @overload
    def __call__(
        self, query: ArrayT, key: Array | None = None, value: Array | None = None, *,
        need_weights: Literal[False] = False, save: Literal[True],
        **options: Unpack[HeadsOptions]
    ) -> tuple[ArrayT, Saved]: ...
    @overload
    def __call__(
        self, query: ArrayT, key: Array | None = None, value: Array | None = None, *,
        need_weights: Literal[True], save: Literal[True],
        **options: Unpack[HeadsOptions]
    ) -> tuple[tuple[ArrayT, ArrayT], Saved]: ...

class Encoder(Layer):
    """Encoder layers one after the other: parameters and results of torch.nn.TransformerEncoder. Options:
    qkv.layers.StackConfig.

    >>> import numpy, qkv
    >>> encoder = qkv.layers.Encoder(model_dim=8, heads=2, ff_dim=16, layers=1)
    >>> out, saved = encoder(numpy.ones((1, 3, 8), "f"), save=True)
    >>> grad_x, = encoder.backward(saved, numpy.ones_like(out))
    >>> encoder.gradients()["layers.0.linear1.weight"].shape
    (16, 8)
    """
    def __init__(self, **config: Unpack[StackConfig]) -> None: ...
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[False] = False, **options: Unpack[StackOptions]) -> ArrayT:
        """x [batch, length, model_dim] or [length, model_dim], or ragged: rows [tokens, model_dim] with offsets, int32
        [batch + 1]. save: gives (out, saved), for backward(), which gives (grad_x,)."""
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[True], **options: Unpack[StackOptions]) -> tuple[ArrayT, Saved]: ...

class Decoder(Layer):
    """Decoder layers one after the other: parameters and results of torch.nn.TransformerDecoder. Options:
    qkv.layers.StackConfig.

    >>> import numpy, qkv
    >>> decoder = qkv.layers.Decoder(model_dim=8, heads=2, ff_dim=16, layers=1)
    >>> decoder(numpy.ones((1, 2, 8), "f"), numpy.ones((1, 3, 8), "f")).shape
    (1, 2, 8)
    """
    def __init__(self, **config: Unpack[StackConfig]) -> None: ...
    @overload
    def __call__(self, x: ArrayT, memory: Array, *, save: Literal[False] = False, **options: Unpack[DecoderOptions]) -> ArrayT:
        """x and memory as in Encoder. mask: qkv.Mask.causal() unless another one is given. save: gives (out, saved), for
        backward(), which gives (grad_x, grad_memory)."""
    @overload
    def __call__(self, x: ArrayT, memory: Array, *, save: Literal[True], **options: Unpack[DecoderOptions]) -> tuple[ArrayT, Saved]: ...

class Transformer(Layer):
    """An encoder and a decoder: parameters and results of torch.nn.Transformer.

    No embedding, no positions, no output projection. Options: qkv.layers.TransformerConfig.

    >>> import numpy, qkv
    >>> model = qkv.layers.Transformer(model_dim=8, heads=2, ff_dim=16, encoder_layers=1, decoder_layers=1)
    >>> model(numpy.ones((1, 3, 8), "f"), numpy.ones((1, 2, 8), "f")).shape
    (1, 2, 8)
    """
    def __init__(self, **config: Unpack[TransformerConfig]) -> None: ...
    @overload
    def __call__(self, source: ArrayT, target: Array, *, save: Literal[False] = False, **options: Unpack[TransformerOptions]) -> ArrayT:
        """source and target as in Encoder. target_mask: qkv.Mask.causal() unless another one is given. save: gives (out,
        saved), for backward(), which gives (grad_source, grad_target)."""
    @overload
    def __call__(self, source: ArrayT, target: Array, *, save: Literal[True], **options: Unpack[TransformerOptions]) -> tuple[ArrayT, Saved]: ...

class Rnn(Layer):
    """``h' = tanh(W_x x + b_x + W_h h + b_h)``: parameters and results of torch.nn.RNN (Elman, 1990).
    Options: qkv.lab.RnnConfig."""
    def __init__(self, **config: Unpack[RnnConfig]) -> None: ...
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[False] = False, **options: Unpack[RecurrentOptions]) -> tuple[ArrayT, ArrayT]:
        """x [batch, length, in] or [length, in], or ragged: rows [tokens, in] with offsets, int32 [batch + 1]. Gives the
        outputs [..., directions * hidden] and the states after the last step, [layers * directions, batch, hidden]; an
        initial state that is not given is zero. save: gives (those, saved), for backward(), which takes the gradient of
        the outputs, or a tuple with the states' gradients, and returns the gradients of x and of the given initial
        states."""
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[True], **options: Unpack[RecurrentOptions]) -> tuple[tuple[ArrayT, ArrayT], Saved]: ...

class Lstm(Layer):
    """Long short-term memory: parameters and results of torch.nn.LSTM (Hochreiter and Schmidhuber, 1997).
    Options: qkv.lab.RecurrentConfig.

    >>> import numpy, qkv
    >>> lstm = qkv.lab.Lstm(input_size=3, hidden=4)
    >>> out, hidden, cell = lstm(numpy.ones((2, 5, 3), "f"))
    >>> out.shape, hidden.shape
    ((2, 5, 4), (1, 2, 4))
    """
    def __init__(self, **config: Unpack[RecurrentConfig]) -> None: ...
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[False] = False, **options: Unpack[LstmOptions]) -> tuple[ArrayT, ArrayT, ArrayT]:
        """As in Rnn, with the states of the cells after the hidden ones."""
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[True], **options: Unpack[LstmOptions]) -> tuple[tuple[ArrayT, ArrayT, ArrayT], Saved]: ...

class Gru(Layer):
    """Gated recurrent unit: parameters and results of torch.nn.GRU (Cho et al., 2014). Options: qkv.lab.RecurrentConfig."""
    def __init__(self, **config: Unpack[RecurrentConfig]) -> None: ...
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[False] = False, **options: Unpack[RecurrentOptions]) -> tuple[ArrayT, ArrayT]:
        """As in Rnn."""
    @overload
    def __call__(self, x: ArrayT, *, save: Literal[True], **options: Unpack[RecurrentOptions]) -> tuple[tuple[ArrayT, ArrayT], Saved]: ...

class Conv1d(Layer):
    """``out[t, o] = bias[o] + sum over k, c of weight[o, c, k] x[t + k dilation, c]``

    Parameters and results of torch.nn.Conv1d, with channels last. Options: qkv.lab.Conv1dConfig.

    >>> import numpy, qkv
    >>> qkv.lab.Conv1d(in_channels=2, out_channels=3, kernel=2)(numpy.ones((1, 4, 2), "f")).shape
    (1, 3, 3)
    """
    def __init__(self, **config: Unpack[Conv1dConfig]) -> None: ...
    @overload
    def __call__(self, x: ArrayT, *, offsets: None = None, threads: int | None = None, save: Literal[False] = False) -> ArrayT:
        """x [batch, length, channels], or ragged: rows [tokens, channels] with offsets, int32 [batch + 1]; then (out, their
        offsets). save: gives (that, saved), for backward(), which gives (grad_x,)."""
    @overload
    def __call__(self, x: ArrayT, *, offsets: None = None, threads: int | None = None, save: Literal[True]) -> tuple[ArrayT, Saved]: ...
    @overload
    def __call__(self, x: ArrayT, *, offsets: Array, threads: int | None = None, save: Literal[False] = False) -> tuple[ArrayT, ArrayT]: ...
    @overload
    def __call__(self, x: ArrayT, *, offsets: Array, threads: int | None = None, save: Literal[True]) -> tuple[tuple[ArrayT, ArrayT], Saved]: ...

class PatchEmbedding(Layer):
    """Pictures as tokens: ``out[0] = class_token + position[0]``,
    ``out[1 + i] = projection(patch i) + position[1 + i]``, row by row of the grid.

    Options: qkv.layers.PatchEmbeddingConfig. Source: Dosovitskiy et al. (2021), section 3.1.

    >>> import numpy, qkv
    >>> embedding = qkv.layers.PatchEmbedding(dim=8, patch=4, grid=(2, 3))
    >>> embedding(numpy.zeros((1, 8, 12, 3), "f")).shape
    (1, 7, 8)
    """
    def __init__(self, **config: Unpack[PatchEmbeddingConfig]) -> None: ...
    @overload
    def __call__(self, pictures: ArrayT, *, threads: int | None = None, save: Literal[False] = False) -> ArrayT:
        """pictures [batch, height, width, channels] to [batch, 1 + patches, dim]; the rest at the right and at the
        bottom is not looked at. save: gives (out, saved), for backward(), which gives (), as pictures have no gradient."""
    @overload
    def __call__(self, pictures: ArrayT, *, threads: int | None = None, save: Literal[True]) -> tuple[ArrayT, Saved]: ...

def threads() -> int:
    """Threads used when a call does not name a number."""

def set_threads(count: int | None) -> None:
    """Sets the number of threads of the process; None returns to the default."""

def selected_target() -> str:
    """The CPU target that the kernels run on."""

def select_target(name: str) -> None:
    """Selects a CPU target for the whole process ("": the best). Not while a computation runs. ValueError, listing the
    usable ones, for another name."""


# Without a type: mypy would ask for it before it is read, in the modules that this one imports.
def __getattr__(name): ...  # type: ignore[no-untyped-def]
