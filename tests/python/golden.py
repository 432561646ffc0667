"""What torch computed: tensors of tests/golden, by name."""

import json
import struct
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
TYPES = {"F64": "f8", "F32": "f4", "I64": "i8", "I32": "i4", "BOOL": "?"}


def read(name):
    """The tensors of a file, and its metadata."""
    data = (ROOT / "tests" / "golden" / name).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + size + begin : 8 + size + end], TYPES[entry["dtype"]])
        tensors[key] = values.reshape(entry["shape"])
    return tensors, metadata


def under(tensors, prefix):
    """Those whose names begin so, without it."""
    return {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
