"""Makes encoder_layer.safetensors: torch 2.15's torch.nn.TransformerEncoderLayer, post-norm.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME holds its parameters as NAME.weights.PARAMETER, NAME.x, NAME.out (float32) and NAME.out_f64 (float64, from
the same float32 numbers). NAME is the activation.
"""

import pathlib

import torch
from safetensors.torch import save_file

generator = torch.Generator().manual_seed(20261121)
tensors = {}
for name in ("relu", "gelu"):
    layer = torch.nn.TransformerEncoderLayer(12, 3, 20, activation=name, layer_norm_eps=1e-6, batch_first=True).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator))
        x = torch.randn(2, 7, 12, generator=generator)
        tensors.update({f"{name}.weights.{k}": v.clone() for k, v in layer.state_dict().items()})
        tensors.update({f"{name}.x": x, f"{name}.out": layer(x)})
        tensors[f"{name}.out_f64"] = layer.double()(x.double())

assert torch.__version__.startswith("2.15"), torch.__version__
save_file(tensors, pathlib.Path(__file__).parent / "encoder_layer.safetensors")
