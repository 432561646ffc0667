"""Writes the files of this folder with NumPy and the safetensors package: python make.py (in this folder).

Made with numpy 2.4.6 and safetensors 0.8.0. Every array holds 0, 1, 2, ... in row-major order, so that the tests
know the values without reading them from elsewhere.
"""

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from numpy.lib import format as npy

TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]


def counted(shape, dtype):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


for dtype in TYPES:
    np.save(f"{dtype}.npy", counted((2, 3), dtype))
np.save("bool.npy", np.array([[False, True], [True, False]]))
np.save("rank0.npy", np.array(7, "f4"))
np.save("rank1.npy", counted((5,), "f4"))
np.save("rank4.npy", counted((2, 1, 3, 4), "f4"))
np.save("empty.npy", counted((0, 3), "f4"))
np.save("fortran.npy", np.asfortranarray(counted((2, 3, 4), "f4")))
np.save("big_endian.npy", counted((2, 3), ">f4"))
np.save("complex.npy", counted((2,), "c8"))
np.save("string.npy", np.array(["a", "bc"]))
np.save("object.npy", np.array([1, "a"], dtype=object), allow_pickle=True)
np.save("structured.npy", np.zeros(2, [("x", "f4"), ("y", "i4")]))
for version in [(1, 0), (2, 0), (3, 0)]:
    with open(f"version{version[0]}.npy", "wb") as file:
        npy.write_array(file, counted((2, 3), "f4"), version=version)

tensors = {dtype: torch.from_numpy(counted((2, 3), dtype).copy()) for dtype in TYPES}
tensors["bf16"] = torch.arange(6).reshape(2, 3).to(torch.bfloat16)
tensors["bool"] = torch.tensor([False, True, True])
tensors["rank 0"] = torch.tensor(7.0)
tensors["empty"] = torch.zeros(0, 3)
tensors["na\u00efve \"name\"\n"] = torch.tensor([1.0])
safetensors.torch.save_file(tensors, "all.safetensors", metadata={"format": "pt", "quote": "\"\\\u2028"})
safetensors.numpy.save_file({}, "none.safetensors")
f32 = {name: counted(shape, "f4") for name, shape in [("b", (2, 2)), ("a", (3,)), ("c", ()), ("A", (0, 2))]}
safetensors.numpy.save_file(f32, "f32.safetensors", metadata={"format": "np"})
safetensors.torch.save_file({"a": torch.zeros(4).to(torch.float8_e4m3fn)}, "f8.safetensors")
