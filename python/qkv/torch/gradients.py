"""Gradients of attention, their gradients, and forward mode, around the operators.

The functions take ``want``: whether the log-sum-exp and the weights are wanted, then ``plain``, query, key, value and
``rest`` as operators.py has them.
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
    def forward(ctx: Any, want: Any, plain: operators.Plain, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Any:
        log_sum_exp, weights = want
        results = operators.attention(query, key, value, rest, plain, True, weights)
        ctx.plain = plain
        ctx.save_for_backward(results[0], results[1], query, key, value, *rest)
        if not log_sum_exp and not weights:
            return results[0]
        ctx.set_materialize_grads(False)
        results = (results[0], *results[1 if log_sum_exp else 2 :])
        ctx.mark_non_differentiable(*results[1:])
        return results

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, *_: Any) -> tuple[Any, ...]:
        return _backward(ctx, grad_out)


class PlainAttention(torch.autograd.Function):
    """The same of a plain call, as the extension says, with nothing wanted."""

    @staticmethod
    def forward(ctx: Any, plain: operators.Plain, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        results = _qkv._plain_forward(query, key, value, plain)
        if results is None:
            results = operators.attention(query, key, value, (), plain, True, False)
        ctx.plain = plain
        ctx.save_for_backward(*results, query, key, value)
        out: Tensor = results[0]
        return out

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor) -> tuple[Any, ...]:
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():  # create_graph
            return (None, *Backward.apply(ctx.plain, needs, grad_out, *saved))
        found = _qkv._plain_backward(grad_out, saved, ctx.plain, needs)
        if found is None:
            found = operators.attention_backward(grad_out, saved, ctx.plain, needs)
        return (None, *found)


class TransformedAttention(torch.autograd.Function):
    """The same in forward mode and under torch.func, always with the log-sum-exp; a class of its own, for torch.compile
    takes none with a jvp."""

    @staticmethod
    def forward(want: Any, plain: operators.Plain, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Any:
        return tuple(operators.attention(query, key, value, rest, plain, True, want[1]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, ctx.plain, *tensors = inputs
        ctx.others = len(output) - 1
        ctx.save_for_backward(*output[:2], *tensors)
        ctx.save_for_forward(*output[:2], *tensors)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor | None, *_: Any) -> tuple[Any, ...]:
        return _backward(ctx, grad_out)

    @staticmethod
    def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> tuple[Any, ...]:
        if any(isinstance(tangent, Tensor) for tangent in tangents[3:]):
            raise NotImplementedError("qkv.torch.attention: forward mode takes bias and sinks as constants")
        tangent = operators.attention_jvp(tangents[:3], ctx.saved_tensors, ctx.plain)
        return (tangent,) + (None,) * ctx.others


def _backward(ctx: Any, grad_out: Tensor | None) -> tuple[Any, ...]:
    needs = ctx.needs_input_grad[2:]
    if grad_out is None:
        return (None, None) + (None,) * len(needs)
    if torch.is_grad_enabled():  # create_graph
        return (None, None, *Backward.apply(ctx.plain, needs, grad_out, *ctx.saved_tensors))
    return (None, None, *operators.attention_backward(grad_out, ctx.saved_tensors, ctx.plain, needs))


class Backward(torch.autograd.Function):
    """A gradient for each of query, key, value and rest that ``needs`` says True of; the gradient of these is that of
    query, key and value alone."""

    @staticmethod
    def forward(plain: operators.Plain, needs: Any, grad_out: Tensor, *saved: Any) -> Any:
        return operators.attention_backward(grad_out, saved, plain, needs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        ctx.plain, _, *tensors = inputs
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, *tangents: Tensor | None) -> tuple[Any, ...]:
        if any(tangent is not None for tangent in tangents[3:]):
            raise NotImplementedError("qkv.torch.attention: gradients of bias and sinks cannot be differentiated again")
        if any(ctx.needs_input_grad[8:]):
            raise NotImplementedError("qkv.torch.attention: no second derivatives with respect to bias and sinks")
        grad_out, *saved = ctx.saved_tensors
        query, key, value, grad = operators.attention_double_backward(tangents[:3], grad_out, saved, ctx.plain)
        # out and log_sum_exp are functions of query, key and value, whose gradients hold their part.
        return (None, None, grad, None, None, query, key, value) + (None,) * (len(saved) - 5)
