"""Embeds texts."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

import numpy

from . import _qkv, similarities
from .model import Model, shown
from .options import ModelPrecision, Weights
from .similarities import SparseVector

if TYPE_CHECKING:  # it takes long to import
    import numpy.typing
    from torch import Tensor
    from typing_extensions import Unpack

    Vectors = numpy.typing.NDArray[numpy.float32]


Role = Literal["text", "query", "document"]


class EncodeOptions(TypedDict, total=False):
    """Options of encode() that do not change the type of its result."""

    prompt: str | None
    batch_size: int
    show_progress_bar: bool | None
    precision: Literal["float32"]
    device: str | None
    normalize_embeddings: bool
    truncate_dim: int | None
    threads: int | None
    progress: Callable[[int, int], object] | None


class Embedder(Model):
    """A folder of sentence-transformers, or of a BERT-family encoder: texts to vectors.

    ``kind`` is the kind of embeddings: "vector"; "sparse" (SparseEncoder, SPLADE), a number for each word of
    the vocabulary; or "tokens" (MultiVectorEncoder, ColBERT), a vector for each token.

    The same bits for any other texts in the batch and any number of threads. ``encode`` and ``similarity`` take
    SentenceTransformer's arguments and refuse, by name, those that they do not support; ``fit``, ``transform`` and
    ``get_params`` make it a transformer of scikit-learn. Any number of threads may use it; it pickles as its folder and
    options.
    """

    _open = _qkv._Embedder

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        weights: Weights = "f32",
        precision: ModelPrecision = "exact",
        threads: int | None = None,
        max_seq_length: int | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        """Reads the folder: config.json, model.safetensors, tokenizer.json, and what modules.json names.

        weights: how the layers' matrices are stored, "f32", "bf16", "int8" or "int8_groups": in fewer bits they take less
        memory and are less accurate (docs/python.md). precision: "reduced" and "reduced_pairs" round rows and weights of
        every product to bf16 (docs/semantics.md). threads: None for the process's number. max_seq_length: tokens of a text
        that are read. truncate_dim: numbers that encode() keeps of a vector, the first ones, or of a sparse one, the
        largest. Both follow the folder unless given. FormatError for a folder that breaks a rule of its format or asks for
        steps that are not supported; OSError if it cannot be read.
        """
        super().__init__(folder, weights=weights, precision=precision, threads=threads)
        self.truncate_dim = truncate_dim
        self.max_seq_length = max_seq_length

    @overload
    def encode(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, role: Role = "text",
        output_value: Literal["sentence_embedding"] = "sentence_embedding",
        convert_to_numpy: Literal[True] = True, convert_to_tensor: Literal[False] = False, **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    @overload
    def encode(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, role: Role = "text",
        output_value: Literal["sentence_embedding"] = "sentence_embedding",
        convert_to_numpy: bool = True, convert_to_tensor: Literal[True], **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    @overload
    def encode(  # type: ignore[overload-overlap]  # a str is an iterable of str
        self, sentences: str, prompt_name: str | None = None, *, role: Role = "text",
        output_value: Literal["token_embeddings"],
        convert_to_numpy: Literal[True] = True, convert_to_tensor: Literal[False] = False, **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    @overload
    def encode(
        self, sentences: Iterable[str], prompt_name: str | None = None, *, role: Role = "text",
        output_value: Literal["token_embeddings"],
        convert_to_numpy: Literal[True] = True, convert_to_tensor: Literal[False] = False, **options: Unpack[EncodeOptions]
    ) -> list[Vectors]: ...
    @overload
    def encode(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, role: Role = "text",
        output_value: str = "sentence_embedding",
        convert_to_numpy: bool = True, convert_to_tensor: bool = False, **options: Unpack[EncodeOptions]
    ) -> Vectors | list[Vectors] | Tensor | list[Tensor]: ...
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
        role: Role = "text",
        threads: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Any:
        """The embeddings of texts, float32 [texts, dim]; of a single str [dim].

        batch_size changes nothing: texts are batched by their tokens, and the bits do not depend on it. progress is
        called with the numbers of texts done and of all; show_progress_bar shows them on standard error. role: what the
        texts are, as encode_query and encode_document say it; it chooses no prompt. prompt, or the
        folder's prompt of that name, is put before each text in place of the folder's default. truncate_dim keeps the first
        numbers; normalize_embeddings gives them length 1.
        output_value "token_embeddings": a list of float32 [tokens, dim], the last hidden states of each text.

        A folder of kind "sparse" gives a list of SparseVector, or a sparse tensor of torch; truncate_dim keeps the largest
        numbers, as max_active_dims of SparseEncoder. One of kind "tokens" gives a list of float32 [tokens, dim]. A type
        checker, which does not see the folder, takes it for one of kind "vector".

        TypeError, with its index, for a text that is no str; ValueError for an argument that cannot be honoured.
        """
        _refuse("output_value", output_value, "sentence_embedding", "token_embeddings")
        _refuse("precision", precision, "float32")
        if device not in (None, "cpu"):
            raise ValueError(f"encode: device={device!r} is not supported; qkv computes on the CPU")
        if batch_size < 1:
            raise ValueError(f"encode: batch_size must be 1 or more, got {batch_size}")
        single = isinstance(sentences, str)
        calls = [call for call in (shown("texts") if show_progress_bar else None, progress) if call]
        output = self.kind if output_value == "sentence_embedding" else "tokens"
        vector = output == "vector"
        found: Any = self._core.embed(
            [sentences] if isinstance(sentences, str) else sentences,
            output,
            self.threads if threads is None else threads,
            (lambda done, total: [call(done, total) for call in calls]) if calls else None,
            self._prompt(prompt_name, prompt),
            role,
            self._max_length,
            self.truncate_dim if truncate_dim is None and output != "tokens" else truncate_dim,
            normalize_embeddings if vector or normalize_embeddings else None,
        )
        as_tensors = convert_to_tensor or not convert_to_numpy
        if output == "sparse":
            found = [SparseVector(*each) for each in found]
            found = _sparse_tensor(found, self._core.dim()) if as_tensors else found
        elif output == "tokens":
            found = [_tensor(each) for each in found] if as_tensors else found
        elif as_tensors and not single:
            found = _tensor(found)
            return found if convert_to_tensor else list(found)
        return (_tensor(found[0]) if as_tensors and vector else found[0]) if single else found

    @overload
    def encode_query(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    @overload
    def encode_query(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    def encode_query(self, sentences: str | Iterable[str], prompt_name: str | None = None, **options: Any) -> Any:
        """encode() of queries, with the folder's prompt "query" unless a prompt is given."""
        return self._encode_as("query", sentences, prompt_name, options)

    @overload
    def encode_document(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, convert_to_tensor: Literal[False] = False,
        **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    @overload
    def encode_document(
        self, sentences: str | Iterable[str], prompt_name: str | None = None, *, convert_to_tensor: Literal[True],
        **options: Unpack[EncodeOptions]
    ) -> Tensor: ...
    def encode_document(self, sentences: str | Iterable[str], prompt_name: str | None = None, **options: Any) -> Any:
        """encode() of documents, with the folder's prompt "document" unless a prompt is given."""
        return self._encode_as("document", sentences, prompt_name, options)

    def _encode_as(self, role: Any, sentences: Any, prompt_name: str | None, options: Any) -> Any:
        name = role if prompt_name is None and options.get("prompt") is None else prompt_name
        return self.encode(sentences, name, role=role, **options)

    @overload
    def decode(self, vectors: SparseVector, top_k: int | None = None) -> list[tuple[str, float]]: ...
    @overload
    def decode(self, vectors: list[SparseVector], top_k: int | None = None) -> list[list[tuple[str, float]]]: ...
    def decode(self, vectors: Any, top_k: int | None = None) -> Any:
        """The words of a SparseVector with their weights, in decreasing order, or a list of them for several; None: all."""
        if isinstance(vectors, SparseVector):
            order = numpy.argsort(-vectors.values, kind="stable")[:top_k]
            tokenizer = self.tokenizer
            return [(tokenizer.token_of(int(vectors.indices[i])), float(vectors.values[i])) for i in order]
        return [self.decode(each, top_k) for each in vectors]

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of the rows of two matrices, [rows, rows], by the folder's similarity_fn_name; for results of encode()
        for a folder of kind "sparse" or "tokens" the same, of its texts.

        A tensor of torch for tensors, and lists of them; else an array.
        """
        found = similarities.all_pairs(self.similarity_fn_name, embeddings1, embeddings2)
        return _tensor(found) if _are_tensors(embeddings1, embeddings2) else found

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Similarity of each row to the same row of the other matrix, [rows], as in similarity()."""
        found = similarities.row_by_row(self.similarity_fn_name, embeddings1, embeddings2)
        return _tensor(found) if _are_tensors(embeddings1, embeddings2) else found

    def fingerprint(self) -> str:
        """A string that identifies what fixes the bits of its results: equal strings give equal results
        (docs/arithmetic.md)."""
        return self._core.fingerprint(self._max_length, self.truncate_dim)

    @property
    def kind(self) -> str:
        """The kind of embeddings: "vector", "sparse" or "tokens"."""
        return self._core.kind()

    @property
    def prompts(self) -> dict[str, str]:
        """The folder's prompts by name, including "query" and "document", as in SentenceTransformer."""
        return self._core.prompts()

    @property
    def similarity_fn_name(self) -> str:
        """As the folder says: "cosine", "dot", "euclidean" or "manhattan"; for kind "tokens" "maxsim" or "meanmaxsim"."""
        otherwise = {"vector": "cosine", "sparse": "dot", "tokens": "maxsim"}[self.kind]
        return self._config().get("similarity_fn_name") or otherwise

    @property
    def max_seq_length(self) -> int:
        """Maximum tokens of a text, including special ones; longer texts are truncated.

        It can be set up to the model's positions; None is what the folder says. ValueError for other numbers.
        """
        return self._core.max_length() if self._max_length is None else self._max_length

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self._core.embed([], self.kind, 1, None, None, "text", value, None, None)  # refuses what does not fit
        self._max_length = value

    def get_sentence_embedding_dimension(self) -> int:
        """Numbers of an embedding."""
        dim = self._core.dim()
        return dim if self.truncate_dim is None or self.kind != "vector" else min(dim, self.truncate_dim)

    get_embedding_dimension = get_sentence_embedding_dimension

    # scikit-learn's.
    def fit(self, X: Any = None, y: Any = None) -> Embedder:
        """Does nothing."""
        return self

    def transform(self, X: Iterable[str]) -> Vectors:
        """The embeddings of texts."""
        return self.encode(X)

    def fit_transform(self, X: Iterable[str], y: Any = None) -> Vectors:
        """The embeddings of texts."""
        return self.transform(X)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its constructor arguments."""
        return {"folder": self.folder, **self._options()}

    def set_params(self, **params: Any) -> Embedder:
        """Opens it again with other arguments."""
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

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "max_seq_length": self._max_length, "truncate_dim": self.truncate_dim}

    def _config(self) -> dict[str, Any]:
        path = Path(self.folder) / "config_sentence_transformers.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    # Prefix of each text; None for the folder's default.
    def _prompt(self, name: str | None, prompt: str | None) -> str | None:
        if name is None or prompt is not None:
            return prompt
        if name not in self.prompts:
            raise ValueError(f"encode: prompt_name {name!r} is not one of the folder's prompts, {sorted(self.prompts)}")
        return self.prompts[name]


def _refuse(name: str, value: str, *known: str) -> None:
    if value not in known:
        raise ValueError(f"encode: {name}={value!r} is not supported, only {' and '.join(map(repr, known))}")


def _tensor(array: Any) -> Any:
    import torch

    return torch.from_numpy(numpy.ascontiguousarray(array))


def _sparse_tensor(vectors: list[SparseVector], dim: int) -> Any:
    import torch

    rows = numpy.repeat(numpy.arange(len(vectors)), [len(each.indices) for each in vectors])
    columns = numpy.concatenate([numpy.empty(0, numpy.int64), *(each.indices for each in vectors)])
    values = numpy.concatenate([numpy.empty(0, numpy.float32), *(each.values for each in vectors)])
    indices = torch.from_numpy(numpy.stack([rows, columns]))
    return torch.sparse_coo_tensor(indices, torch.from_numpy(values), (len(vectors), dim), is_coalesced=True)


def _are_tensors(*embeddings: Any) -> bool:
    torch = sys.modules.get("torch")
    firsts = (each[0] if isinstance(each, (list, tuple)) and each else each for each in embeddings)
    return torch is not None and any(isinstance(each, torch.Tensor) for each in firsts)
