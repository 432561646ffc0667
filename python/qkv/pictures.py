"""Vision Transformers and classification of pictures."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _qkv
from .arrays import Array, ArrayT
from .model import Opened


@dataclass(frozen=True)
class ClassProbability:
    """A class, and how probable it is: softmax of the logits."""

    label: str
    probability: float


class Vit(Opened):
    """A folder of a Vision Transformer (ViT, DINOv2) of transformers. Any number of threads may use it.

    It pickles as its folder and options.

    >>> import numpy, qkv
    >>> vit = qkv.pictures.Vit("models/digits")
    >>> vit.logits(numpy.zeros((1, *vit.picture_size, 3), "f")).shape
    (1, 10)
    """

    _open = _qkv._Vit

    def __call__(self, pictures: ArrayT) -> ArrayT:
        """The last hidden states, [batch, 1 + patches, model_dim], the class token first.

        pictures: float32 [batch, height, width, channels] of any size that holds a patch.
        """
        return self._core.forward(pictures, self.threads)

    def logits(self, pictures: ArrayT) -> ArrayT:
        """The logits of the classes, [batch, labels]; ValueError if the model has no classifier."""
        return self._core.logits(pictures, self.threads)

    @property
    def labels(self) -> list[str]:
        """The names of the classes; none: the model has no classifier."""
        return self._core.labels()

    @property
    def picture_size(self) -> tuple[int, int]:
        """Height and width, in pixels, that positions are learnt for."""
        return self._core.picture_size()


class PictureClassifier(Opened):
    """A Vision Transformer with a classifier, and the image processor of its folder. Any number of threads may use it.

    It pickles as its folder and options.

    >>> import qkv
    >>> qkv.pictures.PictureClassifier("models/digits").classify("data/example/seven.png")[0].label
    '7'
    """

    _open = _qkv._PictureClassifier

    def classify(self, picture: str | os.PathLike[str] | Array, top: int = 5) -> list[ClassProbability]:
        """The most probable classes, in decreasing order. picture: a PNG or JPEG file, or uint8 [height, width, 3]."""
        given: Any = os.fspath(picture) if isinstance(picture, str | os.PathLike) else picture
        return [ClassProbability(*found) for found in self._core.classify(given, top, self.threads)]

    def process(self, picture: ArrayT) -> ArrayT:
        """uint8 [height, width, 3] to the model's input, float32 [height, width, 3]."""
        return self._core.process(picture)


def classify(
    folder: str | os.PathLike[str], pictures: Iterable[str | os.PathLike[str] | Array], top: int = 5
) -> list[list[ClassProbability]]:
    """The most probable classes of each picture; a PictureClassifier keeps the model for more.

    >>> import qkv
    >>> [[best]] = qkv.pictures.classify("models/digits", ["data/example/seven.png"], top=1)
    >>> best.label
    '7'
    """
    classifier = PictureClassifier(folder)
    return [classifier.classify(picture, top) for picture in pictures]
