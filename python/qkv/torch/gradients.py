"""Gradients of attention, their gradients, and forward mode, around the operators."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import operators

# Arguments of apply(): query, key, value, sinks, then what no gradient goes to, then the biases.
_PLAIN = 10  # mask, lengths, documents, seed, causal, left, right, scale, soft_cap, dropout


def _call(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of apply() as an operator takes them."""
    return (*inputs[:4], list(inputs[4 + _PLAIN :]), *inputs[4 : 4 + _PLAIN])


def differentiable(*tensors: Tensor | None) -> type[torch.autograd.Function] | None:
    """The function that a call of these tensors must go through; None where nobody can ask for derivatives."""
    if forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active():
        return TransformedAttention
    if torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors):
        return Attention
    return None


def _forward(weights: bool, *inputs: Any) -> tuple[Tensor, ...]:
    return tuple(operators.attention(*_call(inputs), True, weights))


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _keep(ctx, inputs[1:], output[:2])
    ctx.others = len(output) - 1
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_out: Tensor | None, *_: Any) -> tuple[Any, ...]:
    needs = ctx.needs_input_grad[1:]
    if grad_out is None:
        return (None,) * (1 + len(needs))
    (out, log_sum_exp), given = _kept(ctx)
    want = _wanted(needs)
    arguments = (want, grad_out, out, log_sum_exp, *given)
    if torch.is_grad_enabled():  # create_graph
        gradients = Backward.apply(*arguments)
    else:
        gradients = Backward.forward(*arguments)
    return (None, *_placed(want, gradients, len(given)))


class Attention(torch.autograd.Function):
    """out, log_sum_exp and, if wanted, weights; the gradient is that of out alone.

    With a setup_context of its own torch would read the signature of forward at each call, for 100 microseconds.
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _forward(*inputs)
        _setup(ctx, inputs, output)
        return output

    backward = staticmethod(_backward)


class TransformedAttention(torch.autograd.Function):
    """The same in forward mode and under torch.func; a class of its own, for torch.compile takes none with a jvp."""

    forward = staticmethod(_forward)
    backward = staticmethod(_backward)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _setup(ctx, inputs, output)
        ctx.save_for_forward(*output[:2], *(value for value in inputs[1:] if isinstance(value, Tensor)))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple[Any, ...]:
        if any(isinstance(tangent, Tensor) for tangent in tangents[3:]):
            raise NotImplementedError("qkv.torch.attention: forward mode takes bias and sinks as constants")
        (out, log_sum_exp), given = _kept(ctx)
        tangent = operators.attention_jvp(out, log_sum_exp, *tangents[:3], *_call(given))
        return (tangent,) + (None,) * ctx.others


class Backward(torch.autograd.Function):
    """The gradients that want names; the gradient of these is that of query, key and value alone."""

    @staticmethod
    def forward(want: list[str], grad_out: Tensor, out: Tensor, log_sum_exp: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
        return tuple(operators.attention_backward(grad_out, out, log_sum_exp, *_call(inputs), want))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.want, *tensors = inputs
        _keep(ctx, tensors[3:], tensors[:3])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        (grad_out, out, log_sum_exp), given = _kept(ctx)
        along = dict(zip(ctx.want, tangents))
        names = ("query", "key", "value")
        if any(tangent is not None for tangent in tangents[sum(name in along for name in names) :]):
            raise NotImplementedError("qkv.torch.attention: gradients of bias and sinks cannot be differentiated again")
        needs = ctx.needs_input_grad
        if any(needs[7:]):
            raise NotImplementedError("qkv.torch.attention: no second derivatives with respect to bias and sinks")
        along_inputs = (along.get(name) for name in names)
        query, key, value, grad = operators.attention_double_backward(
            grad_out, out, log_sum_exp, *along_inputs, *_call(given)
        )
        # out and log_sum_exp are functions of query, key and value, whose gradients hold their part.
        return (None, grad, None, None, query, key, value) + (None,) * (len(given) - 3)


def _wanted(needs: tuple[bool, ...]) -> list[str]:
    want = [name for name, needed in zip(("query", "key", "value", "sinks"), needs) if needed]
    return want + ["bias"] * any(needs[4 + _PLAIN :])


def _placed(want: list[str], gradients: tuple[Tensor, ...], count: int) -> list[Tensor | None]:
    """Gradients at the places of their inputs."""
    placed: list[Tensor | None] = [None] * count
    rest = list(gradients)
    for at, name in enumerate(("query", "key", "value", "sinks")):
        if name in want:
            placed[at] = rest.pop(0)
    if "bias" in want:
        placed[4 + _PLAIN :] = rest
    return placed


def _keep(ctx: Any, inputs: Any, results: Any) -> None:
    """Keeps a call: its tensors as torch wants them kept, the rest as it is."""
    tensors = [value for value in inputs if isinstance(value, Tensor)]
    ctx.plain = [None if isinstance(value, Tensor) else (value,) for value in inputs]
    ctx.results = len(results)
    ctx.save_for_backward(*results, *tensors)


def _kept(ctx: Any) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
    tensors = iter(ctx.saved_tensors)
    results = tuple(next(tensors) for _ in range(ctx.results))
    return results, tuple(next(tensors) if value is None else value[0] for value in ctx.plain)
