"""Puts our layers where a model has torch's."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from .layers import OURS, reason_to_keep


@dataclass
class Replaced:
    """What replace() did, by the names of modules; str() has a line for each."""

    swapped: dict[str, str] = field(default_factory=dict)  #: name: the class that it had
    kept: dict[str, str] = field(default_factory=dict)  #: name: why

    def __str__(self) -> str:
        lines = [f"{name}: {kind} swapped" for name, kind in self.swapped.items()]
        lines += [f"{name}: kept, {why}" for name, why in self.kept.items()]
        return "\n".join(lines or ["nothing here is an attention of torch.nn"])


def replace(model: nn.Module) -> Replaced:
    """Makes each nn.MultiheadAttention and nn.TransformerEncoderLayer of a model compute with our attention, in place.

    Parameters, buffers, hooks and state_dict stay as they are. Returns which modules were replaced, and why others were
    not. Encoder layers lose torch's fast path for inference, which never calls the attention inside, and
    nn.TransformerEncoder its nested tensors. Differences: a query that sees no key gives 0, not NaN; requested weights are
    those before dropout; dropout draws other numbers of the same generator.

    >>> import torch, qkv.torch
    >>> model = torch.nn.TransformerEncoderLayer(8, 2, dropout=0.0, batch_first=True).eval()
    >>> print(qkv.torch.replace(model))
    (the model): TransformerEncoderLayer swapped
    self_attn: MultiheadAttention swapped
    """
    done = Replaced()
    for name, module in model.named_modules():
        name = name or "(the model)"
        if isinstance(module, tuple(OURS.values())):
            done.kept[name] = "it is one of ours already"
        elif type(module) in OURS:
            reason = reason_to_keep(module)
            if reason:
                done.kept[name] = reason
            else:
                done.swapped[name] = type(module).__name__
                module.__class__ = OURS[type(module)]
        elif isinstance(module, tuple(OURS)):
            done.kept[name] = f"{type(module).__name__} is a class of its own, which may compute something else"
        elif hasattr(module, "set_attn_implementation") and module is model:
            done.kept[name] = (
                'a model of transformers: qkv.transformers.register() and set_attn_implementation("qkv") serve it'
            )
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder) and any(isinstance(each, tuple(OURS.values())) for each in module.layers):
            module.use_nested_tensor = False
    return done
