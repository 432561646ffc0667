"""Converts text to token ids and back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, overload

from . import _qkv


@dataclass(frozen=True)
class Encoding:
    """The tokens of a text, an entry each."""

    ids: list[int]
    tokens: list[str]
    type_ids: list[int]
    offsets: list[tuple[int, int]]  #: characters begin <= i < end of the text; (0, 0) for added special tokens
    special: list[int]  #: 1 for tokens that were added around the text


class Tokenizer:
    """A Hugging Face tokenizer.json: the same ids as the ``tokenizers`` library. Any number of threads may use it.

    >>> import qkv
    >>> tokenizer = qkv.Tokenizer("models/en-es/tokenizer.json")
    >>> tokenizer.decode(tokenizer.encode("You are welcome.").ids)
    'You are welcome.'
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Reads the file; FormatError, naming the field and the rule, for a malformed file, OSError if it cannot be read."""
        self._path: str | None = os.fspath(path)
        self._core = _qkv._Tokenizer(self._path)

    @classmethod
    def _of(cls, core: Any) -> Tokenizer:
        tokenizer = cls.__new__(cls)
        tokenizer._path = None
        tokenizer._core = core
        return tokenizer

    def encode(self, text: str, max_length: int | None = None, add_special_tokens: bool = True) -> Encoding:
        """The tokens of a text, at most max_length of them, including special ones."""
        return Encoding(**self._core.encode(text, max_length, add_special_tokens))

    @overload
    def __call__(  # type: ignore[overload-overlap]  # a str is an iterable of str
        self, text: str, max_length: int | None = None, add_special_tokens: bool = True
    ) -> dict[str, list[int]]: ...
    @overload
    def __call__(
        self, text: Iterable[str], max_length: int | None = None, add_special_tokens: bool = True
    ) -> dict[str, list[list[int]]]: ...
    def __call__(self, text: Any, max_length: int | None = None, add_special_tokens: bool = True) -> Any:
        """A dict like transformers' tokenizers, input_ids, token_type_ids and attention_mask: a list of numbers
        each, of several texts a list of lists, without padding."""
        if isinstance(text, str):
            encoding = self.encode(text, max_length, add_special_tokens)
            ids, types = encoding.ids, encoding.type_ids
            return {"input_ids": ids, "token_type_ids": types, "attention_mask": [1] * len(ids)}
        each = [self(one, max_length, add_special_tokens) for one in text]
        return {name: [one[name] for one in each] for name in ("input_ids", "token_type_ids", "attention_mask")}

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = True) -> str:
        """The text of token ids; ValueError for one that is not in the vocabulary."""
        return self._core.decode(ids, skip_special_tokens)

    def id_of(self, token: str) -> int | None:
        """The id of a token, None if the vocabulary lacks it."""
        return self._core.id_of(token)

    def token_of(self, id: int) -> str:
        """The token of an id; ValueError for an unknown one."""
        return self._core.token_of(id)

    def special_tokens(self) -> list[str]:
        """The added tokens that the file calls special."""
        return self._core.special_tokens()

    def vocab(self) -> int:
        """One more than the largest id."""
        return self._core.vocab()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            raise TypeError("a tokenizer of a model cannot be pickled; pickle the model")
        return Tokenizer, (self._path,)
