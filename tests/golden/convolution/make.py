"""Makes convolution.safetensors: convolutions of torch 2.15, forward and backward.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME holds its input NAME.x and the gradient of its output NAME.grad_out, drawn in float32, its parameters by torch's
names, and, computed in float64, NAME.out, NAME.grad_x and the gradients NAME.grad_weight and NAME.grad_bias. Inputs and outputs
have their channels last, [batch, length, channels].
"""

import pathlib

import torch
from safetensors.torch import save_file

assert torch.__version__.startswith("2.15"), torch.__version__
torch.manual_seed(20261123)
tensors = {}


def drawn(*shape):
    return torch.randn(*shape)


def run(name, module, *shape, before=0):
    """`shape` of x with its channels last; `before` zeros are put before sequences."""
    x = drawn(*shape)
    for key, value in module.state_dict().items():
        value.copy_(drawn(*value.shape))
        tensors[f"{name}.{key}"] = value.clone()
    module.double()
    wide = x.double().requires_grad_()
    out = module(torch.nn.functional.pad(wide.movedim(-1, 1), (before, 0))).movedim(1, -1)
    grad_out = drawn(*out.shape)
    out.backward(grad_out.double())
    tensors.update({f"{name}.x": x, f"{name}.grad_out": grad_out, f"{name}.out": out.detach().contiguous(),
                    f"{name}.grad_x": wide.grad.contiguous()})
    for key, parameter in module.named_parameters():
        tensors[f"{name}.grad_{key}"] = parameter.grad.clone()


run("conv1d.plain", torch.nn.Conv1d(5, 7, 3, dilation=2, bias=False), 2, 9, 5)
run("conv1d.causal", torch.nn.Conv1d(4, 6, 3, dilation=4), 2, 11, 4, before=8)

save_file(tensors, pathlib.Path(__file__).parent / "convolution.safetensors")
