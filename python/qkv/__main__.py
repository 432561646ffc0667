"""The program: ``qkv`` and ``python -m qkv``."""

from __future__ import annotations

import importlib.util
import os
import sys

from ._qkv import _run_program


def main() -> int:
    """Runs the program with this process's arguments; its exit code."""
    for variable, package in (("QKV_MODEL", "qkv_en_es"), ("QKV_LANGUAGE_MODEL", "qkv_verses")):
        model = importlib.util.find_spec(package)
        if variable not in os.environ and model is not None and model.submodule_search_locations:
            os.environ[variable] = model.submodule_search_locations[0]
    return _run_program(["qkv", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
