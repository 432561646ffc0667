"""The common part of models that are read from a folder."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from . import _qkv
from .options import ModelPrecision, Weights
from .tokenizer import Tokenizer


class Opened:
    """A folder and its options, as which it pickles. Any number of threads may use it."""

    _open: Any  # its class in the extension

    def __init__(self, folder: str | os.PathLike[str], *, threads: int | None = None) -> None:
        """Reads the folder. threads: None for the process's number. FormatError for a folder that breaks a rule of its format;
        OSError if it cannot be read."""
        self.folder = folder
        self.threads = threads
        self._core = self._open(os.fspath(folder), *self._storage())

    def fingerprint(self) -> str:
        """A string that identifies what fixes the bits of its results: equal strings give equal results
        (docs/arithmetic.md)."""
        return _qkv._fingerprint(self._core)

    def _storage(self) -> tuple[str, ...]:
        return ()

    def _options(self) -> dict[str, Any]:
        """Its constructor arguments, without the folder."""
        return {"threads": self.threads}

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), **self._options()), (self.folder,)

    def __repr__(self) -> str:
        options = (f"{name}={value!r}" for name, value in self._options().items())
        return f"{type(self).__name__}({', '.join((repr(os.fspath(self.folder)), *options))})"


class Model(Opened):
    """An opened folder with a tokenizer, whose weights can be kept in fewer bits."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        weights: Weights = "f32",
        precision: ModelPrecision = "exact",
        threads: int | None = None,
    ) -> None:
        """Reads the folder: config.json, model.safetensors, tokenizer.json, generation_config.json.

        weights: how they are stored, "f32", "bf16", "int8" or "int8_groups" (docs/python.md). precision: "reduced" and
        "reduced_pairs" round rows and weights of every product to bf16 (docs/semantics.md). threads: None for the process's
        number. FormatError for a folder that breaks a rule of its format; OSError if it cannot be read.
        """
        self.weights = weights
        self.precision = precision
        super().__init__(folder, threads=threads)

    @property
    def tokenizer(self) -> Tokenizer:
        """The folder's tokenizer, for a translator the source side's; FormatError if it has none."""
        return Tokenizer._of(self._core.tokenizer())

    def _storage(self) -> tuple[str, ...]:
        return self.weights, self.precision

    def _options(self) -> dict[str, Any]:
        return {"weights": self.weights, "precision": self.precision, **super()._options()}

    # `options` with the model's own number of threads unless another is given.
    def _with_threads(self, options: Any) -> dict[str, Any]:
        return {**options, "threads": self.threads if options.get("threads") is None else options["threads"]}


def list_of(texts: Any, name: str = "texts") -> list[Any]:
    if not isinstance(texts, Iterable):
        raise TypeError(f"{name} must be a str or a list, got {type(texts).__name__}")
    return [texts] if isinstance(texts, str) else list(texts)


def shown(what: str) -> Callable[[int, int], None]:
    """A progress bar on standard error."""

    def show(done: int, total: int) -> None:
        sys.stderr.write(f"\r{100 * done // total} % of {total} {what}" + "\n" * (done == total))
        sys.stderr.flush()

    return show
