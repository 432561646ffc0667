"""Makes sdpa.safetensors: forward-mode derivatives and double backward of torch 2.15's scaled_dot_product_attention.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME holds NAME.q, NAME.k, NAME.v, their tangents NAME.tq, NAME.tk, NAME.tv and NAME.grad_out (f32), and,
computed in float64 from these, NAME.out (the tangent of the output, by torch.func.jvp) and NAME.ddq, NAME.ddk, NAME.ddv,
NAME.dd_out (the gradients of tq . dq + tk . dk + tv . dv, by autograd through autograd). The same from float32 is in
NAME.out_f32 and so on. The causal flag and the scale, where one is given, stand in the metadata.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

generator = torch.Generator().manual_seed(20261122)
tensors, metadata = {}, {}


def normal(*shape):
    return torch.randn(shape, generator=generator)


def derivatives(inputs, tangents, grad_out, arguments):
    def attend(*inputs):
        return scaled_dot_product_attention(*inputs, **arguments)

    with sdpa_kernel(SDPBackend.MATH):
        moved = torch.func.jvp(attend, inputs, tangents)[1]
        leaves = [x.clone().requires_grad_() for x in (*inputs, grad_out)]
        first = torch.autograd.grad(attend(*leaves[:3]), leaves[:3], leaves[3], create_graph=True)
        second = torch.autograd.grad(first, leaves, tangents)
    return {name: x.contiguous() for name, x in zip(("out", "ddq", "ddk", "ddv", "dd_out"), (moved, *second))}


def case(name, q, k, v, scale=None, causal=False):
    arguments = dict(scale=scale, is_causal=causal, enable_gqa=True)
    given = {"q": q, "k": k, "v": v, "tq": normal(*q.shape), "tk": normal(*k.shape), "tv": normal(*v.shape)}
    given["grad_out"] = normal(*q.shape[:-1], v.shape[-1])
    tensors.update({f"{name}.{part}": x for part, x in given.items()})
    for suffix, dtype in (("", torch.float64), ("_f32", torch.float32)):
        own = [x.to(dtype) for x in given.values()]
        for part, x in derivatives(tuple(own[:3]), tuple(own[3:6]), own[6], arguments).items():
            tensors[f"{name}.{part}{suffix}"] = x
    metadata[f"{name}.causal"] = "1" if causal else "0"
    if scale is not None:
        metadata[f"{name}.scale"] = repr(scale)


case("self", normal(2, 2, 9, 8), normal(2, 2, 9, 8), normal(2, 2, 9, 8))
case("cross", normal(1, 2, 5, 8), normal(1, 2, 21, 8), normal(1, 2, 21, 8))
case("causal_square", normal(1, 2, 12, 8), normal(1, 2, 12, 8), normal(1, 2, 12, 8), causal=True)
case("causal_tall", normal(1, 2, 11, 8), normal(1, 2, 6, 8), normal(1, 2, 6, 8), causal=True)
case("grouped", normal(1, 6, 7, 4), normal(1, 2, 10, 4), normal(1, 2, 10, 4))
case("value_dim", normal(1, 2, 7, 4), normal(1, 2, 10, 4), normal(1, 2, 10, 13))
case("scale", normal(1, 2, 7, 4), normal(1, 2, 10, 4), normal(1, 2, 10, 4), scale=0.7)

assert torch.__version__.startswith("2.15"), torch.__version__
save_file(tensors, pathlib.Path(__file__).parent / "sdpa.safetensors", metadata)
