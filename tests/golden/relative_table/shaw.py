"""Makes shaw.safetensors: attention with relative keys in f64 and its gradients, by torch's autograd, with the embeddings
of all pairs written out as in equations 4 and 5 of Shaw et al. (2018), https://arxiv.org/abs/1803.02155.

    python shaw.py        (needs torch 2.15, safetensors)
"""

import math
import pathlib

import torch
from safetensors.torch import save_file

torch.manual_seed(3)
tensors = {}
for name, q_len, k_len, offset, causal in (("square", 37, 37, 0, False), ("causal", 20, 53, 33, True), ("one", 1, 40, 39, True)):
    q, k, v, grad_out = (
        torch.randn(1, 2, length, 8, dtype=torch.float64) for length in (q_len, k_len, k_len, q_len)
    )
    table = torch.randn(2 * 5 + 1, 8, dtype=torch.float64)
    for tensor in (q, k, v, table):
        tensor.requires_grad_()
    distance = torch.arange(k_len)[None, :] - (torch.arange(q_len) + offset)[:, None]
    of_pairs = table[distance.clamp(-5, 5) + 5]
    logits = torch.einsum("bhid,bhijd->bhij", q, k[:, :, None] + of_pairs) / math.sqrt(8)
    if causal:
        logits = logits.masked_fill(distance > 0, -math.inf)
    out = logits.softmax(-1) @ v
    out.backward(grad_out)
    parts = dict(q=q, k=k, v=v, table=table, grad_out=grad_out, out=out)
    parts |= dict(grad_q=q.grad, grad_k=k.grad, grad_v=v.grad, grad_table=table.grad)
    tensors |= {f"{name}.{part}": tensor.detach().contiguous() for part, tensor in parts.items()}

save_file(tensors, pathlib.Path(__file__).with_name("shaw.safetensors"))
