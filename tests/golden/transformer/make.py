"""Makes transformer.safetensors: torch 2.15's torch.nn.Transformer, forward, backward and ten steps of training.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME (pre, post: where the norms are) holds its parameters as NAME.weights.PARAMETER (float32), the inputs
NAME.source and NAME.target, NAME.source_lengths, NAME.out (float32) and NAME.out_f64, and for the loss sum(out * NAME.grad_out)
the gradients NAME.gradients.PARAMETER, NAME.gradients.source and NAME.gradients.target (float64, from the same float32 numbers).
Source positions behind the lengths are masked, the target is causal.

"training" holds the parameters weights.PARAMETER and weights.shared (a table for both sides, scaled by the root of its width,
and turned round for the output) of a pre-norm model, the ids source and target (the first of each target is the start),
and losses: the mean label-smoothed cross-entropy of ten steps of plain gradient descent, in float32.
"""

import math
import pathlib

import torch
from safetensors.torch import save_file

assert torch.__version__.startswith("2.15"), torch.__version__
generator = torch.Generator().manual_seed(20261121)
tensors = {}


def draw(*shape):
    return torch.randn(*shape, generator=generator)


def model(norm_first, activation):
    transformer = torch.nn.Transformer(8, 2, 2, 2, 12, dropout=0.0, activation=activation, batch_first=True,
                                       norm_first=norm_first, layer_norm_eps=1e-5)
    with torch.no_grad():
        for name, parameter in transformer.named_parameters():
            parameter.copy_(0.4 * draw(*parameter.shape) + (1.0 if "norm" in name and "weight" in name else 0.0))
    return transformer


for name, activation in (("pre", "gelu"), ("post", "relu")):
    transformer = model(name == "pre", activation).train()
    tensors.update({f"{name}.weights.{k}": v.clone() for k, v in transformer.state_dict().items()})
    source, target, grad_out = draw(2, 5, 8), draw(2, 4, 8), draw(2, 4, 8)
    lengths = torch.tensor([5, 3], dtype=torch.int32)
    hidden = torch.arange(5)[None, :] >= lengths[:, None]

    def run(dtype, source, target):
        causal = torch.nn.Transformer.generate_square_subsequent_mask(4, dtype=dtype)
        return transformer.to(dtype)(source, target, tgt_mask=causal, src_key_padding_mask=hidden,
                                     memory_key_padding_mask=hidden)

    tensors.update({f"{name}.source": source, f"{name}.target": target, f"{name}.grad_out": grad_out,
                    f"{name}.source_lengths": lengths, f"{name}.out": run(torch.float32, source, target).detach()})
    source, target = source.double().requires_grad_(), target.double().requires_grad_()
    out = run(torch.float64, source, target)
    (out * grad_out.double()).sum().backward()
    tensors[f"{name}.out_f64"] = out.detach()
    tensors[f"{name}.gradients.source"], tensors[f"{name}.gradients.target"] = source.grad, target.grad
    tensors.update({f"{name}.gradients.{k}": v.grad for k, v in transformer.named_parameters()})

transformer = model(True, "relu").train()
shared = torch.nn.Parameter(draw(11, 8) / math.sqrt(8))
tensors.update({f"training.weights.{k}": v.clone() for k, v in transformer.state_dict().items()})
tensors["training.weights.shared"] = shared.detach().clone()
source, target = torch.randint(0, 11, (3, 6), generator=generator), torch.randint(0, 11, (3, 5), generator=generator)
tensors["training.source"], tensors["training.target"] = source.int(), target.int()
angles = torch.arange(6)[:, None] / 10000 ** (torch.arange(0, 8, 2) / 8)
positions = torch.stack([angles.sin(), angles.cos()], -1).reshape(6, 8)
optimizer = torch.optim.SGD([*transformer.parameters(), shared], lr=0.1)
causal = torch.nn.Transformer.generate_square_subsequent_mask(4)
losses = []
for _ in range(10):
    optimizer.zero_grad()
    out = transformer(shared[source] * math.sqrt(8) + positions, shared[target[:, :-1]] * math.sqrt(8) + positions[:4],
                      tgt_mask=causal)
    loss = torch.nn.functional.cross_entropy((out @ shared.T).reshape(-1, 11), target[:, 1:].reshape(-1), label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
tensors["training.losses"] = torch.tensor(losses)
save_file({k: v.contiguous() for k, v in tensors.items()}, pathlib.Path(__file__).parent / "transformer.safetensors")
print(losses)
