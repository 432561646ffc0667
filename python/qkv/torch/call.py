"""The options of a call in the form that the schema of an operator has: a text, and tensors.

The text is a JSON object of the options, with {"tensor": n} in the place of tensor n, and {"number": n} for the number that
tensor n holds; masks, biases and scores are lists of their parts. It is empty without options.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..options import Bias, Mask, Score, parts_of

_KINDS: dict[str, Any] = {"sinks": None, "bias": Bias, "score": Score, "mask": Mask}  # those with parameters first


def taken_apart(options: dict[str, Any], query: torch.dtype) -> tuple[str, list[Tensor]]:
    """The text and the tensors of options, parameters first (sinks, biases, scores), in the type of sums."""
    tensors: list[Tensor] = []
    if not options:
        return "", tensors
    sums = torch.float64 if query == torch.float64 else torch.float32

    def taken(value: Any, is_parameter: bool) -> Any:
        if isinstance(value, float) and not is_parameter and torch.compiler.is_dynamo_compiling():  # another in each call
            tensors.append(torch.scalar_tensor(value, dtype=torch.float64))
            return {"number": len(tensors) - 1}
        if value is None or isinstance(value, (str, int, float)):
            return value
        tensor = torch.as_tensor(value)
        if is_parameter and tensor.is_floating_point():
            tensor = tensor.to(sums)
        tensors.append(tensor)
        return {"tensor": len(tensors) - 1}

    call: dict[str, Any] = {}
    for name in (*_KINDS, *(name for name in options if name not in _KINDS)):
        value = options.get(name)
        kind = _KINDS.get(name)
        is_parameter = name in _KINDS and kind is not Mask
        if kind is None or value is None or (kind is Score and isinstance(value, str)):
            value = taken(value, is_parameter)
        else:
            value = [(part, [taken(each, is_parameter) for each in given]) for part, given in _spread(kind, value)]
        if value is not None:
            call[name] = value
    return _text(call) if call else "", tensors


def together(text: str, tensors: Sequence[Tensor]) -> dict[str, Any]:
    """The options again."""
    return _filled(text, tensors) if tensors else _without_tensors(text)


def may_have_batches(text: str, count: int) -> bool:
    """Whether a dimension may be put in front of the inputs and of these ``count`` tensors, which the call broadcasts."""
    call = _read(text)
    parts = [name for kind in ("mask", "bias") for name, arguments in call.get(kind, ()) if isinstance(arguments[0], dict)]
    return len(parts) == count and not {*parts} - {"boolean", "view"} and "dropout" not in call


def _spread(kind: Any, value: Any) -> list[Any]:
    """The parts of a value; a compiled mask's are those that it was made of."""
    found = []
    for name, arguments in parts_of(kind, value):
        if name == "compiled":
            found += _spread(kind, arguments[0])
        else:
            found.append((name, arguments))
    return found


def _filled(text: str, tensors: Sequence[Tensor]) -> dict[str, Any]:
    def given(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return tensors[value["number"]].item() if "number" in value else tensors[value["tensor"]]

    options = {}
    for name, value in _read(text).items():
        if isinstance(value, list):
            options[name] = _KINDS[name](*((part, tuple(map(given, arguments))) for part, arguments in value))
        else:
            options[name] = given(value)
    if isinstance(options.get("seed"), Tensor):
        options["seed"] = int(options["seed"])
    return options


@functools.lru_cache(4096)  # a large share of a small call
def _without_tensors(text: str) -> dict[str, Any]:
    return _filled(text, ())


@functools.lru_cache(4096)
def _read(text: str) -> dict[str, Any]:
    return json.loads(text) if text else {}


def _text(call: dict[str, Any]) -> str:
    return json.dumps(call)


# torch.compile runs it and keeps the result, as with torch.compiler.assume_constant_result, which takes seconds to import.
_text._dynamo_marked_constant = True  # type: ignore[attr-defined]
