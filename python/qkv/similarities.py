"""How alike embeddings are, by the four functions of sentence-transformers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:  # it takes long to import
    import numpy.typing

    Floats = numpy.typing.NDArray[Any]


def normalized(vectors: Floats) -> Floats:
    """Rows of length 1; zero stays zero, as torch.nn.functional.normalize has it (epsilon 1e-12)."""
    lengths = numpy.sqrt(numpy.square(vectors).sum(axis=-1, keepdims=True))
    result: Floats = vectors / numpy.maximum(lengths, 1e-12)
    return result


def all_pairs(name: str, first: Any, second: Any) -> Floats:
    """Each row of one matrix with each of the other; a vector is a matrix of one row."""
    a, b = numpy.atleast_2d(numpy.asarray(first)), numpy.atleast_2d(numpy.asarray(second))
    if name == "cosine":
        result: Floats = normalized(a) @ normalized(b).T
        return result
    if name == "dot":
        product: Floats = a @ b.T
        return product
    return _distance(name)(a[:, None, :] - b[None, :, :])


def row_by_row(name: str, first: Any, second: Any) -> Floats:
    """Each row of one matrix with the same row of the other."""
    a, b = numpy.atleast_2d(numpy.asarray(first)), numpy.atleast_2d(numpy.asarray(second))
    if name == "cosine":
        a, b = normalized(a), normalized(b)
    if name in ("cosine", "dot"):
        result: Floats = (a * b).sum(axis=-1)
        return result
    return _distance(name)(a - b)


def _distance(name: str) -> Callable[[Floats], Floats]:
    if name == "euclidean":
        return lambda difference: -numpy.sqrt(numpy.square(difference).sum(axis=-1))
    if name == "manhattan":
        return lambda difference: -numpy.abs(difference).sum(axis=-1)
    raise ValueError(f'similarity must be "cosine", "dot", "euclidean" or "manhattan", got {name!r}')
