"""Makes convolution.safetensors: convolutions, poolings and batch norms of torch 2.15, forward and backward.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME holds its input NAME.x and the gradient of its output NAME.grad_out, drawn in float32, its parameters by torch's
names, and, computed in float64, NAME.out, NAME.grad_x and the gradients NAME.grad_weight and NAME.grad_bias. Inputs and outputs
have their channels last: [batch, length, channels], [batch, height, width, channels]. Batch norms in training also hold their
running statistics after the pass, NAME.next_mean and NAME.next_var.
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
    state = {key: value for key, value in module.state_dict().items() if value.dim() > 0}
    for key, value in state.items():
        value.copy_(drawn(*value.shape).abs() + 0.5 if key == "running_var" else drawn(*value.shape))
        tensors[f"{name}.{key}"] = value.clone()
    module.double()
    wide = x.double().requires_grad_()
    out = module(torch.nn.functional.pad(wide.movedim(-1, 1), (before, 0) + (0, 0) * (x.dim() - 3))).movedim(1, -1)
    grad_out = drawn(*out.shape)
    out.backward(grad_out.double())
    tensors.update({f"{name}.x": x, f"{name}.grad_out": grad_out, f"{name}.out": out.detach().contiguous(),
                    f"{name}.grad_x": wide.grad.contiguous()})
    for key, parameter in module.named_parameters():
        tensors[f"{name}.grad_{key}"] = parameter.grad.clone()
    if name.startswith("batch_norm") and module.training:
        tensors[f"{name}.next_mean"] = module.running_mean.clone()
        tensors[f"{name}.next_var"] = module.running_var.clone()


run("conv1d.same", torch.nn.Conv1d(5, 7, 3, padding=1), 2, 9, 5)
run("conv1d.strided", torch.nn.Conv1d(6, 4, 4, stride=3, padding=2, dilation=2, groups=2, bias=False), 2, 17, 6)
run("conv1d.causal", torch.nn.Conv1d(4, 6, 3, dilation=4), 2, 11, 4, before=8)
run("conv1d.depthwise", torch.nn.Conv1d(5, 5, 7, padding=3, groups=5), 1, 8, 5)
run("conv2d.same", torch.nn.Conv2d(3, 8, 3, padding=1), 2, 6, 5, 3)
run("conv2d.uneven", torch.nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 3), dilation=(1, 2), groups=2), 2, 8, 5, 4)
run("conv2d.patches", torch.nn.Conv2d(3, 10, 4, stride=4), 2, 8, 12, 3)
run("pool1d.max", torch.nn.MaxPool1d(3, stride=2, padding=1), 2, 9, 4)
run("pool1d.average", torch.nn.AvgPool1d(2), 2, 9, 4)
run("pool2d.max", torch.nn.MaxPool2d((3, 2), stride=(2, 1), padding=(1, 1)), 2, 7, 5, 3)
run("pool2d.average", torch.nn.AvgPool2d((2, 3), stride=(1, 2), padding=(1, 1)), 2, 6, 7, 3)
run("batch_norm.training", torch.nn.BatchNorm1d(5, momentum=0.3), 3, 7, 5)
run("batch_norm.pictures", torch.nn.BatchNorm2d(4, eps=1e-3), 2, 4, 3, 4)
run("batch_norm.running", torch.nn.BatchNorm1d(5).eval(), 3, 7, 5)

save_file(tensors, pathlib.Path(__file__).parent / "convolution.safetensors")
