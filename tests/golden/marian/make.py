"""Tiny models with random weights, what each says of a batch, and ten steps of training it, by transformers 5.23 and
torch 2.15:

  python tests/golden/marian/make.py marian|bart|separate|mbart|own

separate is a Marian with a vocabulary for each side; own is none of transformers' (plain torch below): pre-norm, RMSNorm,
rotary positions, a vocabulary for each side. tiny/ (marian) and the folders of the others' names are as transformers saves
them; marian.safetensors and so on have a batch (ids,
offsets), the logits of its target tokens in f64, the gradients of the label-smoothed loss of the batch, and the loss (per
target token) before each of ten steps of Adam. Logits and losses of Marian leave out the last id, padding, as our training
does; the bias of the logits trains, too."""
import json
import os
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import (BartConfig, BartForConditionalGeneration, MarianConfig, MarianMTModel, MBartConfig,
                          MBartForConditionalGeneration)

HERE = os.path.dirname(os.path.abspath(__file__))
KIND = sys.argv[1]
BART, SEPARATE = KIND in ("bart", "mbart"), KIND in ("separate", "own")
FOLDER = os.path.join(HERE, "tiny" if KIND == "marian" else KIND)
CONFIG, MODEL = {"bart": (BartConfig, BartForConditionalGeneration), "mbart": (MBartConfig, MBartForConditionalGeneration)
                 }.get(KIND, (MarianConfig, MarianMTModel))
VOCAB = 23
PADDING, END, START = (1, 2, 2) if BART else (22, 0, 22)
CLASSES = VOCAB if BART else PADDING  # that can be written
SMOOTHING = 0.1
torch.manual_seed(1)

config = CONFIG(
    vocab_size=25 if SEPARATE else VOCAB, d_model=12, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3,
    decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=16, max_position_embeddings=9,
    activation_function="swish", scale_embedding=True, pad_token_id=PADDING, eos_token_id=END,
    decoder_start_token_id=START, forced_eos_token_id=END, dropout=0.0,
    **({"share_encoder_decoder_embeddings": False, "decoder_vocab_size": VOCAB} if SEPARATE else {}))
model = MODEL(config)
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.1))
    for name, parameter in model.named_parameters():
        if "norm" in name and name.endswith("weight"):
            parameter.add_(1)
    if not BART:
        for table in {model.model.encoder.embed_tokens, model.model.decoder.embed_tokens}:
            table.weight[PADDING] = 0
    model.final_logits_bias.copy_(torch.randn(1, VOCAB) * 0.1)
    if not BART:
        model.final_logits_bias[0, PADDING] = 0
model.save_pretrained(FOLDER)


def rotary(x):  # [heads, length, size], halves
    size = x.shape[-1]
    angle = torch.arange(x.shape[1])[:, None] / 10000 ** (torch.arange(0, size, 2) / size)
    a, b = x[..., : size // 2], x[..., size // 2 :]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


class Own(torch.nn.Module):
    """The parameters of a Marian, otherwise put together; what it has no use for stays out of the file."""

    def __init__(self, marian):
        super().__init__()
        self.marian = marian
        for side in (marian.model.encoder, marian.model.decoder):
            side.layer_norm = torch.nn.RMSNorm(12, eps=1e-5)
            side.layer_norm.weight.data = torch.randn(12) * 0.1 + 1

    @staticmethod
    def norm(x, layer):
        return x / (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() * layer.weight

    @staticmethod
    def attend(layer, x, memory, turn, causal):
        heads = [p(y).view(len(y), layer.num_heads, -1).transpose(0, 1)
                 for p, y in ((layer.q_proj, x), (layer.k_proj, memory), (layer.v_proj, memory))]
        q, k, v = (turn(heads[0]), turn(heads[1]), heads[2])
        logits = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        if causal:
            logits = logits.masked_fill(torch.ones(logits.shape[-2:]).triu(1).bool(), float("-inf"))
        return layer.out_proj((logits.softmax(-1) @ v).transpose(0, 1).reshape(len(x), -1))

    def stack(self, side, ids, memory=None):
        x = side.embed_tokens(torch.tensor(ids)) * 12 ** 0.5
        for layer in side.layers:
            y = self.norm(x, layer.self_attn_layer_norm)
            x = x + self.attend(layer.self_attn, y, y, rotary, memory is not None)
            if memory is not None:
                y = self.norm(x, layer.encoder_attn_layer_norm)
                x = x + self.attend(layer.encoder_attn, y, memory, lambda z: z, False)
            y = self.norm(x, layer.final_layer_norm)
            x = x + layer.fc2(torch.nn.functional.silu(layer.fc1(y)))
        return self.norm(x, side.layer_norm)

    def hidden(self):
        model = self.marian.model
        return torch.cat([self.stack(model.decoder, [START] + target[:-1], self.stack(model.encoder, source))
                          for source, target in zip(sources, targets)])


model = MODEL.from_pretrained(FOLDER).double().eval()
if KIND == "own":
    own = Own(model).double()
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
    if KIND == "own":
        hidden = own.hidden()
    return hidden @ model.model.decoder.embed_tokens.weight.T + bias


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

def used(name):
    return BART or not ("embed_positions" in name or (KIND == "own" and "norm" in name and name.endswith("bias")))


parameters = {name: p for name, p in model.named_parameters() if p.requires_grad and used(name)}
if KIND == "own":
    tensors = {name: p.detach().float().contiguous() for name, p in parameters.items() if name != "lm_head.weight"}
    tensors["final_logits_bias"] = model.final_logits_bias.float().contiguous()
    save_file(tensors, os.path.join(FOLDER, "model.safetensors"), {"format": "pt"})
    path = os.path.join(FOLDER, "config.json")
    fields = json.load(open(path))
    del fields["architectures"]
    fields.update(model_type="qkv", kind="marian", normalization="rms", position_kind="rotary", normalize_before=True,
                  add_final_layer_norm=True, static_position_embeddings=False)
    json.dump(fields, open(path, "w"), indent=2)
    model.load_state_dict({name: value.double() for name, value in tensors.items()}, strict=False)
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
