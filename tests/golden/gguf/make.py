"""Writes the files of this folder with the package gguf: pip install gguf==0.19.0 safetensors, python make.py (in this folder).

types.gguf has every type of tensor that is read and every type of metadata; values.safetensors has its tensors as NumPy
dequantises them. The blocks of quantised types are random bytes, but for their scales, which are finite halves.
version2.gguf is the same with the other version number: the two differ in nothing else here.
"""
import struct

import gguf
import numpy as np
import safetensors.numpy
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Value

random = np.random.default_rng(7)
# Where the halves of a block are that scale it.
SCALES = {Type.Q8_0: [0], Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208]}


def blocks(kind, rows, per_row):
    size = gguf.GGML_QUANT_SIZES[kind][1]
    data = random.integers(0, 256, (rows, per_row, size), dtype=np.uint8)
    for at in SCALES[kind]:
        halves = random.normal(size=(rows, per_row)).astype(np.float16)
        halves[0, 0] = -6e-8  # a subnormal one
        data[:, :, at:at + 2] = halves.view(np.uint8).reshape(rows, per_row, 2)
    return data.reshape(rows, per_row * size)


writer = gguf.GGUFWriter("types.gguf", "test")
for kind, value in [(Value.UINT8, 255), (Value.INT8, -128), (Value.UINT16, 65535), (Value.INT16, -32768),
                    (Value.UINT32, 2**32 - 1), (Value.INT32, -2**31), (Value.FLOAT32, 0.1), (Value.BOOL, True),
                    (Value.STRING, "caf\u00e9"), (Value.UINT64, 2**63), (Value.INT64, -2**63), (Value.FLOAT64, 0.1)]:
    writer.add_key_value(f"test.{kind.name.lower()}", value, kind)
writer.add_array("test.strings", ["a", "", "\u2581b"])
writer.add_array("test.integers", [1, -2, 3])
writer.add_array("test.numbers", [0.5, -1.5])
writer.add_array("test.bools", [True, False])
writer.add_string("tokenizer.chat_template", "{{ messages }}")

values = {}
plain = random.normal(size=(3, 5)).astype(np.float32)
writer.add_tensor("f32", plain)
values["f32"] = plain
writer.add_tensor("f16", plain.astype(np.float16))
values["f16"] = plain.astype(np.float16)
bf16 = gguf.quants.quantize(plain, Type.BF16)
writer.add_tensor("bf16", bf16, raw_dtype=Type.BF16)
values["bf16"] = gguf.quants.dequantize(bf16, Type.BF16)
for kind in SCALES:
    name, rows, per_row = kind.name.lower(), 2, 3
    data = blocks(kind, rows, per_row)
    writer.add_tensor(name, data, raw_dtype=kind)
    values[name] = gguf.quants.dequantize(data, kind)
ones = np.ones((2, 1, 2, 3), np.float32)
writer.add_tensor("rank4", ones)
values["rank4"] = ones
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
safetensors.numpy.save_file({name: np.ascontiguousarray(value) for name, value in values.items()}, "values.safetensors")

with open("types.gguf", "rb") as file:
    data = bytearray(file.read())
assert data[:8] == b"GGUF" + struct.pack("<I", 3)
data[4] = 2
with open("version2.gguf", "wb") as file:
    file.write(data)
