"""What attention did, shown."""

from __future__ import annotations

import html
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from . import _qkv
from .arrays import Array
from .embedder import Embedder
from .translator import Translator

if TYPE_CHECKING:
    from typing_extensions import Unpack


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


class Steps(TypedDict, total=False):
    """Self-attention that explain() shows step by step: ``query = inputs w_query``."""

    inputs: Array | None  #: [n, dim]
    w_query: Array | None  #: [dim, size], as w_key and w_value
    w_key: Array | None
    w_value: Array | None
    w_out: Array | None
    heads: int | None  #: of multi-head attention, with w_out
    scale: float | None
    causal: bool
    labels: list[str] | None


def explain(model: Embedder | Translator | None = None, text: str | None = None, **steps: Unpack[Steps]) -> Report:
    """What the heads of a model attend to in a text; or, without a model, self-attention step by step: of arrays, or the
    worked example of the well-known tutorials. Every number is one of the run itself.

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
    raise TypeError(f"explain: model must be an Embedder or a Translator, got {type(model).__name__}")
