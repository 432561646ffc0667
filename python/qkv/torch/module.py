"""A layer of ours as a module of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .. import layers
from ..lab import Gru, Lstm, Rnn


class Layer(nn.Module):
    """A layer of qkv.layers or qkv.lab as a module of torch, with gradients and with its parameters under torch's names.

    Called as the layer is, with tensors; threads are torch.get_num_threads() unless given. It computes with a copy of the
    given layer.

    >>> import torch, qkv.layers, qkv.torch
    >>> encoder = qkv.torch.Layer(qkv.layers.Encoder(model_dim=8, heads=2, ff_dim=16, layers=1))
    >>> encoder(torch.ones(1, 3, 8), mask="causal").sum().backward()
    >>> encoder.get_parameter("layers.0.linear1.weight").grad.shape
    torch.Size([16, 8])
    """

    def __init__(self, layer: layers.Layer) -> None:
        super().__init__()
        rebuild, arguments = layer.__reduce__()
        self.core = rebuild(*arguments)
        for name, value in self.core.state_dict().items():
            *folders, last = name.split(".")
            module: nn.Module = self
            for folder in folders:
                if not hasattr(module, folder):
                    module.add_module(folder, nn.Module())
                module = module.get_submodule(folder)
            module.register_parameter(last, nn.Parameter(torch.from_numpy(value)))

    def forward(self, *inputs: Tensor, **options: Any) -> Any:
        named = dict(self.named_parameters())
        call = {"threads": torch.get_num_threads(), **options}
        return _Call.apply(self.core, tuple(named), len(inputs), call, *inputs, *named.values())


class _Call(torch.autograd.Function):
    """The output of the layer for ``count`` inputs, followed by its parameters, of these names."""

    @staticmethod
    def forward(ctx: Any, core: Any, names: Any, count: int, options: Any, *tensors: Tensor) -> Any:
        inputs = [tensor.detach() for tensor in tensors[:count]]
        _load(core, names, tensors[count:])
        if not any(ctx.needs_input_grad):
            return core(*inputs, **options)
        results, ctx.kept = core(*inputs, save=True, **options)
        ctx.call = core, names, count
        ctx.save_for_backward(*tensors[count:])
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grad_out: Tensor | None) -> tuple[Any, ...]:
        core, names, count = ctx.call
        if all(each is None for each in grad_out):
            return (None,) * (4 + count + len(names))
        _load(core, names, ctx.saved_tensors)
        core.zero_grad()
        of_inputs = core.backward(ctx.kept, grad_out if isinstance(core, (Gru, Lstm, Rnn)) else grad_out[0])
        found = core.gradients()
        of_inputs = (*of_inputs, None)[:count]  # pictures have none
        return None, None, None, None, *of_inputs, *(torch.from_numpy(found[name]) for name in names)


def _load(core: Any, names: Any, parameters: Any) -> None:
    core.load_state_dict({name: parameter.detach() for name, parameter in zip(names, parameters)})
