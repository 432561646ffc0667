"""What a language model writes behind a prompt."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy

from . import _qkv
from .options import Weights
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class GeneratedText:
    """What was written behind a prompt; str() gives its text."""

    text: str  #: without what ended it
    ids: list[int]  #: all that was written, what ended it included
    log_probability: float  #: natural logarithm, the sum over the tokens
    score: float  #: log_probability / length^length_penalty
    end: str  #: "end_token", "stop_string" or "length"
    #: of each head asked for [written, prompt + written - 1]: row i is what the pass that wrote token i attended to
    weights: list[numpy.ndarray[Any, Any]] = field(default_factory=list, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


class Generator:
    """A folder of a decoder-only model: GPT-2, GPT-NeoX, Llama, Mistral, Phi-3, Qwen2, Qwen3, Gemma 2 or 3 (text).

    What it writes has the same bits whatever other prompts there are, however they are read, and on any number of
    threads. Any number of threads may use it; it pickles as its folder and options.

    >>> import qkv
    >>> generator = qkv.Generator("tests/golden/language/llama")
    >>> generator.generate([[1, 2, 3]], max_new_tokens=4)[0].end
    'length'
    """

    def __init__(self, folder: str | os.PathLike[str], *, weights: Weights = "f32", threads: int | None = None) -> None:
        """Reads the folder: config.json, model.safetensors, tokenizer.json, generation_config.json.

        weights: how they are kept, "f32", "bf16", "int8" or "int8_groups" (docs/python.md). threads: None for the
        process's number. FormatError for a folder that breaks a rule of its format; OSError if it cannot be read.
        """
        self.folder = folder
        self.weights = weights
        self.threads = threads
        self._core = _qkv._Generator(os.fspath(folder), weights)

    def generate(
        self,
        prompts: str | Iterable[str] | Iterable[Iterable[int]],
        *,
        max_new_tokens: int | None = None,
        max_length: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        seed: int | None = None,
        greedy: bool = False,
        repetition_penalty: float | None = None,
        beams: int | None = None,
        length_penalty: float | None = None,
        nbest: int = 1,
        stop_strings: str | Iterable[str] = (),
        chunk: int = 0,
        heads: Iterable[tuple[int, int]] = (),
        threads: int | None = None,
    ) -> Any:
        """What is written behind a prompt, or a list of it for several; with nbest above 1 a list for each prompt.

        Prompts are texts, or lists of ids. What is not given is as the folder says. max_length counts the prompt's
        tokens, max_new_tokens does not. One of temperature, top_k, top_p, min_p and seed: tokens are drawn; greedy:
        they are not, whatever the folder says. A text ends in front of the first of stop_strings. chunk: tokens of a
        prompt that are read at once, which changes no bit; 0: all. heads: pairs (layer, head), from 0, whose weights
        the results have, as they were in the passes that wrote.

        ValueError for a prompt without tokens or with too many, and for options that do not fit.
        """
        options = {
            "max_new_tokens": max_new_tokens,
            "max_length": max_length,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "seed": seed,
            "greedy": greedy,
            "repetition_penalty": repetition_penalty,
            "beams": beams,
            "length_penalty": length_penalty,
            "nbest": nbest,
            "chunk": chunk,
            "heads": list(heads) or None,
            "threads": self.threads if threads is None else threads,
        }
        stops = _list_of(stop_strings)
        if isinstance(prompts, str):
            return self._chosen(self._core.generate([prompts], stops, **options), nbest)[0]
        given: Any = list(prompts)
        texts = bool(given) and isinstance(given[0], str)
        found = (self._core.generate if texts else self._core.generate_ids)(given, stops, **options)
        return self._chosen(found, nbest)

    def stream(self, prompt: str, *, stop_strings: str | Iterable[str] = (), **options: Any) -> Iterator[str]:
        """The text behind a prompt, piece by piece as it is written; options as generate() has them, but for beams.

        Writing ends with the iterator: when it is closed, and with Ctrl-C.
        """
        pieces: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
        stop = _qkv._StopSource()
        options.setdefault("threads", self.threads)

        def write() -> None:
            try:
                self._core.stream(prompt, _list_of(stop_strings), pieces.put, stop, **options)
                pieces.put(None)
            except BaseException as error:  # raised where the text is read
                pieces.put(error)

        writer = threading.Thread(target=write, daemon=True)
        try:
            writer.start()
            while (piece := pieces.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
        finally:
            stop.request_stop()
            if writer.is_alive():
                writer.join()

    @staticmethod
    def _chosen(found: list[list[dict[str, Any]]], nbest: int) -> list[Any]:
        results = [[GeneratedText(**each) for each in best] for best in found]
        return [best[0] for best in results] if nbest == 1 else list(results)

    @property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer; FormatError if it has none."""
        return Tokenizer._of(self._core.tokenizer())

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self.folder, self.weights, self.threads)

    def __repr__(self) -> str:
        return f"Generator({os.fspath(self.folder)!r}, weights={self.weights!r}, threads={self.threads})"


def _list_of(texts: str | Iterable[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _make(folder: str, weights: Weights, threads: int | None) -> Generator:
    return Generator(folder, weights=weights, threads=threads)
