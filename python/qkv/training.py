"""Training of models."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any

from . import _qkv

Path = str | os.PathLike[str]
Progress = Callable[[dict[str, Any]], object]


def train(
    config: Path,
    train: Path,
    valid: Path,
    out: Path,
    *,
    tokenizer: Path | None = None,
    target_tokenizer: Path | None = None,
    start_from: Path | None = None,
    skip_bad: bool = False,
    exact_text: bool = False,
    replace_invalid: bool = False,
    change: bool = False,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Trains the model of a config (docs/training.md), and returns the best step and loss.

    train and valid: pairs, a line each, text, tab, translation; of a language model, documents with a blank line between
    them; of an encoder of texts, columns, CSV or JSON lines; of a classifier of pictures, folders of PNG and JPEG files,
    or CSV.
    out: the folder for the model, checkpoints, log.jsonl and loss.svg; started again after an interruption, it resumes.
    progress is called with a dict: step, loss ... now and then, validation_loss after a validation, notice.

    Ctrl-C ends it after a checkpoint, a second one at once. FormatError for a file that breaks a rule, ValueError for a
    config that does not fit, OSError.
    """
    given = {"tokenizer": tokenizer, "target_tokenizer": target_tokenizer, "start_from": start_from}
    options: dict[str, Any] = {name: os.fspath(path) for name, path in given.items() if path is not None}
    flags = {"skip_bad": skip_bad, "exact_text": exact_text, "replace_invalid": replace_invalid, "change": change}
    options |= {name: value for name, value in flags.items() if value is not False}
    files = [os.fspath(path) for path in (config, train, valid, out)]
    return _qkv._train(files[0], files[1], files[2], files[3], progress, **options)
