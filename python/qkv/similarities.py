"""Similarity of embeddings, by the functions of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from . import _qkv

if TYPE_CHECKING:  # it takes long to import
    import numpy.typing

    Floats = numpy.typing.NDArray[Any]


class SparseVector(NamedTuple):
    """The numbers of a sparse embedding that are not 0."""

    indices: numpy.typing.NDArray[numpy.int32]  #: ids of the tokenizer, rising
    values: numpy.typing.NDArray[numpy.float32]  #: one for each


def normalized(vectors: Floats) -> Floats:
    """Rows of length 1; zero stays zero, as in torch.nn.functional.normalize (epsilon 1e-12)."""
    lengths = numpy.sqrt(numpy.square(vectors).sum(axis=-1, keepdims=True))
    return vectors / numpy.maximum(lengths, 1e-12)


def all_pairs(name: str, first: Any, second: Any) -> Floats:
    """Each row of one matrix with each of the other; a vector is a matrix of one row."""
    if name in ("maxsim", "meanmaxsim"):
        queries, documents = _lists(first), _lists(second)
        scores: Floats = _qkv._maxsim(queries, documents, None)
        return scores if name == "maxsim" else scores / numpy.array([[max(1, len(each))] for each in queries])
    a, b = _matrices(first, second)
    if name == "cosine":
        return normalized(a) @ normalized(b).T
    if name == "dot":
        return a @ b.T
    return _distance(name)(a[:, None, :] - b[None, :, :])


def row_by_row(name: str, first: Any, second: Any) -> Floats:
    """Each row of one matrix with the same row of the other."""
    if name in ("maxsim", "meanmaxsim"):
        return numpy.array([all_pairs(name, *pair)[0, 0] for pair in zip(_lists(first), _lists(second), strict=True)])
    a, b = _matrices(first, second)
    if name == "cosine":
        a, b = normalized(a), normalized(b)
    if name in ("cosine", "dot"):
        return (a * b).sum(axis=-1)
    return _distance(name)(a - b)


def _lists(tokens: Any) -> list[Any]:
    """Vectors of the tokens of several texts, one matrix per text."""
    several = [tokens] if getattr(tokens, "ndim", 3) == 2 else list(tokens)
    return [numpy.asarray(each, numpy.float32) for each in several]


def _matrices(first: Any, second: Any) -> tuple[Floats, Floats]:
    """Their rows; of sparse vectors with a column for each word that one of them has."""
    given: list[Any] = [[each] if isinstance(each, SparseVector) else each for each in (first, second)]
    if not all(isinstance(each, list) and each and isinstance(each[0], SparseVector) for each in given):
        a, b = (each.to_dense() if getattr(each, "is_sparse", False) else each for each in given)
        return numpy.atleast_2d(numpy.asarray(a)), numpy.atleast_2d(numpy.asarray(b))
    words = numpy.unique(numpy.concatenate([vector.indices for rows in given for vector in rows]))
    found = [numpy.zeros((len(rows), len(words)), numpy.float32) for rows in given]
    for matrix, rows in zip(found, given, strict=True):
        for row, vector in zip(matrix, rows, strict=True):
            row[numpy.searchsorted(words, vector.indices)] = vector.values
    return found[0], found[1]


def _distance(name: str) -> Callable[[Floats], Floats]:
    if name == "euclidean":
        return lambda difference: -numpy.sqrt(numpy.square(difference).sum(axis=-1))
    if name == "manhattan":
        return lambda difference: -numpy.abs(difference).sum(axis=-1)
    raise ValueError(f'similarity must be "cosine", "dot", "euclidean" or "manhattan", got {name!r}')
