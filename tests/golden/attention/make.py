"""Makes sdpa.safetensors: inputs and outputs of torch 2.15's scaled_dot_product_attention.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME holds NAME.q, NAME.k, NAME.v (f32 or bf16), perhaps NAME.mask (bool, true = may attend) or NAME.bias, and
NAME.out_f64 (computed in float64 from the same inputs), NAME.out (computed in the type of the inputs) and NAME.lse
(float64). The scale, where one is given, and the causal flag stand in the metadata.
"""

import math
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.functional import scaled_dot_product_attention

generator = torch.Generator().manual_seed(20261121)
tensors, metadata = {}, {}


def normal(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=generator).to(dtype)


def uniform(*shape):
    return torch.rand(shape, generator=generator)


def log_sum_exp(q, k, mask, bias, scale, causal):
    """Natural logarithm of the sum of exponentials of the masked logits, in float64."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    logits = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = logits.masked_fill(~mask, -math.inf)
    if causal:
        logits = logits.masked_fill(~torch.ones_like(logits, dtype=torch.bool).tril(), -math.inf)
    return torch.logsumexp(logits, dim=-1)


def case(name, q, k, v, mask=None, bias=None, scale=None, causal=False):
    arguments = dict(scale=scale, is_causal=causal, enable_gqa=True)
    tensors.update({f"{name}.q": q, f"{name}.k": k, f"{name}.v": v})
    if mask is not None:
        tensors[f"{name}.mask"] = mask
    if bias is not None:
        tensors[f"{name}.bias"] = bias
    q64, k64, v64 = q.double(), k.double(), v.double()
    bias64 = None if bias is None else bias.double()
    added = mask if bias is None else bias
    added64 = mask if bias is None else bias64
    tensors[f"{name}.out"] = scaled_dot_product_attention(q, k, v, added, **arguments).contiguous()
    tensors[f"{name}.out_f64"] = scaled_dot_product_attention(q64, k64, v64, added64, **arguments).contiguous()
    tensors[f"{name}.lse"] = log_sum_exp(q64, k64, mask, bias64, scale, causal)
    metadata[f"{name}.causal"] = "1" if causal else "0"
    if scale is not None:
        metadata[f"{name}.scale"] = repr(scale)


case("self", normal(2, 3, 17, 16), normal(2, 3, 17, 16), normal(2, 3, 17, 16))
case("cross", normal(1, 2, 9, 8), normal(1, 2, 33, 8), normal(1, 2, 33, 8))
case("long", normal(1, 1, 50, 16), normal(1, 1, 300, 16), normal(1, 1, 300, 16))
case("one_query", normal(2, 2, 1, 32), normal(2, 2, 40, 32), normal(2, 2, 40, 32))
case("causal_square", normal(1, 2, 20, 16), normal(1, 2, 20, 16), normal(1, 2, 20, 16), causal=True)
case("causal_wide", normal(1, 2, 7, 16), normal(1, 2, 19, 16), normal(1, 2, 19, 16), causal=True)
case("causal_tall", normal(1, 2, 19, 16), normal(1, 2, 7, 16), normal(1, 2, 7, 16), causal=True)
case("mask", normal(2, 2, 9, 8), normal(2, 2, 13, 8), normal(2, 2, 13, 8), mask=uniform(2, 1, 9, 13) < 0.6)
masked_rows = uniform(1, 2, 6, 10) < 0.5
masked_rows[0, :, 2] = False
masked_rows[0, 1, 5] = False
case("masked_rows", normal(1, 2, 6, 8), normal(1, 2, 10, 8), normal(1, 2, 10, 8), mask=masked_rows)
case("bias", normal(2, 2, 9, 8), normal(2, 2, 13, 8), normal(2, 2, 13, 8), bias=normal(1, 2, 9, 13))
infinite_bias = torch.where(uniform(1, 1, 6, 10) < 0.5, 0.0, -math.inf)
infinite_bias[0, 0, 3] = -math.inf
case("infinite_bias", normal(1, 2, 6, 8), normal(1, 2, 10, 8), normal(1, 2, 10, 8), bias=infinite_bias)
case("lowest_bias", normal(1, 1, 4, 8), normal(1, 1, 6, 8), normal(1, 1, 6, 8),
     bias=torch.full((1, 1, 4, 6), torch.finfo(torch.float32).min))
case("grouped", normal(1, 6, 11, 8), normal(1, 2, 14, 8), normal(1, 2, 14, 8))
case("value_dim", normal(1, 2, 11, 8), normal(1, 2, 14, 8), normal(1, 2, 14, 21))
case("scale", normal(1, 2, 11, 8), normal(1, 2, 14, 8), normal(1, 2, 14, 8), scale=0.7)
case("large", 30 * normal(1, 2, 11, 64), 30 * normal(1, 2, 14, 64), normal(1, 2, 14, 64))
case("bf16", *(normal(1, 2, 21, 32, dtype=torch.bfloat16) for _ in range(3)))

assert torch.__version__.startswith("2.15"), torch.__version__
save_file(tensors, pathlib.Path(__file__).parent / "sdpa.safetensors", metadata)
