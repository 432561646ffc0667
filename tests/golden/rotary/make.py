"""Makes rotary.safetensors: causal self-attention with rotary positions, by transformers 5 on torch 2.15.

    python make.py        (needs torch 2.15, transformers and safetensors)

Every case NAME holds NAME.in_proj_weight (the projections of query, key and value, one below the other),
NAME.out_proj.weight, NAME.x [batch, length, dim] and, computed in float64, NAME.out: "halves" turns as Llama does, with base
500, "neighbours" as GPT-J does, with base 10000. Attention is torch's own: those of the models take softmax in float32.
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turn_neighbours
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as turn_halves

assert torch.__version__.startswith("2.15"), torch.__version__
generator = torch.Generator().manual_seed(20261121)
BATCH, LENGTH, DIM, HEADS = 2, 9, 24, 3
SIZE = DIM // HEADS


def angles(base):
    """[length, pairs]"""
    return torch.arange(LENGTH).double()[:, None] / base ** (torch.arange(0, SIZE, 2).double() / SIZE)


def llama(query, key):  # [batch, heads, length, size]
    pairs = angles(500.0).repeat(1, 2)[None]
    return turn_halves(query, key, pairs.cos(), pairs.sin())


def gptj(query, key):
    pairs = angles(10000.0)[None]
    return [turn_neighbours(rows.transpose(1, 2), pairs.sin(), pairs.cos()).transpose(1, 2) for rows in (query, key)]


tensors = {}
for name, turn in (("halves", llama), ("neighbours", gptj)):
    projection = 0.5 * torch.randn(3 * DIM, DIM, generator=generator)
    last = 0.5 * torch.randn(DIM, DIM, generator=generator)
    x = torch.randn(BATCH, LENGTH, DIM, generator=generator)
    heads = (x.double() @ projection.double().T).view(BATCH, LENGTH, 3, HEADS, SIZE).permute(2, 0, 3, 1, 4)
    query, key = turn(heads[0], heads[1])
    merged = torch.nn.functional.scaled_dot_product_attention(query, key, heads[2], is_causal=True)
    out = merged.transpose(1, 2).reshape(BATCH, LENGTH, DIM) @ last.double().T
    tensors.update({f"{name}.in_proj_weight": projection, f"{name}.out_proj.weight": last, f"{name}.x": x,
                    f"{name}.out": out})

save_file(tensors, pathlib.Path(__file__).parent / "rotary.safetensors")
