"""Translates texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from . import _qkv
from .model import Model
from .tokenizer import Tokenizer

if TYPE_CHECKING:
    from typing_extensions import Unpack

Progress = Callable[[int, int], object]  # the numbers of texts done and of all


class TranslateOptions(TypedDict, total=False):
    """Options of a Translator; None follows the folder. With any of temperature, top_k, top_p and seed, tokens are
    sampled."""

    beams: int | None
    max_length: int | None  #: new tokens
    length_penalty: float | None
    split: bool  #: True: a text of more tokens than the model has positions is split into sentences
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    threads: int | None


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


class Translator(Model):
    """A folder of a Marian or BART model, or of a recurrent one that qkv trained.

    Results do not depend on the other texts or on the number of threads. Any number of threads may use it; it pickles as
    its folder and options.

    >>> import qkv
    >>> str(qkv.Translator("models/en-es").translate("You are welcome."))
    'De nada.'
    """

    _open = _qkv._Translator

    @overload
    def translate(  # type: ignore[overload-overlap]  # a str is an iterable of str
        self, texts: str, *, nbest: Literal[1] = 1, progress: Progress | None = None, **options: Unpack[TranslateOptions]
    ) -> Translation: ...
    @overload
    def translate(  # type: ignore[overload-overlap]  # 1 is an int
        self, texts: Iterable[str], *, nbest: Literal[1] = 1, progress: Progress | None = None,
        **options: Unpack[TranslateOptions]
    ) -> list[Translation]: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, nbest: int, progress: Progress | None = None, **options: Unpack[TranslateOptions]
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, nbest: int, progress: Progress | None = None, **options: Unpack[TranslateOptions]
    ) -> list[list[Translation]]: ...
    def translate(self, texts: Any, *, progress: Progress | None = None, **options: Any) -> Any:
        """The translation of a text, or a list of them for several; with nbest above 1 a list for each text.

        progress is called with the numbers of texts done and of all. TypeError, with its index, for a text that is no str;
        ValueError for options that do not fit.
        """
        call = self._with_threads(options)
        single = isinstance(texts, str)
        given: Any = [texts] if single else texts
        if progress is None:
            found = self._core.translate(given, **call)
        else:
            given, found = list(given), []
            for begin in range(0, len(given), _PIECE):
                found += self._core.translate(given[begin : begin + _PIECE], line=begin, **call)
                progress(len(found), len(given))
        chosen = [_chosen(best, options) for best in found]
        return chosen[0] if single else chosen

    @overload
    def translate_iter(  # type: ignore[overload-overlap]
        self, texts: Iterable[str], *, nbest: Literal[1] = 1, **options: Unpack[TranslateOptions]
    ) -> Iterator[Translation]: ...
    @overload
    def translate_iter(
        self, texts: Iterable[str], *, nbest: int, **options: Unpack[TranslateOptions]
    ) -> Iterator[list[Translation]]: ...
    def translate_iter(self, texts: Iterable[str], **options: Any) -> Iterator[Any]:
        """The translations of a stream of texts, in its order, as they come."""
        if isinstance(texts, str):
            raise TypeError("texts must be an iterable of str, got str")
        source = iter(texts)
        line = 0
        call = self._with_threads(options)
        while piece := list(islice(source, _PIECE)):
            for index, text in enumerate(piece):
                if not isinstance(text, str):
                    raise TypeError(f"texts[{line + index}] must be a str, got {type(text).__name__}")
            for best in self._core.translate(piece, line=line, **call):
                yield _chosen(best, options)
            line += len(piece)

    def generate(
        self, sources: Iterable[Iterable[int]], *, nbest: int = 1, **options: Unpack[TranslateOptions]
    ) -> list[list[Hypothesis]]:
        """Translates ids: for each source its hypotheses, best first.

        ValueError for ids that the model does not know, and for sources that are empty or too long.
        """
        found = self._core.generate(sources, nbest=nbest, **self._with_threads(options))
        return [[Hypothesis(**each) for each in best] for best in found]

    @property
    def target_tokenizer(self) -> Tokenizer:
        """The tokenizer of the target side; FormatError if the folder has none."""
        return Tokenizer._of(self._core.target_tokenizer())


_PIECE = 16  # texts between two words of progress; results do not depend on it


def _translation(found: dict[str, Any]) -> Translation:
    return Translation(**{**found, "sentences": [_translation(each) for each in found["sentences"]]})


def _chosen(best: list[Any], options: Any) -> Any:
    found = [_translation(each) for each in best]
    return found[0] if options.get("nbest", 1) == 1 else found
