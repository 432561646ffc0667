"""Models that attention replaced: recurrent layers, convolutions over time, and the comparison with them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from . import _qkv
from ._qkv import Conv1d, Gru, Lstm, Rnn
from .arrays import Array
from .layers import LayerConfig, LayerOptions
from .training import Path, Progress

if TYPE_CHECKING:
    from typing_extensions import Required

__all__ = ["Conv1d", "Gru", "Lstm", "Rnn", "compare"]


class RecurrentConfig(LayerConfig, total=False):
    """Options of recurrent layers."""

    input_size: Required[int]
    hidden: Required[int]
    layers: int  #: 1
    directions: int  #: 1
    bias: bool  #: True


class RnnConfig(RecurrentConfig, total=False):
    """Options of Rnn."""

    activation: Literal["tanh", "relu"]  #: "tanh"


class Conv1dConfig(LayerConfig, total=False):
    """Options of Conv1d."""

    in_channels: Required[int]
    out_channels: Required[int]
    kernel: int  #: 1
    dilation: int  #: 1
    bias: bool  #: True
    causal: bool  #: False; True: (kernel - 1) dilation zeros before each sequence


class RecurrentOptions(LayerOptions, total=False):
    """Options of a call of Rnn and Gru."""

    hidden: Array | None
    offsets: Array | None


class LstmOptions(RecurrentOptions, total=False):
    """Options of a call of Lstm."""

    cell: Array | None


def compare(
    out: Path,
    *,
    tasks: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seed: int | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Trains RNNs, CNNs and Transformers of equal size on the same tasks and measures them: the object of comparison.json.

    tasks and models by name, all unless given. quick: a few updates of each. out: the folder for checkpoints and charts; an
    interrupted run resumes. ValueError, listing the known names, for an unknown one.
    """
    return json.loads(_qkv._compare(os.fspath(out), progress, tasks=tasks, models=models, seed=seed, quick=quick))
