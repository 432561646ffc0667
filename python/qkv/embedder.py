"""Texts to embeddings."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from . import _qkv, similarities
from .model import Model
from .options import ModelPrecision, Weights

if TYPE_CHECKING:  # it takes long to import
    import numpy.typing

    Vectors = numpy.typing.NDArray[numpy.float32]


class Embedder(Model):
    """A folder of sentence-transformers, or of a BERT-family encoder: texts to vectors.

    The same bits whatever else is in the batch, for any number of threads. ``encode`` and ``similarity`` take
    SentenceTransformer's arguments and refuse by name what they cannot honour; ``fit``, ``transform`` and ``get_params``
    make it a transformer of scikit-learn. Any number of threads may use it; it pickles as its folder and options.
    """

    _open = _qkv._Embedder
    _core: _qkv._Embedder

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        weights: Weights = "f32",
        precision: ModelPrecision = "exact",
        threads: int | None = None,
        max_seq_length: int | None = None,
    ) -> None:
        """Reads the folder: config.json, model.safetensors, tokenizer.json, and what modules.json names.

        weights: how the layers' matrices are kept, "f32", "bf16", "int8" or "int8_groups": in fewer bits they take less
        memory and are less accurate (docs/python.md). precision: "reduced" and "reduced_pairs" round rows and weights of
        every product to bf16 (docs/semantics.md). threads: None for the process's number. max_seq_length: tokens of a text that are read, as
        the folder says unless given. FormatError for a folder that breaks a rule of its format or asks for steps that are
        not supported; OSError if it cannot be read.
        """
        super().__init__(folder, weights=weights, precision=precision, threads=threads)
        self.max_seq_length = max_seq_length

    def encode(
        self,
        sentences: str | Iterable[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: str = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        *,
        threads: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Any:
        """The embeddings of texts, float32 [texts, dim]; of a single str [dim].

        batch_size changes nothing: texts are batched by their tokens, and the bits do not depend on it. progress is
        called with the numbers of texts done and of all; show_progress_bar shows them on standard error. prompt, or the
        folder's prompt of that name, is put before each text in place of the folder's default. truncate_dim keeps the first
        numbers; normalize_embeddings gives them length 1.
        output_value "token_embeddings": a list of float32 [tokens, dim], the last hidden states of each text.

        TypeError, with its index, for a text that is no str; ValueError for an argument that cannot be honoured.
        """
        _refuse("output_value", output_value, "sentence_embedding", "token_embeddings")
        _refuse("precision", precision, "float32")
        if device not in (None, "cpu"):
            raise ValueError(f"encode: device={device!r} is not supported; qkv computes on the CPU")
        if batch_size < 1:
            raise ValueError(f"encode: batch_size must be 1 or more, got {batch_size}")
        single = isinstance(sentences, str)
        texts: Any = [sentences] if single else sentences
        count = self.threads if threads is None else threads
        calls = [call for call in (_show if show_progress_bar else None, progress) if call]
        progress = (lambda done, total: [call(done, total) for call in calls]) if calls else None
        as_tensors = convert_to_tensor or not convert_to_numpy
        if output_value == "token_embeddings":
            rows = self._token_embeddings(texts, self._prompt(prompt_name, prompt), batch_size, count, progress)
            given = [_tensor(each) for each in rows] if as_tensors else rows
            return given[0] if single else given
        vectors: Any = self._core.embed(texts, count, progress, self._prompt(prompt_name, prompt), self._max_length)
        if truncate_dim is not None:
            if truncate_dim < 1:
                raise ValueError(f"encode: truncate_dim must be 1 or more, got {truncate_dim}")
            vectors = vectors[:, :truncate_dim]
        if normalize_embeddings:
            vectors = similarities.normalized(vectors)
        if single:
            vectors = vectors[0]
        if as_tensors:
            vectors = _tensor(vectors)
            return vectors if convert_to_tensor or single else list(vectors)
        return vectors

    def encode_query(self, sentences: str | Iterable[str], prompt_name: str | None = None, **options: Any) -> Any:
        """encode() with the folder's prompt "query", unless a prompt is given."""
        return self.encode(sentences, _named(prompt_name, "query", options), **options)

    def encode_document(self, sentences: str | Iterable[str], prompt_name: str | None = None, **options: Any) -> Any:
        """encode() with the folder's prompt "document", unless a prompt is given."""
        return self.encode(sentences, _named(prompt_name, "document", options), **options)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """How alike the rows of two matrices are, [rows, rows], by the folder's similarity_fn_name (cosine unless set).

        A tensor of torch for tensors, and lists of them; else an array.
        """
        found = similarities.all_pairs(self.similarity_fn_name, embeddings1, embeddings2)
        return _tensor(found) if _are_tensors(embeddings1, embeddings2) else found

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """How alike each row is to the same row of the other matrix, [rows]; of the kind that similarity() gives."""
        found = similarities.row_by_row(self.similarity_fn_name, embeddings1, embeddings2)
        return _tensor(found) if _are_tensors(embeddings1, embeddings2) else found

    def fingerprint(self) -> str:
        """What fixes the bits of its results in one string: equal ones give equal results (docs/arithmetic.md)."""
        return _qkv._fingerprint(self._core, self._max_length)

    @property
    def similarity_fn_name(self) -> str:
        """ "cosine", "dot", "euclidean" or "manhattan", as the folder says."""
        return self._config().get("similarity_fn_name") or "cosine"

    @property
    def max_seq_length(self) -> int:
        """Tokens of a text that are read, special ones included; the others are cut off.

        It can be set up to the model's positions; None is what the folder says. ValueError for other numbers.
        """
        return self._core.max_length() if self._max_length is None else self._max_length

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self._core.embed([], 1, None, None, value)  # refuses what does not fit
        self._max_length = value

    def get_sentence_embedding_dimension(self) -> int:
        """Numbers of an embedding."""
        return self._core.dim()

    get_embedding_dimension = get_sentence_embedding_dimension

    # scikit-learn's.
    def fit(self, X: Any = None, y: Any = None) -> Embedder:
        """Nothing is learnt."""
        return self

    def transform(self, X: Iterable[str]) -> Vectors:
        """The embeddings of texts."""
        vectors: Vectors = self.encode(X)
        return vectors

    def fit_transform(self, X: Iterable[str], y: Any = None) -> Vectors:
        """The embeddings of texts."""
        return self.transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that made it."""
        return {
            "folder": self.folder,
            "weights": self.weights,
            "precision": self.precision,
            "threads": self.threads,
            "max_seq_length": self._max_length,
        }

    def set_params(self, **params: Any) -> Embedder:
        """Makes it anew with other arguments."""
        unknown = sorted(params.keys() - self.get_params().keys())
        if unknown:
            raise ValueError(f"set_params: unknown {unknown}; known are {', '.join(self.get_params())}")
        Embedder.__init__(self, **{**self.get_params(), **params})
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(one_d_array=True, two_d_array=False, string=True),
            requires_fit=False,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(Embedder, **self.get_params()), ()

    def _token_embeddings(
        self,
        texts: Any,
        prompt: str | None,
        batch_size: int,
        threads: int | None,
        progress: Callable[[int, int], object] | None,
    ) -> list[Vectors]:
        if prompt is None:
            prompt = self._prompts().get(self._config().get("default_prompt_name") or "", "")
        tokenizer, model = self.tokenizer, self._core.model()
        rows: list[Vectors] = []
        encodings = []
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"texts[{index}] must be a str, got {type(text).__name__}")
            encodings.append(tokenizer.encode(prompt + text, self.max_seq_length))
        for begin in range(0, len(encodings), batch_size):
            batch = encodings[begin : begin + batch_size]
            lengths = [len(each.ids) for each in batch]
            ids = [number for each in batch for number in each.ids]
            types = [number for each in batch for number in each.type_ids]
            hidden = model.forward(ids, types, lengths, threads)
            rows += numpy.split(hidden, numpy.cumsum(lengths)[:-1])
            if progress:
                progress(len(rows), len(encodings))
        return rows

    def _config(self) -> dict[str, Any]:
        path = Path(self.folder) / "config_sentence_transformers.json"
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return config

    # What is put before each text; None for the folder's default.
    def _prompt(self, name: str | None, prompt: str | None) -> str | None:
        if name is None or prompt is not None:
            return prompt
        prompts = self._prompts()
        if name not in prompts:
            raise ValueError(f"encode: prompt_name {name!r} is not one of the folder's prompts, {sorted(prompts)}")
        return prompts[name]

    # As SentenceTransformer has them, which knows two names itself.
    def _prompts(self) -> dict[str, str]:
        prompts = {"query": "", "document": "", **(self._config().get("prompts") or {})}
        return {name: prompt or "" for name, prompt in prompts.items()}


def _named(given: str | None, name: str, options: dict[str, Any]) -> str | None:
    return name if given is None and options.get("prompt") is None else given


def _show(done: int, total: int) -> None:
    sys.stderr.write(f"\r{100 * done // total} % of {total} texts" + "\n" * (done == total))
    sys.stderr.flush()


def _refuse(name: str, value: str, *known: str) -> None:
    if value not in known:
        raise ValueError(f"encode: {name}={value!r} is not supported, only {' and '.join(map(repr, known))}")


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(numpy.ascontiguousarray(array))


def _are_tensors(*embeddings: Any) -> bool:
    torch = sys.modules.get("torch")
    firsts = (each[0] if isinstance(each, (list, tuple)) and each else each for each in embeddings)
    return torch is not None and any(isinstance(each, torch.Tensor) for each in firsts)
