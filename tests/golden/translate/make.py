"""Makes small Marian models, barely trained on random pairs, and what transformers 5 on torch 2.15 makes of them.

    python make.py

NAME/            a folder as MarianMTModel.save_pretrained writes it
NAME.json        sources (ids); targets (ids, without the start token); per source: greedy, beams (4, with score and all
                 hypotheses), generated ids without the start token; options of the generation
NAME.safetensors logits [target tokens, vocab]: of each target, its tokens shifted right, behind its source; float32
Every sequence is computed alone, so that nothing is padded.
"""

import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig, MarianConfig, MarianMTModel

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

SHAPES = {
    "relu": dict(vocab_size=41, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                 decoder_attention_heads=4, encoder_ffn_dim=24, decoder_ffn_dim=20, activation_function="relu",
                 scale_embedding=True),
    "swish": dict(vocab_size=33, d_model=12, encoder_layers=1, decoder_layers=3, encoder_attention_heads=3,
                  decoder_attention_heads=3, encoder_ffn_dim=8, decoder_ffn_dim=28, activation_function="swish",
                  scale_embedding=False),
    "gelu": dict(vocab_size=50, d_model=20, encoder_layers=3, decoder_layers=1, encoder_attention_heads=5,
                 decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32, activation_function="gelu",
                 scale_embedding=True),
}


def generated(model, source, **options):
    out = model.generate(torch.tensor([source]), **options)
    sequences = out.sequences if hasattr(out, "sequences") else out
    rows = []
    pad = model.config.pad_token_id
    for row in sequences.tolist():
        assert row[0] == pad
        row = row[1:]
        while row and row[-1] == pad:
            row.pop()
        rows.append(row)
    return out, rows


def learn(model, sources, targets, steps=200):
    """Some steps towards these pairs: without them most random models write one token for ever."""
    pad = model.config.pad_token_id
    ids, labels = (torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, pad)
                   for rows in (sources, targets))
    adam = torch.optim.Adam(model.parameters(), lr=0.02)
    with torch.enable_grad():
        for _ in range(steps):
            loss = model(input_ids=ids, attention_mask=(ids != pad).long(),
                         labels=labels.masked_fill(labels == pad, -100)).loss
            adam.zero_grad()
            loss.backward()
            adam.step()
    print("loss", loss.item())


@torch.no_grad()
def make(name, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    vocab = shape["vocab_size"]
    config = MarianConfig(max_position_embeddings=32, pad_token_id=vocab - 1, eos_token_id=0, forced_eos_token_id=0,
                          decoder_start_token_id=vocab - 1, dropout=0.0, tie_word_embeddings=True, **shape)
    model = MarianMTModel(config).eval()
    for key, parameter in model.named_parameters():
        if "embed_positions" in key:
            continue
        parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
        if "layer_norm.weight" in key:
            parameter.add_(1)
    sources = [torch.randint(1, vocab - 1, (n,), generator=generator).tolist() + [0] for n in (1, 2, 3, 5, 8, 13, 0, 21)]
    targets = [torch.randint(1, vocab - 1, (n,), generator=generator).tolist() + [0] for n in (4, 1, 0, 7, 2, 12, 3, 9)]
    learn(model, sources, targets)
    for key, tensor in list(model.named_parameters()) + [("bias", model.final_logits_bias)]:
        if "embed_positions" not in key:
            tensor.copy_(tensor.bfloat16().float())
    model.final_logits_bias.copy_((0.1 * torch.randn(1, vocab, generator=generator)).bfloat16().float())
    model.model.shared.weight[vocab - 1] = 0
    model.generation_config = GenerationConfig(
        pad_token_id=vocab - 1, eos_token_id=0, forced_eos_token_id=0, decoder_start_token_id=vocab - 1,
        bad_words_ids=[[vocab - 1]], num_beams=4, max_length=512, length_penalty=1.0)
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)

    logits, greedy, beams = [], [], []
    for source, target in zip(sources, targets):
        shifted = [vocab - 1] + target[:-1]
        logits.append(model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([shifted])).logits[0])
        greedy.append(generated(model, source, max_new_tokens=14, num_beams=1)[1][0])
        out, rows = generated(model, source, max_new_tokens=14, num_beams=4, num_return_sequences=4,
                              return_dict_in_generate=True, output_scores=True)
        beams.append({"tokens": rows, "scores": out.sequences_scores.tolist()})
    save_file({"logits": torch.cat(logits).contiguous()}, here / f"{name}.safetensors")
    (here / f"{name}.json").write_text(json.dumps(
        {"sources": sources, "targets": targets, "max_new_tokens": 14, "greedy": greedy, "beams": beams}, indent=1) + "\n")
    print(name, greedy, [b["tokens"][0] for b in beams])


for number, (name, shape) in enumerate(SHAPES.items()):
    make(name, shape, 20261121 + number)
