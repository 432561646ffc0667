"""The program: ``qkv`` and ``python -m qkv``."""

from __future__ import annotations

import importlib.util
import os
import sys

from ._qkv import _run_program


def main() -> int:
    """Runs the program with this process's arguments; its exit code."""
    model = importlib.util.find_spec("qkv_en_es")
    if "QKV_MODEL" not in os.environ and model is not None and model.submodule_search_locations:
        os.environ["QKV_MODEL"] = model.submodule_search_locations[0]
    return _run_program(["qkv", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
