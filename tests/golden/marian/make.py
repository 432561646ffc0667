"""A tiny Marian and a tiny BART model with random weights, what each says of a batch, and ten steps of training it, by
transformers 5.23 and torch 2.15:

  python tests/golden/marian/make.py marian|bart

tiny/ and bart/ are the folders as transformers saves them; marian.safetensors and bart.safetensors have a batch (ids,
offsets), the logits of its target tokens in f64, the gradients of the label-smoothed loss of the batch, and the loss (per
target token) before each of ten steps of Adam. Logits and losses of Marian leave out the last id, padding, as our training
does; the bias of the logits trains, too."""
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import BartConfig, BartForConditionalGeneration, MarianConfig, MarianMTModel

HERE = os.path.dirname(os.path.abspath(__file__))
KIND = sys.argv[1]
BART = KIND == "bart"
FOLDER = os.path.join(HERE, "bart" if BART else "tiny")
MODEL = BartForConditionalGeneration if BART else MarianMTModel
VOCAB = 23
PADDING, END, START = (1, 2, 2) if BART else (22, 0, 22)
CLASSES = VOCAB if BART else PADDING  # that can be written
SMOOTHING = 0.1
torch.manual_seed(1)

config = (BartConfig if BART else MarianConfig)(
    vocab_size=VOCAB, d_model=12, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
    decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=16, max_position_embeddings=9,
    activation_function="swish", scale_embedding=True, pad_token_id=PADDING, eos_token_id=END,
    decoder_start_token_id=START, forced_eos_token_id=END, dropout=0.0)
model = MODEL(config)
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.1))
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            parameter.add_(1)
    if not BART:
        model.model.shared.weight[PADDING] = 0
    model.final_logits_bias.copy_(torch.randn(1, VOCAB) * 0.1)
    if not BART:
        model.final_logits_bias[0, PADDING] = 0
model.save_pretrained(FOLDER)

model = MODEL.from_pretrained(FOLDER).double().eval()
bias = torch.nn.Parameter(model.final_logits_bias[0].clone())
sources = [[5, 7, 7, 1, 2, 0], [3, 0], [9, 20, 21, 0]]
targets = [[11, 4, 0], [6, 6, 17, 2, 8, 19, 1, 0], [0]]
if BART:  # whose ids of words begin at 3
    sources, targets = ([[max(token, 3) for token in row[:-1]] + [END] for row in rows] for rows in (sources, targets))


def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([row + [PADDING] * (width - len(row)) for row in rows])


def logits():
    labels = pad(targets)
    begun = torch.cat([torch.full((len(targets), 1), START), labels[:, :-1]], 1)
    out = model.model(input_ids=pad(sources), attention_mask=(pad(sources) != PADDING).long(),
                      decoder_input_ids=begun).last_hidden_state
    hidden = torch.cat([out[i, : len(row)] for i, row in enumerate(targets)])
    return hidden @ model.model.shared.weight.T + bias


def loss(smoothing):
    flat = torch.tensor([token for row in targets for token in row])
    return torch.nn.functional.cross_entropy(logits()[:, :CLASSES], flat, label_smoothing=smoothing, reduction="sum")


def offsets(rows):
    ends = torch.tensor([len(row) for row in rows]).cumsum(0)
    return torch.cat([torch.zeros(1, dtype=torch.long), ends]).int()


golden = {"logits": logits().detach()[:, :CLASSES].contiguous(), "loss": loss(0).detach()}
for name, rows in (("source", sources), ("target", targets)):
    golden[name] = torch.tensor([token for row in rows for token in row]).int()
    golden[name + "_offsets"] = offsets(rows)

parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and (BART or "embed_positions" not in name)}
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
save_file(golden, os.path.join(HERE, KIND + ".safetensors"))
print(losses)
