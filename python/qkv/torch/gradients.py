"""Gradients of attention, their gradients, and forward mode, around the operators.

The functions take ``call``, ``count``, how many of the output, the log-sum-exp and the weights are wanted, query, key, value
and ``tensors`` as operators.py has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import operators


def is_transformed() -> bool:
    """Whether forward mode or a transformation of torch.func is under way."""
    return forward_ad._current_level >= 0 or torch._C._are_functorch_transforms_active()


class Attention(torch.autograd.Function):
    """The output, and if they are wanted the log-sum-exp and the weights; only the output has a gradient.

    With a setup_context of its own torch would read the signature of forward at each call, for 100 microseconds.
    """

    @staticmethod
    def forward(ctx: Any, call: str, count: int, query: Tensor, key: Tensor, value: Tensor, *tensors: Tensor) -> Any:
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
        if grad_out is None:
            return (None, None) + (None,) * len(needs)
        return None, None, *_backward(ctx.call, needs, grad_out, ctx.saved_tensors)


class TransformedAttention(Attention):
    """The same in forward mode and under torch.func, always with the log-sum-exp: these need a setup_context, and torch.compile
    takes no class with a jvp."""

    generate_vmap_rule = True

    @staticmethod
    def forward(  # type: ignore[override]  # without a context
        call: str, count: int, query: Tensor, key: Tensor, value: Tensor, *tensors: Any
    ) -> Any:
        return tuple(operators.attention(query, key, value, tensors, call, count))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.call, _, *tensors = inputs
        ctx.others = len(output) - 1
        ctx.save_for_backward(*output[:2], *tensors)
        ctx.save_for_forward(*output[:2], *tensors)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> tuple[Any, ...]:
        if any(isinstance(tangent, Tensor) for tangent in tangents[3:]):
            raise NotImplementedError("qkv.torch.attention: forward mode takes bias and sinks as constants")
        tangent = Tangent.apply(ctx.call, *tangents[:3], *ctx.saved_tensors)
        return (tangent,) + (None,) * ctx.others


class Derivative(torch.autograd.Function):
    """One that keeps the call and the tensors that it is given."""

    generate_vmap_rule = True

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)


@dataclass(frozen=True)
class BackwardCall:
    """The call, and which inputs need a gradient; no tuple, which torch.func would take apart."""

    call: str
    needs: tuple[bool, ...]


def _backward(call: str, needs: tuple[bool, ...], grad_out: Tensor, saved: Any) -> Any:
    if torch.is_grad_enabled() or is_transformed():  # create_graph
        return Backward.apply(BackwardCall(call, needs), grad_out, *saved)
    return operators.attention_backward(grad_out, saved, call, needs)


class Backward(Derivative):
    """A gradient for each of query, key, value and tensors that ``needs`` says True of; the derivatives of these are those of
    query, key and value alone."""

    @staticmethod
    def forward(call: BackwardCall, grad_out: Tensor, *saved: Any) -> Any:
        return operators.attention_backward(grad_out, saved, call.call, call.needs)

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        _refuse_parameters(any(tangent is not None for tangent in tangents[3:]) or any(ctx.needs_input_grad[7:]))
        grad_out, *saved = ctx.saved_tensors
        query, key, value, grad = SecondGradients.apply(ctx.call.call, *tangents[:3], grad_out, *saved)
        # out and log_sum_exp are functions of query, key and value, whose gradients hold their part.
        return (None, grad, None, None, query, key, value) + (None,) * (len(saved) - 5)

    @staticmethod
    def jvp(ctx: Any, _: Any, tangent_grad: Tensor | None, *tangents: Any) -> tuple[Any, ...]:
        """Second derivatives are symmetric: along tangents a gradient moves as their product with it does."""
        needs = ctx.call.needs
        grad_out, *saved = ctx.saved_tensors
        along, parameters = tangents[2:5], tangents[5:]
        found: list[Any] = [None] * len(needs)
        if tangent_grad is not None:
            found = list(_backward(ctx.call.call, needs, tangent_grad, saved))
        if any(tangent is not None for tangent in (*along, *parameters)):
            _refuse_parameters(any(needs[3:]) or any(tangent is not None for tangent in parameters))
            second = SecondGradients.apply(ctx.call.call, *along, grad_out, *saved)
            for i, needed in enumerate(needs[:3]):
                if needed:
                    found[i] = second[i] if found[i] is None else found[i] + second[i]
        return tuple(found)


class Tangent(Derivative):
    """The tangent of the output along the tangents of query, key and value, each of which may be None."""

    @staticmethod
    def forward(call: str, query: Any, key: Any, value: Any, *saved: Any) -> Tensor:
        return operators.attention_jvp((query, key, value), saved, call)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        _refuse_parameters(any(ctx.needs_input_grad[9:]))
        tangents, saved = ctx.saved_tensors[:3], ctx.saved_tensors[3:]
        others = (None,) * (len(saved) - 5)
        needs = (*ctx.needs_input_grad[1:4], *(False for _ in others))
        along = _backward(ctx.call, needs, grad_out, saved)[:3]
        second = SecondGradients.apply(ctx.call, *tangents, grad_out, *saved)[:3]
        return (None, *along, None, None, *second, *others)

    @staticmethod
    def jvp(*_: Any) -> Any:
        raise NotImplementedError("qkv.torch.attention: no forward mode of forward mode; take it of the gradient")


class SecondGradients(Derivative):
    """The gradients of query, key, value and grad_out of the product of tangents and gradients."""

    @staticmethod
    def forward(call: str, query: Any, key: Any, value: Any, grad_out: Tensor, *saved: Any) -> Any:
        return tuple(operators.attention_double_backward((query, key, value), grad_out, saved, call))

    @staticmethod
    def backward(*_: Any) -> Any:
        raise NotImplementedError("qkv.torch.attention: no third derivatives")

    jvp = backward


def _refuse_parameters(given: bool) -> None:
    if given:
        raise NotImplementedError("qkv.torch.attention: no second derivatives with respect to bias and sinks")
