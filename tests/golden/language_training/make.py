"""Makes what torch 2.15 in double says of 20 steps of Adam on small decoder-only models of transformers 5.

    python make.py

NAME/              a folder as save_pretrained writes it
NAME.safetensors   a ragged batch (ids, offsets); losses [20], the mean over what follows each token of each sequence, each
                   before its step; and gradients of the first loss under the names of qkv/models/language_model.h
Every sequence is computed alone, so that nothing is padded and none sees another.
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

STEPS, RATE = 20, 0.01
LENGTHS = [9, 1, 14, 6]
CASES = {
    "llama": LlamaConfig(vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=4, max_position_embeddings=32, tie_word_embeddings=True,
                         rms_norm_eps=1e-5, bos_token_id=0, eos_token_id=0, pad_token_id=29),
    "gpt2": GPT2Config(vocab_size=30, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
                       resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
}


def ours(name, theirs):
    """Gradients under our names."""
    found = {}
    if name == "llama":
        found["embeddings.weight"] = theirs["model.embed_tokens.weight"]
        found["norm.weight"] = theirs["model.norm.weight"]
        for i in range(2):
            at, to = f"model.layers.{i}.", f"layers.{i}."
            found[to + "self_attn.in_proj_weight"] = torch.cat(
                [theirs[f"{at}self_attn.{part}_proj.weight"] for part in "qkv"])
            found[to + "self_attn.out_proj.weight"] = theirs[at + "self_attn.o_proj.weight"]
            for part, mine in (("gate", "linear1"), ("down", "linear2"), ("up", "linear3")):
                found[f"{to}{mine}.weight"] = theirs[f"{at}mlp.{part}_proj.weight"]
            found[to + "norm1.weight"] = theirs[at + "input_layernorm.weight"]
            found[to + "norm2.weight"] = theirs[at + "post_attention_layernorm.weight"]
        return found
    found["embeddings.weight"] = theirs["transformer.wte.weight"]
    found["positions.weight"] = theirs["transformer.wpe.weight"]
    for kind in ("weight", "bias"):
        found[f"norm.{kind}"] = theirs[f"transformer.ln_f.{kind}"]
        turned = (lambda x: x.T) if kind == "weight" else (lambda x: x)
        for i in range(2):
            at, to = f"transformer.h.{i}.", f"layers.{i}."
            found[f"{to}self_attn.in_proj_{kind}"] = turned(theirs[f"{at}attn.c_attn.{kind}"])
            found[f"{to}self_attn.out_proj.{kind}"] = turned(theirs[f"{at}attn.c_proj.{kind}"])
            found[f"{to}linear1.{kind}"] = turned(theirs[f"{at}mlp.c_fc.{kind}"])
            found[f"{to}linear2.{kind}"] = turned(theirs[f"{at}mlp.c_proj.{kind}"])
            found[f"{to}norm1.{kind}"] = theirs[f"{at}ln_1.{kind}"]
            found[f"{to}norm2.{kind}"] = theirs[f"{at}ln_2.{kind}"]
    return found


for name, config in CASES.items():
    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape)
    model.tie_weights()
    model.eval().save_pretrained(here / name)
    for file in (here / name).iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            file.unlink()
    model = model.double()
    sequences = [torch.randint(0, 30, (1, length + 1)) for length in LENGTHS]
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9)
    losses, gradients = [], None
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0
        for sequence in sequences:
            logits = model(sequence[:, :-1]).logits[0]
            loss = loss + torch.nn.functional.cross_entropy(logits, sequence[0, 1:], reduction="sum")
        loss = loss / sum(LENGTHS)
        loss.backward()
        losses.append(loss.item())
        if gradients is None:
            gradients = ours(name, {key: value.grad.clone() for key, value in model.named_parameters()})
        optimizer.step()
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0)
    save_file({"ids": torch.cat([s[0, :-1] for s in sequences]).int(),
               "targets": torch.cat([s[0, 1:] for s in sequences]).int(),
               "offsets": offsets.int(), "losses": torch.tensor(losses, dtype=torch.float64),
               **{f"gradient.{key}": value.float().contiguous() for key, value in gradients.items()}},
              here / f"{name}.safetensors")
    print(name, losses[0], losses[-1])
