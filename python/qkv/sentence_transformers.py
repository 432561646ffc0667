"""A SentenceTransformer whose embeddings come from our engine.

>>> import qkv.sentence_transformers
>>> model = qkv.sentence_transformers.load("/path/to/all-MiniLM-L6-v2")  # doctest: +SKIP
>>> model.encode("a text").shape  # doctest: +SKIP
(384,)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import InputModule
from transformers import AutoTokenizer

from .embedder import Embedder
from .options import Weights
from .torch.whole import Float32Module


def load(folder: str | os.PathLike[str], *, weights: Weights = "f32", threads: int | None = None) -> SentenceTransformer:
    """The SentenceTransformer of a folder, for inference: encode, similarity, search and evaluation as always.

    The folder's prompts, similarity and normalisation are kept. weights and threads as qkv.Embedder() has them, which
    raises FormatError, OSError, and ValueError for other weights and for folders of other kinds than "vector"; threads=None
    means torch.get_num_threads(). In float32 on the CPU: half(), and other devices, are a TypeError.
    """
    embedder = Embedder(folder, weights=weights, threads=threads)
    if embedder.kind != "vector":
        raise ValueError(f"load: the folder's embeddings are of kind {embedder.kind!r}; open it as qkv.Embedder")
    config = embedder._config()
    return SentenceTransformer(
        modules=[Engine(embedder)],
        device="cpu",
        prompts=config.get("prompts"),
        default_prompt_name=config.get("default_prompt_name"),
        truncate_dim=config.get("truncate_dim"),
        similarity_fn_name=embedder.similarity_fn_name,
    )


class Engine(Float32Module, InputModule):
    """The only module of such a model: texts to embeddings."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder
        self._tokenizer: Any = None

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"texts": list(inputs), "prompt": prompt or ""}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if self.training and torch.is_grad_enabled():
            raise RuntimeError("a model of qkv.sentence_transformers has no gradients; train with SentenceTransformer(folder)")
        return _Features(self, features, sentence_embedding=self.encode(features, "sentence_embedding"))

    def encode(self, features: dict[str, Any], output_value: str) -> Any:
        return self.embedder.encode(
            features["texts"],
            prompt=features["prompt"],  # the SentenceTransformer's, if it has one
            output_value=output_value,
            convert_to_tensor=True,
            threads=self.embedder.threads or torch.get_num_threads(),
        )

    def get_embedding_dimension(self) -> int:
        return self.embedder.get_embedding_dimension()

    @property
    def max_seq_length(self) -> int:
        return self.embedder.max_seq_length

    @max_seq_length.setter
    def max_seq_length(self, value: int | None) -> None:
        self.embedder.max_seq_length = value
        self._tokenizer = None

    @property
    def tokenizer(self) -> Any:
        """The folder's tokenizer from transformers."""
        if self._tokenizer is None:
            length = self.max_seq_length
            self._tokenizer = AutoTokenizer.from_pretrained(self.embedder.folder, model_max_length=length)
        return self._tokenizer

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"this model is read from {os.fspath(self.embedder.folder)}: copy the folder")


class _Features(dict[str, Any]):
    """The result of forward(). Token embeddings are computed on demand."""

    def __init__(self, engine: Engine, *features: Any, **more: Any) -> None:
        super().__init__(*features, **more)
        self._engine = engine

    def __missing__(self, name: str) -> Any:
        if name not in ("token_embeddings", "attention_mask"):
            raise KeyError(name)
        rows = self._engine.encode(self, "token_embeddings")
        lengths = torch.tensor([len(each) for each in rows])
        self["token_embeddings"] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        self["attention_mask"] = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
        return self[name]
