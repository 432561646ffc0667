"""Makes recurrent.safetensors: torch.nn.RNN, LSTM and GRU, forward and backward.

    python make.py        (needs torch 2.15 and safetensors)

Every case NAME (rnn_tanh, rnn_relu, lstm, gru; _1: one layer, one direction, no biases; _2: two layers, two directions; float64)
holds the ragged input NAME.x [tokens, in], NAME.lengths, the initial states NAME.h and NAME.c, NAME.out, the last states
NAME.h_n and NAME.c_n, random gradients of these three (NAME.grad_out, ...), the gradients that reach the input and the
initial states (NAME.grad_x, NAME.grad_h, NAME.grad_c), and of every PARAMETER NAME.weights.PARAMETER and
NAME.gradients.PARAMETER. Lengths are at least 1, as torch demands.
"""

import pathlib

import torch
from safetensors.torch import save_file
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

torch.manual_seed(20261123)
torch.set_default_dtype(torch.float64)
tensors = {}
SIZE, HIDDEN, LENGTHS = 3, 5, [4, 1, 7, 2]


def run(name, model, both):
    count, lstm = 4 if both else 1, isinstance(model, torch.nn.LSTM)
    x = torch.randn(sum(LENGTHS), SIZE, requires_grad=True)
    states = [torch.randn(count, len(LENGTHS), HIDDEN, requires_grad=True) for _ in range(2 if lstm else 1)]
    packed = pack_sequence(torch.split(x, LENGTHS), enforce_sorted=False)
    out, last = model(packed, tuple(states) if lstm else states[0])
    last = list(last) if lstm else [last]
    results = [torch.cat(unpack_sequence(out)), *last]
    gradients = [torch.randn_like(result) for result in results]
    torch.autograd.backward(results, gradients)
    put = {"x": x, "lengths": torch.tensor(LENGTHS), "grad_x": x.grad}
    for part, state in zip("hc", states):
        put |= {part: state, f"grad_{part}": state.grad}
    for part, result, gradient in zip(("out", "h_n", "c_n"), results, gradients):
        put |= {part: result, f"grad_{part}": gradient}
    for part, parameter in model.named_parameters():
        put |= {f"weights.{part}": parameter, f"gradients.{part}": parameter.grad}
    tensors.update({f"{name}.{part}": value.detach().clone().contiguous() for part, value in put.items()})


for name, kind, options in (("rnn_tanh", torch.nn.RNN, {}), ("rnn_relu", torch.nn.RNN, {"nonlinearity": "relu"}),
                            ("lstm", torch.nn.LSTM, {}), ("gru", torch.nn.GRU, {})):
    run(name + "_1", kind(SIZE, HIDDEN, bias=False, **options), False)
    run(name + "_2", kind(SIZE, HIDDEN, num_layers=2, bidirectional=True, **options), True)
save_file(tensors, pathlib.Path(__file__).with_name("recurrent.safetensors"))
