"""attention() on tensors of torch, with gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import torch
from torch import Tensor

from .. import _qkv
from .. import options as options_of_calls
from ..options import AttentionOptions, StatsOptions
from ..results import AttentionStats
from . import operators
from .call import taken_apart
from .gradients import Attention, TransformedAttention, is_transformed

if TYPE_CHECKING:
    from typing_extensions import Unpack

_STATISTICS = StatsOptions.__annotations__.keys() - AttentionOptions.__annotations__.keys()


def _is_tracing() -> bool:
    return (
        torch.compiler.is_dynamo_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )


options_of_calls.is_tracing = _is_tracing


@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, return_lse: Literal[False] = False, **options: Unpack[AttentionOptions]
) -> Tensor: ...
@overload
def attention(
    query: Tensor, key: Tensor, value: Tensor, *, return_lse: Literal[True], **options: Unpack[AttentionOptions]
) -> tuple[Tensor, Tensor]: ...
def attention(query: Any, key: Any, value: Any, *, return_lse: bool = False, **options: Any) -> Any:
    """qkv.attention() of tensors, with gradients: the same options.

    query, key and value of one type, which torch.autocast casts as for torch's own attention. Biases and sinks are cast to
    the type of sums. dropout draws its seed from torch's generator unless one is given. return_lse: gives (out,
    log-sum-exp), the second without gradient. Threads: torch.get_num_threads() unless given.

    Gradients go to query, key, value, the arrays and tables of biases, the parameters of scores, and sinks. Second
    derivatives and forward mode exist for query, key and value in float32 and float64, without soft_cap and dropout; third
    ones, and forward mode of forward mode, are refused. Works under torch.compile(fullgraph=True) and the transformations
    of torch.func, of which vmap makes one call of many where all tensors have as many dimensions as query; else a call
    each.

    TypeError and ValueError as qkv.attention() raises them.

    >>> import torch, qkv.torch
    >>> x = torch.eye(2, requires_grad=True)
    >>> qkv.torch.attention(x, x, x, mask="causal")[0].detach()
    tensor([1., 0.])
    """
    if not return_lse and not torch.compiler.is_dynamo_compiling():  # the rest takes longer than a small call
        out = _qkv._attend(query, key, value, options)
        if out is True:
            call, tensors = taken_apart(options, query.dtype)
            return Attention.apply(call, 1, query, key, value, *tensors)
        if out is not None:
            return out
    results = _results(query, key, value, options, 2 if return_lse else 1)
    return (results[0], results[1]) if return_lse else results[0]


def attention_stats(
    query: Tensor, key: Tensor, value: Tensor, **options: Unpack[StatsOptions]
) -> AttentionStats[Tensor]:
    """qkv.attention_stats() of tensors. The output has gradients, the statistics have none; weights are of the pass that the
    output comes from, others of one of their own.

    >>> import torch, qkv.torch
    >>> x = torch.zeros(1, 2, 3)
    >>> qkv.torch.attention_stats(x, x, x, weights=True).weights
    tensor([[[0.5000, 0.5000],
             [0.5000, 0.5000]]])
    """
    given: dict[str, Any] = dict(options)
    if all(name == "weights" for name in given if name in _STATISTICS):
        count = 3 if given.pop("weights", False) else 2
        return AttentionStats(*_results(query, key, value, given, count)[:count])
    stats = _qkv._tensor_stats(query, key, value, **{"threads": torch.get_num_threads(), **given})
    call: Any = {name: option for name, option in given.items() if name not in _STATISTICS}
    return replace(stats, out=attention(query, key, value, **call))


def _results(query: Tensor, key: Tensor, value: Tensor, options: dict[str, Any], count: int) -> Any:
    """The output, the log-sum-exp and the weights: as many of them as ``count`` at least."""
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if not isinstance(tensor, Tensor):
            _refuse(name, tensor)
    if torch.is_autocast_enabled("cpu"):
        query, key, value = _autocast(query), _autocast(key), _autocast(value)
    if options.get("dropout") and options.get("seed") is None:
        options["seed"] = torch.randint(2**63 - 1, ())
    call, tensors = taken_apart(options, query.dtype)
    transformed = is_transformed()
    if not transformed and not (torch.is_grad_enabled() and _needs_gradient(query, key, value, *tensors)):
        return operators.attention(query, key, value, tensors, call, count)
    if transformed:
        return TransformedAttention.apply(call, max(count, 2), query, key, value, *tensors)
    inputs = [query, key, value, *tensors]
    if torch.compiler.is_dynamo_compiling():
        inputs = _distinct(inputs)
    results = Attention.apply(call, count, *inputs)
    return (results,) if count == 1 else results


def _distinct(tensors: list[Tensor]) -> list[Tensor]:
    """The same tensors, each another object, without which torch.compile traces no function of its own."""
    found: list[Tensor] = []
    for tensor in tensors:
        found.append(tensor.view_as(tensor) if any(tensor is other for other in found) else tensor)
    return found


def _autocast(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point() or tensor.dtype == torch.float64:
        return tensor
    return tensor.to(torch.get_autocast_dtype("cpu"))


def _needs_gradient(*tensors: Tensor) -> bool:
    for tensor in tensors:
        if tensor.requires_grad:
            return True
    return False


def _refuse(name: str, given: Any) -> NoReturn:
    hint = f"; torch.as_tensor({name}) is one" if hasattr(given, "__array__") else ""
    raise TypeError(f"{name} must be a torch.Tensor, got {type(given).__name__}{hint}")
