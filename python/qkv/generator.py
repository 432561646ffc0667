"""Continues prompts with a language model."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy

from . import _qkv
from .model import Model, list_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

Prompts = Iterable[str] | Iterable[Iterable[int]]


class GenerateOptions(TypedDict, total=False):
    """Options of a Generator; None follows the folder. With any of temperature, top_k, top_p, min_p and seed, tokens are
    drawn."""

    max_new_tokens: int | None
    max_length: int | None  #: with the prompt's tokens
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    seed: int | None
    greedy: bool  #: no sampling, regardless of the folder
    repetition_penalty: float | None
    beams: int | None
    length_penalty: float | None
    chunk: int  #: tokens of a prompt that are read at once, which changes no bit; 0: all
    heads: Iterable[tuple[int, int]]  #: (layer, head), from 0, whose weights the results have, of the passes that wrote
    draft: str  #: "lookup": guesses tokens from repetitions in the text; the same bits in less time. "none"
    #: file with a text and the model's state, for one prompt: continues the text, with "" as if it had not stopped
    session: str | os.PathLike[str]
    cache: str  #: type of the keys and values that are kept: "f32"; "bf16" and "f16" take half the memory, and round
    raw: bool  #: True: prompts contain their special tokens; none is added
    chat: bool  #: each prompt is a text that a user says, put into the folder's chat template (ChatML, Llama, Mistral, Gemma)
    threads: int | None


@dataclass(frozen=True)
class ScoredText:
    """Log-probabilities of a text: of all tokens but the first, which has no context."""

    ids: list[int]  #: the first included
    log_probabilities: list[float]  #: natural logarithms, each behind the tokens before it
    ranks: list[int]  #: among all tokens, 1 for the most probable
    log_probability: float  #: the sum
    bytes: int  #: of the text that they are
    bits_per_byte: float
    perplexity: float


@dataclass(frozen=True)
class GeneratedText:
    """A generated text; str() gives it."""

    text: str  #: without the stop string
    ids: list[int]  #: all tokens that were written, including the end token or the stop string
    log_probability: float  #: natural logarithm, the sum over the tokens
    score: float  #: log_probability / length^length_penalty
    end: str  #: "end_token", "stop_string" or "length"
    #: of each requested head [written, prompt + written - 1]: row i has the weights of the pass that wrote token i
    weights: list[numpy.ndarray[Any, Any]] = field(default_factory=list, compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


class Generator(Model):
    """A folder of a decoder-only model: GPT-2, GPT-NeoX, Llama, Mistral, Phi-3, Qwen2, Qwen3, Gemma 2 or 3 (text), or a GGUF
    file.

    Its texts have the same bits for any other prompts, chunks and number of threads. Any number of threads may use it; it
    pickles as its folder and options.

    >>> import qkv
    >>> generator = qkv.Generator("tests/golden/language/llama")
    >>> generator.generate([[1, 2, 3]], max_new_tokens=4)[0].end
    'length'
    """

    _open = _qkv._Generator

    @overload
    def generate(  # type: ignore[overload-overlap]  # a str is an iterable of str
        self, prompts: str, *, nbest: Literal[1] = 1, stop_strings: str | Iterable[str] = (), **options: Unpack[GenerateOptions]
    ) -> GeneratedText: ...
    @overload
    def generate(  # type: ignore[overload-overlap]  # 1 is an int
        self, prompts: Prompts, *, nbest: Literal[1] = 1, stop_strings: str | Iterable[str] = (),
        **options: Unpack[GenerateOptions]
    ) -> list[GeneratedText]: ...
    @overload
    def generate(  # type: ignore[overload-overlap]
        self, prompts: str, *, nbest: int, stop_strings: str | Iterable[str] = (), **options: Unpack[GenerateOptions]
    ) -> list[GeneratedText]: ...
    @overload
    def generate(
        self, prompts: Prompts, *, nbest: int, stop_strings: str | Iterable[str] = (), **options: Unpack[GenerateOptions]
    ) -> list[list[GeneratedText]]: ...
    def generate(self, prompts: Any, *, stop_strings: str | Iterable[str] = (), **options: Any) -> Any:
        """The continuation of a prompt, or a list of them for several; with nbest above 1 a list for each prompt.

        Prompts are texts, or lists of ids. A text ends in front of the first of stop_strings. ValueError for a prompt
        without tokens or with too many, and for options that do not fit.
        """
        single = isinstance(prompts, str)
        given: Any = list_of(prompts, "prompts")
        are_texts = bool(given) and isinstance(given[0], str)
        generate = self._core.generate if are_texts else self._core.generate_ids
        found = generate(given, list_of(stop_strings), **self._call(options))
        results = [[GeneratedText(**each) for each in best] for best in found]
        chosen: list[Any] = [best[0] for best in results] if options.get("nbest", 1) == 1 else results
        return chosen[0] if single else chosen

    @overload
    def score(self, texts: str, *, threads: int | None = None) -> ScoredText: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Iterable[str], *, threads: int | None = None) -> list[ScoredText]: ...
    def score(self, texts: Any, *, threads: int | None = None) -> Any:
        """The log-probability of each token of a text, or a list of them for several, tokenized like prompts.

        A text longer than the model's positions is read in windows that begin half of them apart, and a token counts in the
        first that holds it. ValueError for a text with fewer than two tokens.
        """
        single = isinstance(texts, str)
        found = self._core.score(list_of(texts), self.threads if threads is None else threads)
        results = [ScoredText(**each) for each in found]
        return results[0] if single else results

    # The options with what the folder's model has, and the path as a text.
    def _call(self, options: Any) -> dict[str, Any]:
        call = self._with_threads(options)
        return call if call.get("session") is None else {**call, "session": os.fspath(call["session"])}

    def stream(
        self, prompt: str, *, stop_strings: str | Iterable[str] = (), **options: Unpack[GenerateOptions]
    ) -> Iterator[str]:
        """The continuation of a prompt, piece by piece as it is generated; options as for generate(), except beams.

        Writing ends with the iterator: when it is closed, and with Ctrl-C.
        """
        pieces: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()
        stop = _qkv._StopSource()
        call = self._call(options)

        def write() -> None:
            try:
                self._core.stream(prompt, list_of(stop_strings), pieces.put, stop, **call)
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
