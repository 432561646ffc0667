"""Reports of attention."""

from __future__ import annotations

import html
import importlib
import operator
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy

from . import _qkv
from .arrays import Array
from .embedder import Embedder
from .generator import Generator
from .translator import Translator

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Report:
    """A report. A notebook shows it as the page; str() gives it as text."""

    def __init__(self, core: Any, command: str = "qkv.explain()") -> None:
        self._core = core
        self._command = command

    @property
    def title(self) -> str:
        """The explained input."""
        return self._core.title()

    def text(self, width: int = 98) -> str:
        """The report as text, at most ``width`` columns wide."""
        return self._core.text(width)

    def json(self) -> str:
        """The report as one JSON object, every number in full (docs/explain_json.md)."""
        return self._core.json()

    def html(self) -> str:
        """The report as an HTML page that needs no other file and no network."""
        return self._core.html(self._command)

    @property
    def data(self) -> str:
        """The page, as IPython's HTML objects name it."""
        return self.html()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<qkv.Report {self.title!r}>"

    def _repr_html_(self) -> str:
        style = "width: 100%; height: 40em; border: 0"
        return f'<iframe title="{html.escape(self.title)}" style="{style}" srcdoc="{html.escape(self.html())}"></iframe>'


class Steps(TypedDict, total=False):
    """Self-attention for explain() to show step by step: ``query = inputs w_query``."""

    inputs: Array | None  #: [n, dim]
    w_query: Array | None  #: [dim, size], as w_key and w_value
    w_key: Array | None
    w_value: Array | None
    w_out: Array | None
    heads: int | None  #: of multi-head attention, with w_out
    scale: float | None
    causal: bool
    labels: list[str] | None


def explain(
    model: Embedder | Translator | Generator | None = None, text: str | None = None, **steps: Unpack[Steps]
) -> Report:
    """What the heads of a model attend to in a text; or, without a model, self-attention step by step: of arrays, or the
    worked example of the well-known tutorials. Every number is one of the run itself.

    For a Generator the report also has the origin of each token of the text, what else the model and each of its layers
    would have written, and the most probable next token.

    TypeError for another kind of model, ValueError for matrices that do not fit.

    >>> import qkv
    >>> print(qkv.explain().text().splitlines()[0])
    Self-attention step by step: the worked example
    """
    if model is None:
        if text is not None:
            raise TypeError("explain: text needs a model")
        return Report(_qkv._explain_steps(**steps))
    for name, value in steps.items():
        if value is not None and value is not False:
            raise TypeError(f"explain: {name} is for arrays, not for a model")
    given: Any = text
    if isinstance(model, Embedder):
        return Report(_qkv._explain_text(model._core, given))
    if isinstance(model, Translator):
        return Report(_qkv._explain_translation(model._core, given))
    if isinstance(model, Generator):
        return Report(_qkv._explain_written(model._core, given))
    raise TypeError(f"explain: model must be an Embedder, a Translator or a Generator, got {type(model).__name__}")


def report(weights: Any, tokens: Sequence[str] | tuple[Sequence[str], Sequence[str]], *, title: str = "") -> Report:
    """A report of attention weights from any library, like explain()'s of a model.

    weights: [layers, heads, queries, keys], or a list or tuple of layers, each [heads, queries, keys], with a dimension of 1
    before it if need be: what torch models give as ``output_attentions``. With tokens a pair of lists, of the encoder and of
    the decoder: the triple (encoder, decoder, cross attentions) of such weights, None for one that is not there.

    ValueError, naming the layer, for weights that do not fit the tokens, are not numbers or are below 0; the report
    names rows that do not sum to 1.

    >>> import numpy, qkv
    >>> report = qkv.report(numpy.full((1, 2, 3, 3), 1 / 3, "f"), ["the", "cat", "sat"])
    >>> print(report.text().splitlines()[0])
    What the heads attend to
    """
    given: Any = tokens
    pair = list(given) if isinstance(given, (list, tuple)) else []
    if len(pair) == 2 and not any(isinstance(one, str) for one in pair):
        if not isinstance(weights, (list, tuple)) or len(weights) != 3:
            raise ValueError("report: with tokens of encoder and decoder, weights are (encoder, decoder, cross attentions)")
        encoder, decoder, cross = weights
        attentions = _given(encoder, decoder, cross, _texts(pair[0]), _texts(pair[1]))
    else:
        attentions = _one("attention", weights, _texts(given))
    return _shown(attentions, "qkv.report()", title)


def head_view(
    attention: Any = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    layer: int | None = None,
    heads: Iterable[int] | None = None,
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Iterable[int] | None = None,
    html_action: Literal["view", "return"] = "view",
) -> Any:
    """bertviz's head_view: one head as lines between tokens, next to all others.

    The same arguments. "view" shows it in IPython; "return", or running elsewhere, gives the Report, whose data is the
    page. layer and heads: which head is seen first. sentence_b_start: also the weights within and between the two.
    """
    attentions = _of_views(
        attention, tokens, sentence_b_start, prettify_tokens,
        (encoder_attention, decoder_attention, cross_attention), (encoder_tokens, decoder_tokens),
        include_layers, None,
    )  # fmt: skip
    numbers = attentions[1][0][6]
    first = operator.index(layer) if layer is not None else numbers[0] if numbers else 0
    if first not in numbers:
        raise ValueError(f"head_view: layer is {first}; the layers are {_range_of(numbers)}")
    chosen = (_integers(heads) if heads is not None else [])[:1] or [0]
    if chosen[0] not in attentions[1][0][7]:
        raise ValueError(f"head_view: there is no head {chosen[0]}; the heads are {_range_of(attentions[1][0][7])}")
    made = _shown(attentions, "qkv.head_view()", "", f"view=heads&show=lines&head={first}.{chosen[0]}")
    return _acted(made, html_action)


def model_view(
    attention: Any = None,
    tokens: Sequence[str] | None = None,
    sentence_b_start: int | None = None,
    prettify_tokens: bool = True,
    display_mode: Literal["light", "dark"] = "dark",
    encoder_attention: Any = None,
    decoder_attention: Any = None,
    cross_attention: Any = None,
    encoder_tokens: Sequence[str] | None = None,
    decoder_tokens: Sequence[str] | None = None,
    include_layers: Iterable[int] | None = None,
    include_heads: Iterable[int] | None = None,
    html_action: Literal["view", "return"] = "view",
) -> Any:
    """bertviz's model_view: every head of every layer as a small map, one of them large. The same arguments; results as
    from head_view()."""
    if display_mode not in ("light", "dark"):
        raise ValueError(f'model_view: display_mode must be "light" or "dark", got {display_mode!r}')
    attentions = _of_views(
        attention, tokens, sentence_b_start, prettify_tokens,
        (encoder_attention, decoder_attention, cross_attention), (encoder_tokens, decoder_tokens),
        include_layers, include_heads,
    )  # fmt: skip
    return _acted(_shown(attentions, "qkv.model_view()", "", f"view=heads&scheme={display_mode}"), html_action)


# Sequences and attentions for the extension.
_Given = tuple[list[Any], list[Any]]


def _texts(tokens: Any) -> list[str]:
    listed = [] if isinstance(tokens, str) else list(tokens)
    if isinstance(tokens, str) or not all(isinstance(one, str) for one in listed):
        raise TypeError(f"tokens must be a list of str, got {type(tokens).__name__}")
    return listed


def _integers(given: Any) -> list[int]:
    return sorted({operator.index(one) for one in given})


def _layers_of(name: str, weights: Any) -> list[Any]:
    """The layers, each [heads, queries, keys] if it can be made so."""
    layers: list[Any] = []
    if isinstance(weights, (str, bytes, dict)) or not hasattr(weights, "__iter__"):
        raise TypeError(f"report: {name} must be weights, layer by layer, got {type(weights).__name__}")
    for i, layer in enumerate(weights):
        own = layer.detach() if hasattr(layer, "detach") else layer if hasattr(layer, "shape") else numpy.asarray(layer)
        shape = tuple(own.shape)
        if len(shape) == 4 and shape[0] != 1:
            raise ValueError(f"report: {name}, layer {i}: weights of {shape[0]} sequences; give one of them, layer[i:i+1]")
        layers.append(own[0] if len(shape) == 4 else own)
    return layers


def _entry(name: str, title: str, caption: str, queries: int, keys: int, layers: list[Any], part: bool = False) -> list[Any]:
    heads = int(layers[0].shape[0]) if layers and len(layers[0].shape) == 3 else 0
    return [name, title, caption, queries, keys, layers, list(range(len(layers))), list(range(heads)), part]


def _one(name: str, weights: Any, tokens: list[str]) -> _Given:
    layers = _layers_of(name, weights)
    return [("tokens", "", tokens)], [_entry(name, "", "tokens attend to tokens", 0, 0, layers)]


def _given(encoder: Any, decoder: Any, cross: Any, source: list[str], target: list[str]) -> _Given:
    sequences = [("source", "The encoder reads:  ", source), ("target", "The decoder reads:  ", target)]
    kinds = [
        ("encoder", "Encoder self-attention", "source tokens attend to source tokens", 0, 0, encoder),
        ("decoder", "Masked decoder self-attention", "tokens read attend to those before them", 1, 1, decoder),
        ("encoder_decoder", "Encoder-decoder attention", "tokens read attend to source tokens", 1, 0, cross),
    ]
    entries = [
        _entry(name, title, caption, queries, keys, _layers_of(name, weights))
        for name, title, caption, queries, keys, weights in kinds
        if weights is not None
    ]
    if not entries:
        raise ValueError("report: there are no weights")
    used = {number for entry in entries for number in entry[3:5]}
    if len(used) == 1:  # the other side has no tokens to show
        (only,) = used
        sequences = [sequences[only]]
        for entry in entries:
            entry[3:5] = [0, 0]
    return sequences, entries


def _of_views(
    attention: Any,
    tokens: Sequence[str] | None,
    sentence_b_start: int | None,
    prettify_tokens: bool,
    others: tuple[Any, Any, Any],
    other_tokens: tuple[Sequence[str] | None, Sequence[str] | None],
    include_layers: Iterable[int] | None,
    include_heads: Iterable[int] | None,
) -> _Given:
    pretty = _pretty if prettify_tokens else _texts
    if attention is not None:
        if tokens is None:
            raise ValueError("head_view and model_view: attention needs tokens")
        if any(one is not None for one in (*others, *other_tokens)):
            raise ValueError("head_view and model_view: attention does not go with encoder, decoder or cross attention")
        given = _one("attention", attention, pretty(tokens))
        if sentence_b_start is not None:
            _add_sentences(given, operator.index(sentence_b_start))
    else:
        if sentence_b_start is not None:
            raise ValueError("head_view and model_view: sentence_b_start goes with attention alone")
        for name, weights, needed in zip(("encoder", "decoder", "cross"), others, ((0,), (1,), (0, 1)), strict=True):
            for side in needed:
                if weights is not None and other_tokens[side] is None:
                    raise ValueError(f"head_view and model_view: {name}_attention needs {('encoder', 'decoder')[side]}_tokens")
        given = _given(*others, pretty(other_tokens[0] or []), pretty(other_tokens[1] or []))
    for entry in given[1]:
        _include(entry, 6, include_layers, "layers")
        _include(entry, 7, include_heads, "heads")
    return given


def _include(entry: list[Any], place: int, wanted: Iterable[int] | None, what: str) -> None:
    if wanted is None:
        return
    chosen = _integers(wanted)
    if not chosen or any(one not in entry[place] for one in chosen):
        raise ValueError(f"head_view and model_view: include_{what} is {chosen}; the {what} are {_range_of(entry[place])}")
    entry[5] = [entry[5][one] for one in chosen] if what == "layers" else [layer[numpy.asarray(chosen)] for layer in entry[5]]
    entry[place] = chosen


def _range_of(numbers: list[int]) -> str:
    if not numbers:
        return "none"
    return f"{numbers[0]} to {numbers[-1]}" if numbers == [*range(numbers[0], numbers[-1] + 1)] else str(numbers)


def _add_sentences(given: _Given, start: int) -> None:
    (_, _, tokens), whole = given[0][0], given[1][0]
    if any(len(layer.shape) != 3 for layer in whole[5]):
        return  # refused where shapes are checked
    if not 0 < start < len(tokens):
        raise ValueError(f"head_view and model_view: sentence_b_start is {start}; it must be 1 to {len(tokens) - 1}")
    whole[1] = "All tokens"
    given[0].extend([("A", "Sentence A:  ", tokens[:start]), ("B", "Sentence B:  ", tokens[start:])])
    parts = {"A": (1, slice(0, start)), "B": (2, slice(start, None))}
    for one, (queries, rows) in parts.items():
        for other, (keys, columns) in parts.items():
            layers = [layer[:, rows, columns] for layer in whole[5]]
            title = f"Sentence {one} to {other}"
            caption = f"tokens of sentence {one} attend to those of {other}"
            given[1].append(_entry(f"{one}_{other}".lower(), title, caption, queries, keys, layers, part=True))


def _pretty(tokens: Any) -> list[str]:
    """Without the vocabulary's marks of spaces."""
    given = _texts(tokens)
    shown = [token.replace("\u0120", " ").replace("\u2581", " ").replace("</w>", "").strip() for token in given]
    return [new or old for new, old in zip(shown, given, strict=True)]


def _shown(given: _Given, command: str, title: str, start: str = "") -> Report:
    sequences, attentions = given
    core = _qkv._explain_weights(sequences, attentions, title or "What the heads attend to", start)
    return Report(core, command)


def _acted(made: Report, html_action: str) -> Report | None:
    if html_action not in ("view", "return"):
        raise ValueError(f'html_action must be "view" or "return", got {html_action!r}')
    ipython = sys.modules.get("IPython")
    if html_action == "view" and ipython is not None and ipython.get_ipython() is not None:
        importlib.import_module("IPython.display").display(made)
        return None
    return made
