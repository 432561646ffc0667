"""A tiny Marian model with random weights, what it says of a batch, and ten steps of training it, by transformers 5.23 and
torch 2.15:

  python tests/golden/marian/make.py

tiny/ is the folder as transformers saves it; marian.safetensors has a batch (ids, offsets), the logits of its target tokens
in f64, the gradients of the label-smoothed loss of the batch, and the loss (per target token) before each of ten steps of
Adam. Logits and losses leave out the last id, padding, as our training does; the bias of the logits trains, too."""
import os

import torch
from safetensors.torch import load_file, save_file
from transformers import MarianConfig, MarianMTModel

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, PADDING, END = 23, 22, 0
SMOOTHING = 0.1
torch.manual_seed(1)

config = MarianConfig(
    vocab_size=VOCAB, d_model=12, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
    decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=16, max_position_embeddings=9,
    activation_function="swish", scale_embedding=True, pad_token_id=PADDING, eos_token_id=END,
    decoder_start_token_id=PADDING, forced_eos_token_id=END, dropout=0.0)
model = MarianMTModel(config)
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.1))
    for name, parameter in model.named_parameters():
        if name.endswith("layer_norm.weight"):
            parameter.add_(1)
    model.model.shared.weight[PADDING] = 0
    model.final_logits_bias.copy_(torch.randn(1, VOCAB) * 0.1)
    model.final_logits_bias[0, PADDING] = 0
model.save_pretrained(os.path.join(HERE, "tiny"))

model = MarianMTModel.from_pretrained(os.path.join(HERE, "tiny")).double().eval()
bias = torch.nn.Parameter(model.final_logits_bias[0].clone())
sources = [[5, 7, 7, 1, 2, 0], [3, 0], [9, 20, 21, 0]]
targets = [[11, 4, 0], [6, 6, 17, 2, 8, 19, 1, 0], [0]]


def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([row + [PADDING] * (width - len(row)) for row in rows])


def logits():
    labels = pad(targets)
    begun = torch.cat([torch.full((len(targets), 1), PADDING), labels[:, :-1]], 1)
    out = model.model(input_ids=pad(sources), attention_mask=(pad(sources) != PADDING).long(),
                      decoder_input_ids=begun).last_hidden_state
    hidden = torch.cat([out[i, : len(row)] for i, row in enumerate(targets)])
    return hidden @ model.model.shared.weight.T + bias


def loss(smoothing):
    flat = torch.tensor([token for row in targets for token in row])
    return torch.nn.functional.cross_entropy(logits()[:, :PADDING], flat, label_smoothing=smoothing, reduction="sum")


def offsets(rows):
    ends = torch.tensor([len(row) for row in rows]).cumsum(0)
    return torch.cat([torch.zeros(1, dtype=torch.long), ends]).int()


golden = {"logits": logits().detach()[:, :PADDING].contiguous(), "loss": loss(0).detach()}
for name, rows in (("source", sources), ("target", targets)):
    golden[name] = torch.tensor([token for row in rows for token in row]).int()
    golden[name + "_offsets"] = offsets(rows)

parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and "embed_positions" not in name}
parameters["final_logits_bias"] = bias
loss(SMOOTHING).backward()
for name, parameter in parameters.items():
    golden["gradient." + name] = parameter.grad.clone()
optimizer = torch.optim.Adam(parameters.values(), lr=0.02, betas=(0.9, 0.98), eps=1e-9)
losses = []
for _ in range(10):
    optimizer.zero_grad()
    mean = loss(SMOOTHING) / len(golden["target"])
    mean.backward()
    losses.append(mean.detach())
    optimizer.step()
golden["losses"] = torch.stack(losses)
save_file(golden, os.path.join(HERE, "marian.safetensors"))
print(losses)
