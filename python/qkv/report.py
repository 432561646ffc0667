"""What attention did, shown."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import Any

from . import _qkv
from .arrays import Array
from .embedder import Embedder
from .translator import Translator


class Report:
    """What explain() found. A notebook shows it as the page; str() gives it as text."""

    def __init__(self, core: _qkv._Explained) -> None:
        self._core = core

    @property
    def title(self) -> str:
        """What was explained."""
        return self._core.title()

    def text(self, width: int = 98) -> str:
        """As text of so many columns."""
        return self._core.text(width)

    def json(self) -> str:
        """As one JSON object, every number in full (docs/explain_json.md)."""
        return self._core.json()

    def html(self) -> str:
        """As an HTML page that needs no other file and no network."""
        return self._core.html("qkv.explain()")

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


def explain(
    model: Embedder | Translator | None = None,
    text: str | None = None,
    *,
    inputs: Array | None = None,
    w_query: Array | None = None,
    w_key: Array | None = None,
    w_value: Array | None = None,
    w_out: Array | None = None,
    heads: int | None = None,
    scale: float | None = None,
    causal: bool = False,
    labels: list[str] | None = None,
) -> Report:
    """What the heads of a model attend to in a text; or, without a model, self-attention step by step.

    inputs [n, dim] and w_query, w_key, w_value [dim, size]: ``query = inputs w_query``; without any of them the worked
    example of the well-known tutorials. heads: multi-head attention, with w_out. Every number is one of the run itself.

    TypeError for another kind of model, ValueError for matrices that do not fit.

    >>> import qkv
    >>> print(qkv.explain().text().splitlines()[0])
    Self-attention step by step: the worked example
    """
    steps = {
        "inputs": inputs,
        "w_query": w_query,
        "w_key": w_key,
        "w_value": w_value,
        "w_out": w_out,
        "scale": scale,
        "labels": labels,
    }
    if model is None:
        if text is not None:
            raise TypeError("explain: text needs a model")
        return Report(_qkv._explain_steps(heads=heads, causal=causal, **steps))
    surplus = [name for name, value in {**steps, "heads": heads or None, "causal": causal or None}.items() if value is not None]
    if surplus:
        raise TypeError(f"explain: {surplus[0]} is for arrays, not for a model")
    given: Any = text
    if isinstance(model, Embedder):
        return Report(_qkv._explain_text(model._core, given))
    if isinstance(model, Translator):
        return Report(_qkv._explain_translation(model._core, given))
    raise TypeError(f"explain: model must be an Embedder or a Translator, got {type(model).__name__}")
