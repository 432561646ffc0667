"""What attention replaced, to be compared with: recurrent layers, convolutions over time, and the comparison itself."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from . import _qkv
from ._qkv import Conv1d, Gru, Lstm, Rnn
from .training import Path, Progress

__all__ = ["Conv1d", "Gru", "Lstm", "Rnn", "compare"]


def compare(
    out: Path,
    *,
    tasks: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    seed: int | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """What attention replaced, trained beside it and measured: the object of comparison.json (docs/lab).

    tasks and models by name, all unless given. quick: a few updates of each. out: the folder for trainings and drawings;
    started again after an interruption, it goes on. ValueError, listing what there is, for another name.
    """
    found: dict[str, Any] = json.loads(
        _qkv._compare(os.fspath(out), progress, tasks=tasks, models=models, seed=seed, quick=quick)
    )
    return found
