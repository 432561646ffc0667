"""Texts of one language to those of another."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from . import _qkv
from .options import Weights
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class Hypothesis:
    """A generated sequence of ids, without the start token."""

    ids: list[int]
    log_probability: float  #: natural logarithm, the sum over the tokens
    score: float  #: log_probability / length^length_penalty


@dataclass(frozen=True)
class Translation:
    """A translation; str() gives its text."""

    text: str
    ids: list[int]
    log_probability: float
    score: float
    unsure: bool  #: below the folder's own bound: probably wrong
    cut: int  #: tokens of the source that were not read, for want of positions
    source: str
    sentences: list[Translation]  #: none unless the text was split

    def __str__(self) -> str:
        return self.text


class Translator:
    """A folder of a Marian or BART model, or of a recurrent one that qkv trained.

    Results do not depend on the other texts or on the number of threads. Any number of threads may use it; it pickles as
    its folder and options.

    >>> import qkv
    >>> str(qkv.Translator("models/en-es").translate("You are welcome."))
    'De nada.'
    """

    def __init__(self, folder: str | os.PathLike[str], *, weights: Weights = "f32", threads: int | None = None) -> None:
        """Reads the folder: config.json, model.safetensors, tokenizer.json, generation_config.json.

        weights: how they are kept, "f32", "bf16", "int8" or "int8_groups" (docs/python.md). threads: None for the process's number. FormatError for a
        folder that breaks a rule of its format; OSError if it cannot be read.
        """
        self.folder = folder
        self.weights = weights
        self.threads = threads
        self._core = _qkv._Translator(os.fspath(folder), weights)

    def translate(
        self,
        texts: str | Iterable[str],
        *,
        beams: int | None = None,
        max_length: int | None = None,
        length_penalty: float | None = None,
        nbest: int = 1,
        split: bool = True,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        threads: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Any:
        """The translation of a text, or a list of those of several; with nbest above 1 a list for each text.

        beams, max_length (new tokens) and length_penalty as the folder says unless given. split: a text of more tokens
        than the model has positions is split into sentences. One of temperature, top_k, top_p and seed: tokens are
        sampled. progress is called with the numbers of texts done and of all.

        TypeError, with its index, for a text that is no str; ValueError for options that do not fit.
        """
        options = {
            "beams": beams,
            "max_length": max_length,
            "length_penalty": length_penalty,
            "nbest": nbest,
            "split": split,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "seed": seed,
            "threads": self.threads if threads is None else threads,
        }
        single = isinstance(texts, str)
        given: Any = [texts] if single else texts
        if progress is None:
            found = self._core.translate(given, **options)
        else:
            given, found = list(given), []
            for begin in range(0, len(given), _PIECE):
                found += self._core.translate(given[begin : begin + _PIECE], line=begin, **options)
                progress(len(found), len(given))
        results = [[_translation(each) for each in best] for best in found]
        chosen: list[Any] = [best[0] for best in results] if nbest == 1 else results
        return chosen[0] if single else chosen

    def translate_iter(self, texts: Iterable[str], **options: Any) -> Iterator[Any]:
        """The translations of a stream of texts, in its order, as they come; options as translate() has them."""
        if isinstance(texts, str):
            raise TypeError("texts must be an iterable of str, got str")
        source = iter(texts)
        line = 0
        nbest = options.get("nbest", 1)
        options.setdefault("threads", self.threads)
        while piece := list(islice(source, _PIECE)):
            for index, text in enumerate(piece):
                if not isinstance(text, str):
                    raise TypeError(f"texts[{line + index}] must be a str, got {type(text).__name__}")
            for best in self._core.translate(piece, line=line, **options):
                found = [_translation(each) for each in best]
                yield found[0] if nbest == 1 else found
            line += len(piece)

    def generate(self, sources: Iterable[Iterable[int]], **options: Any) -> list[list[Hypothesis]]:
        """From ids to ids: for each source its hypotheses, best first; options as translate() has them.

        ValueError for ids that the model does not know, and for sources that are empty or too long.
        """
        options.setdefault("threads", self.threads)
        return [[Hypothesis(**each) for each in best] for best in self._core.generate(sources, **options)]

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of sources; FormatError if the folder has none."""
        return Tokenizer._of(self._core.tokenizer())

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of targets; FormatError if the folder has none."""
        return Tokenizer._of(self._core.target_tokenizer())

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Translator, weights=self.weights, threads=self.threads), (self.folder,)

    def __repr__(self) -> str:
        return f"Translator({os.fspath(self.folder)!r}, weights={self.weights!r}, threads={self.threads})"


_PIECE = 16  # texts between two words of progress; results do not depend on it


def _translation(found: dict[str, Any]) -> Translation:
    return Translation(**{**found, "sentences": [_translation(each) for each in found["sentences"]]})
