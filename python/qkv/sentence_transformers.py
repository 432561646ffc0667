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

from .embedder import Embedder
from .tokenizer import Tokenizer


def load(folder: str | os.PathLike[str], *, weights: str = "f32", threads: int = 0) -> SentenceTransformer:
    """The SentenceTransformer of a folder, for inference: encode, similarity, search and evaluation as always.

    The folder's prompts, similarity and normalisation are kept. weights and threads as qkv.Embedder() has them, which
    raises FormatError, OSError, and ValueError for other weights.
    """
    embedder = Embedder(folder, weights=weights, threads=threads)
    config = embedder._config()
    return SentenceTransformer(
        modules=[Engine(embedder)],
        device="cpu",
        prompts=config.get("prompts"),
        default_prompt_name=config.get("default_prompt_name"),
        similarity_fn_name=embedder.similarity_fn_name,
    )


class Engine(InputModule):
    """The only module of such a model: texts to embeddings."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.embedder = embedder

    def preprocess(self, inputs: Sequence[str], prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        return {"texts": list(inputs), "prompt": prompt or ""}

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        if self.training and torch.is_grad_enabled():
            raise RuntimeError("a model of qkv.sentence_transformers has no gradients; train with SentenceTransformer(folder)")
        # The prompt is that of the SentenceTransformer, and none where it has none.
        vectors = self.embedder.encode(features["texts"], prompt=features["prompt"], convert_to_tensor=True)
        return {**features, "sentence_embedding": vectors}

    def get_embedding_dimension(self) -> int:
        return self.embedder.get_embedding_dimension()

    @property
    def max_seq_length(self) -> int:
        return self.embedder.max_seq_length

    @property
    def tokenizer(self) -> Tokenizer:
        return self.embedder.tokenizer

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"this model is that of {os.fspath(self.embedder.folder)}: copy the folder")
