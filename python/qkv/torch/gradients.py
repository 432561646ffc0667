"""Gradients of attention, their gradients, and forward mode, around the operators.

The functions take ``call`` and ``count``, how many of the output, the log-sum-exp and the weights are wanted, query, key,
value and ``tensors`` as operators.py has them; those that torch.func transforms take what is no tensor as one Constants: it
would take a tuple apart.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .. import _qkv
from . import operators


def is_transformed() -> bool:
    """Whether forward mode or a transformation of torch.func is under way."""
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


class Attention(torch.autograd.Function):
    """The output, and if they are wanted the log-sum-exp and the weights; the gradient is that of the output alone.

    With a setup_context of its own torch would read the signature of forward at each call, for 100 microseconds.
    """

    @staticmethod
    def forward(
        ctx: Any, call: operators.Call, count: int, query: Tensor, key: Tensor, value: Tensor, *tensors: Tensor
    ) -> Any:
        if count == 1 and _is_plain(call, query):
            results = _qkv._tensor_attention(query, key, value, {}, 2)
        else:
            results = operators.attention(query, key, value, tensors, call, max(count, 2))
        ctx.call = call
        ctx.save_for_backward(results[0], results[1], query, key, value, *tensors)
        if count == 1:
            return results[0]
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*results[1:])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, *_: Any) -> tuple[Any, ...]:
        needs = ctx.needs_input_grad[2:]
        if grad_out is not None and _is_plain(ctx.call, grad_out) and not torch.is_grad_enabled():
            return None, None, *_qkv._tensor_backward(grad_out, ctx.saved_tensors, {}, needs)
        return None, None, *_gradients(ctx, needs, grad_out)


def _is_plain(call: operators.Call, tensor: Tensor) -> bool:
    """Whether nothing stands between a call without options and the extension: of a small one half is such questions."""
    return not call and not torch.compiler.is_compiling() and not _qkv._is_watched(tensor)


class Constants:
    """What is no tensor, in one object."""

    def __init__(self, *values: Any) -> None:
        self.values = values


class TransformedAttention(torch.autograd.Function):
    """The same in forward mode and under torch.func, always with the log-sum-exp; a class of its own, for torch.compile
    takes none with a jvp."""

    generate_vmap_rule = True

    @staticmethod
    def forward(constants: Constants, query: Tensor, key: Tensor, value: Tensor, *tensors: Any) -> Any:
        return tuple(operators.attention(query, key, value, tensors, *constants.values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        constants, *tensors = inputs
        ctx.call, _ = constants.values
        ctx.others = len(output) - 1
        ctx.save_for_backward(*output[:2], *tensors)
        ctx.save_for_forward(*output[:2], *tensors)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, *_: Any) -> tuple[Any, ...]:
        return None, *_gradients(ctx, ctx.needs_input_grad[1:], grad_out)

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Any) -> tuple[Any, ...]:
        if any(isinstance(tangent, Tensor) for tangent in tangents[3:]):
            raise NotImplementedError("qkv.torch.attention: forward mode takes bias and sinks as constants")
        tangent = Tangent.apply(Constants(ctx.call), *tangents[:3], *ctx.saved_tensors)
        return (tangent,) + (None,) * ctx.others


def _gradients(ctx: Any, needs: Any, grad_out: Tensor | None) -> Any:
    if grad_out is None:
        return (None,) * len(needs)
    return _backward(ctx.call, needs, grad_out, ctx.saved_tensors)


def _backward(call: operators.Call, needs: Any, grad_out: Tensor, saved: Any) -> Any:
    if torch.is_grad_enabled() or is_transformed():  # create_graph
        return Backward.apply(Constants(call, needs), grad_out, *saved)
    return operators.attention_backward(grad_out, saved, call, needs)


class Backward(torch.autograd.Function):
    """A gradient for each of query, key, value and tensors that ``needs`` says True of; the derivatives of these are those of
    query, key and value alone."""

    generate_vmap_rule = True

    @staticmethod
    def forward(constants: Constants, grad_out: Tensor, *saved: Any) -> Any:
        call, needs = constants.values
        return operators.attention_backward(grad_out, saved, call, needs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        constants, *tensors = inputs
        ctx.call, ctx.needs = constants.values
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        _refuse_parameters(any(tangent is not None for tangent in tangents[3:]) or any(ctx.needs_input_grad[7:]))
        grad_out, *saved = ctx.saved_tensors
        query, key, value, grad = SecondGradients.apply(Constants(ctx.call), *tangents[:3], grad_out, *saved)
        # out and log_sum_exp are functions of query, key and value, whose gradients hold their part.
        return (None, grad, None, None, query, key, value) + (None,) * (len(saved) - 5)

    @staticmethod
    def jvp(ctx: Any, _: Any, tangent_grad: Tensor | None, *tangents: Any) -> tuple[Any, ...]:
        """Second derivatives are symmetric: along tangents a gradient moves as their product with it does."""
        grad_out, *saved = ctx.saved_tensors
        along, parameters = tangents[2:5], tangents[5:]
        found: list[Any] = [None] * len(ctx.needs)
        if tangent_grad is not None:
            found = list(_backward(ctx.call, ctx.needs, tangent_grad, saved))
        if any(tangent is not None for tangent in (*along, *parameters)):
            _refuse_parameters(any(ctx.needs[3:]) or any(tangent is not None for tangent in parameters))
            second = SecondGradients.apply(Constants(ctx.call), *along, grad_out, *saved)
            for i, needed in enumerate(ctx.needs[:3]):
                if needed:
                    found[i] = second[i] if found[i] is None else found[i] + second[i]
        return tuple(found)


class Tangent(torch.autograd.Function):
    """The tangent of the output along those of query, key and value, each of which may be None."""

    generate_vmap_rule = True

    @staticmethod
    def forward(constants: Constants, query: Any, key: Any, value: Any, *saved: Any) -> Tensor:
        return operators.attention_jvp((query, key, value), saved, *constants.values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        constants, *tensors = inputs
        (ctx.call,) = constants.values
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        _refuse_parameters(any(ctx.needs_input_grad[9:]))
        tangents, saved = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        others = (None,) * (len(saved) - 5)
        needs = (*ctx.needs_input_grad[1:4], *(False for _ in others))
        along = _backward(ctx.call, needs, grad_out, saved)[:3]
        second = SecondGradients.apply(Constants(ctx.call), *tangents, grad_out, *saved)[:3]
        return (None, *along, None, None, *second, *others)

    @staticmethod
    def jvp(*_: Any) -> Any:
        raise NotImplementedError("qkv.torch.attention: no forward mode of forward mode; take it of the gradient")


class SecondGradients(torch.autograd.Function):
    """The gradients of query, key, value and grad_out of the product of tangents and gradients."""

    generate_vmap_rule = True

    @staticmethod
    def forward(constants: Constants, query: Any, key: Any, value: Any, grad_out: Tensor, *saved: Any) -> Any:
        return tuple(operators.attention_double_backward((query, key, value), grad_out, saved, *constants.values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(*inputs[1:])  # vmap expects it
        ctx.save_for_forward(*inputs[1:])

    @staticmethod
    def backward(*_: Any) -> Any:
        raise NotImplementedError("qkv.torch.attention: no third derivatives")

    jvp = backward


def _refuse_parameters(given: bool) -> None:
    if given:
        raise NotImplementedError("qkv.torch.attention: no second derivatives with respect to bias and sinks")
