"""Makes sdpa.safetensors: gradients of torch 2.15's scaled_dot_product_attention, by autograd.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME holds NAME.q, NAME.k, NAME.v, NAME.grad_out (f32), perhaps NAME.mask (bool, true = may attend) or
NAME.bias, and NAME.dq_f64, NAME.dk_f64, NAME.dv_f64, NAME.dbias_f64 (computed in float64 from the same inputs) and
NAME.dq, NAME.dk, NAME.dv, NAME.dbias (computed in float32). The scale, where one is given, and the causal flag stand in
the metadata. The case "dropout" has the mask of ../dropout/whole.npy (p = 0.25, seed 7) between softmax and values.
"""

import pathlib

import numpy
import torch
from safetensors.torch import save_file
from torch.nn.functional import scaled_dot_product_attention

here = pathlib.Path(__file__).parent
kept_rate = round(0.75 * 65536) / 65536
generator = torch.Generator().manual_seed(20261122)
tensors, metadata = {}, {}


def normal(*shape):
    return torch.randn(shape, generator=generator)


def with_dropout(q, k, v, kept, rate):
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) * kept / rate @ v


def gradients(q, k, v, grad_out, mask, bias, kept, arguments):
    inputs = [None if x is None else x.clone().requires_grad_() for x in (q, k, v, bias)]
    if kept is None:
        whole = (*q.shape[:-1], k.shape[-2])
        added = mask if bias is None else inputs[3].expand(whole)
        scaled_dot_product_attention(*inputs[:3], added, **arguments).backward(grad_out)
    else:
        with_dropout(*inputs[:3], kept, kept_rate).backward(grad_out)
    return {name: x.grad.contiguous() for name, x in zip(("dq", "dk", "dv", "dbias"), inputs) if x is not None}


def case(name, q, k, v, mask=None, bias=None, scale=None, causal=False, kept=None):
    arguments = dict(scale=scale, is_causal=causal, enable_gqa=True)
    grad_out = normal(*q.shape[:-1], v.shape[-1])
    tensors.update({f"{name}.q": q, f"{name}.k": k, f"{name}.v": v, f"{name}.grad_out": grad_out})
    if mask is not None:
        tensors[f"{name}.mask"] = mask
    if bias is not None:
        tensors[f"{name}.bias"] = bias
    inputs = (q, k, v, grad_out)
    wide = gradients(*(x.double() for x in inputs), mask, None if bias is None else bias.double(), kept, arguments)
    own = gradients(*inputs, mask, bias, kept, arguments)
    for part in own:
        tensors[f"{name}.{part}_f64"], tensors[f"{name}.{part}"] = wide[part], own[part]
    metadata[f"{name}.causal"] = "1" if causal else "0"
    if scale is not None:
        metadata[f"{name}.scale"] = repr(scale)


case("self", normal(2, 3, 17, 16), normal(2, 3, 17, 16), normal(2, 3, 17, 16))
case("cross", normal(1, 2, 9, 8), normal(1, 2, 33, 8), normal(1, 2, 33, 8))
case("causal_square", normal(1, 2, 20, 16), normal(1, 2, 20, 16), normal(1, 2, 20, 16), causal=True)
case("causal_wide", normal(1, 2, 7, 16), normal(1, 2, 19, 16), normal(1, 2, 19, 16), causal=True)
case("causal_tall", normal(1, 2, 19, 16), normal(1, 2, 7, 16), normal(1, 2, 7, 16), causal=True)
masked_rows = torch.rand((1, 2, 6, 10), generator=generator) < 0.5
masked_rows[0, :, 2] = False
masked_rows[0, 1, 5] = False
case("masked_rows", normal(1, 2, 6, 8), normal(1, 2, 10, 8), normal(1, 2, 10, 8), mask=masked_rows)
case("bias", normal(2, 2, 9, 8), normal(2, 2, 13, 8), normal(2, 2, 13, 8), bias=normal(1, 2, 9, 13))
case("grouped", normal(1, 6, 11, 8), normal(1, 2, 14, 8), normal(1, 2, 14, 8))
case("value_dim", normal(1, 2, 11, 8), normal(1, 2, 14, 8), normal(1, 2, 14, 21))
case("scale", normal(1, 2, 11, 8), normal(1, 2, 14, 8), normal(1, 2, 14, 8), scale=0.7)
case("bias_of_heads", normal(2, 2, 9, 8), normal(2, 2, 13, 8), normal(2, 2, 13, 8), bias=normal(2, 1, 1))
case("bias_of_keys", normal(2, 2, 9, 8), normal(2, 2, 13, 8), normal(2, 2, 13, 8), bias=normal(2, 1, 1, 13))
case("bias_of_queries", normal(2, 2, 9, 8), normal(2, 2, 13, 8), normal(2, 2, 13, 8), bias=normal(9, 1))
kept = torch.from_numpy(numpy.load(here.parent / "dropout" / "whole.npy"))
case("dropout", normal(2, 3, 17, 8), normal(2, 3, 20, 8), normal(2, 3, 20, 8), kept=kept)

assert torch.__version__.startswith("2.15"), torch.__version__
save_file(tensors, here / "sdpa.safetensors", metadata)
