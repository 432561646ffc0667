"""Makes what ONNX Runtime says about the backbone of models/get-dino, for the slow test.

    python dino.py ONNX OUT PICTURE...

For each picture NAME.jpg OUT holds NAME.pixels [1, 224, 224, 3], prepared by Pillow as facebook/dinov2-small does it, and
NAME.hidden [1, 257, 384], the last hidden states. random.pixels and random.hidden are of numbers of another size.
"""

import pathlib
import sys

import numpy
import onnx
import onnxruntime
from PIL import Image
from safetensors.numpy import save_file

HIDDEN = "/backbone/layernorm/Add_1_output_0"


def prepare(path):
    picture = Image.open(path).convert("RGB")
    width, height = picture.size
    shortest = min(width, height)
    width, height = 256 * width // shortest, 256 * height // shortest
    picture = numpy.asarray(picture.resize((width, height), Image.Resampling.BICUBIC))
    top, left = (height - 224) // 2, (width - 224) // 2
    scaled = (picture[top : top + 224, left : left + 224] * (1 / 255)).astype(numpy.float32)
    normal = (scaled - numpy.float32([0.485, 0.456, 0.406])) / numpy.float32([0.229, 0.224, 0.225])
    return normal[None]


model = onnx.load(sys.argv[1])
del model.graph.output[:]
model.graph.output.append(onnx.helper.make_empty_tensor_value_info(HIDDEN))
for dim, name in zip(model.graph.input[0].type.tensor_type.shape.dim[2:], ("height", "width")):
    dim.dim_param = name  # its computations take any size
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

inputs = {pathlib.Path(path).stem: prepare(path) for path in sys.argv[3:]}
inputs["random"] = numpy.random.default_rng(1).standard_normal((2, 150, 308, 3), dtype=numpy.float32)
tensors = {}
for name, pixels in inputs.items():
    tensors[f"{name}.pixels"] = pixels
    channels_first = numpy.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    (tensors[f"{name}.hidden"],) = session.run([HIDDEN], {model.graph.input[0].name: channels_first})
save_file(tensors, sys.argv[2])
