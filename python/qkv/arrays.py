"""Arrays that qkv accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, TypeVar


class Array(Protocol):
    """An array on the CPU: of NumPy (bfloat16 by ml_dtypes), torch, JAX or anything else with ``__dlpack__``."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


ArrayT = TypeVar("ArrayT", bound=Array)  # results are of the kind of the query
ArrayOrSequence: TypeAlias = "Array | Sequence[Any]"  # whole numbers or bools: lists of them as well
