"""Makes seq2seq.safetensors: recurrent encoder-decoders written in torch, from the formulas of the papers alone.

    python make.py        (needs torch 2.15 and safetensors)

Every case KIND_CELL_DIRECTIONS (float64) holds its parameters as NAME.weights.PARAMETER, under the names of
lab/models/recurrent_encoder_decoder.h, the ids source, target, source_lengths and target_lengths, NAME.logits of each target token,
NAME.loss (the sum of the cross-entropies, the id of padding being no class) and NAME.gradients.PARAMETER. Two pairs go through
separately, as torch's packing does not matter then.
"""

import math
import pathlib

import torch
from safetensors.torch import save_file

torch.manual_seed(20261124)
torch.set_default_dtype(torch.float64)
VOCAB, DIM, LAYERS, PADDING, START = 11, 4, 2, 10, 10
SOURCES, TARGETS = [[3, 9, 4, 0], [7, 0]], [[5, 1, 8, 2, 0], [6, 0]]
CELLS = {"rnn_tanh": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}
tensors = {}


class Model(torch.nn.Module):
    def __init__(self, kind, cell, directions):
        super().__init__()
        self.kind, self.directions = kind, directions
        self.shared = torch.nn.Embedding(VOCAB, DIM, padding_idx=PADDING)
        self.final_logits_bias = torch.nn.Parameter(torch.randn(VOCAB))
        self.encoder = torch.nn.ModuleDict(
            {"rnn": CELLS[cell](DIM, DIM // directions, LAYERS, bidirectional=directions == 2)})
        inputs = 2 * DIM if kind == "additive" else DIM
        self.decoder = torch.nn.ModuleDict({"rnn": CELLS[cell](inputs, DIM, LAYERS)})
        if kind != "fixed":
            shapes = {"additive": {"w_query": (DIM, DIM), "w_key": (DIM, DIM), "v": (DIM,)}, "dot": {},
                      "bilinear": {"w": (DIM, DIM)}}[kind]
            self.attention = torch.nn.ParameterDict({name: torch.randn(*shape) for name, shape in shapes.items()})
            self.readout = torch.nn.Linear(2 * DIM, DIM)

    def context(self, state, memory):
        own = self.attention
        if self.kind == "additive":
            scores = torch.tanh(own["w_query"] @ state + memory @ own["w_key"].T) @ own["v"]
        else:
            scores = memory @ (state @ own["w"] if self.kind == "bilinear" else state)
        return torch.softmax(scores, 0) @ memory

    def forward(self, source, target):
        embed = lambda ids: self.shared(torch.tensor(ids)) * math.sqrt(DIM)
        memory, states = self.encoder["rnn"](embed(source))
        side_by_side = lambda s: torch.cat([s[d::self.directions] for d in range(self.directions)], -1)
        states = tuple(map(side_by_side, states)) if isinstance(states, tuple) else side_by_side(states)
        rows = []
        for x in embed([START, *target[:-1]]):
            top = (states[0] if isinstance(states, tuple) else states)[-1]
            if self.kind == "additive":
                context = self.context(top, memory)
                x = torch.cat([x, context])
            out, states = self.decoder["rnn"](x[None], states)
            if self.kind in ("dot", "bilinear"):
                context = self.context(out[0], memory)
            rows.append(out[0] if self.kind == "fixed" else torch.tanh(self.readout(torch.cat([out[0], context]))))
        return torch.stack(rows) @ self.shared.weight.T + self.final_logits_bias


for kind in ("fixed", "additive", "dot", "bilinear"):
    for cell in CELLS:
        for directions in (1, 2):
            name = f"{kind}_{cell}_{directions}"
            model = Model(kind, cell, directions)
            logits = torch.cat([model(*pair) for pair in zip(SOURCES, TARGETS)])
            classes = logits.clone()
            classes[:, PADDING] = -math.inf
            loss = torch.nn.functional.cross_entropy(classes, torch.tensor(sum(TARGETS, [])), reduction="sum")
            loss.backward()
            tensors |= {f"{name}.logits": logits, f"{name}.loss": loss}
            for key, parameter in model.named_parameters():
                tensors |= {f"{name}.weights.{key}": parameter, f"{name}.gradients.{key}": parameter.grad}

tensors |= {"source": torch.tensor(sum(SOURCES, []), dtype=torch.int32),
            "target": torch.tensor(sum(TARGETS, []), dtype=torch.int32),
            "source_lengths": torch.tensor([len(s) for s in SOURCES]),
            "target_lengths": torch.tensor([len(t) for t in TARGETS])}
save_file({k: v.detach().contiguous() for k, v in tensors.items()}, pathlib.Path(__file__).with_name("seq2seq.safetensors"))
