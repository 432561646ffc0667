"""Whether this machine computes the same bits as others.

>>> import qkv.arithmetic
>>> all(case.holds for case in qkv.arithmetic.certify())
True
>>> classifier = qkv.PictureClassifier("models/digits")
>>> qkv.arithmetic.certificate("models/digits").startswith(classifier.fingerprint() + ":")
True
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from . import _qkv
from .options import Weights


@dataclass(frozen=True)
class Case:
    """A fixed computation: the digest of its results here, and the one of every machine with this arithmetic."""

    name: str
    digest: int
    expected: int

    @property
    def holds(self) -> bool:
        """Whether this machine gives the same bits."""
        return self.digest == self.expected


def certify() -> list[Case]:
    """Attention in all passes, layers, a training, a translation and a generation, on the selected target.

    Every case holds where ``qkv certify`` ends with exit code 0. A second or two.
    """
    return [Case(*each) for each in _qkv._certify()]


def certificate(folder: str | os.PathLike[str], *, weights: Weights = "f32") -> str:
    """The fingerprint of a model, a colon, and a digest of its results on fixed inputs.

    Machines with equal certificates give equal bits. FormatError for a folder that breaks a rule of its format; OSError
    if it cannot be read.
    """
    return _qkv._certificate(os.fspath(folder), weights)


def difference(here: str, expected: str) -> str:
    """How two certificates or fingerprints differ, in words; "" if they are equal. ValueError if one of them is
    malformed."""
    return _qkv._difference_of_certificates(here, expected)
