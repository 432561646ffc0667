"""Makes small Marian and BART models, barely trained on random pairs, and what transformers 5 on torch 2.15 makes of them.

    python make.py [NAME...]

NAME/            a folder as save_pretrained writes it
NAME.json        sources (ids); targets (ids, without the start token); per source: greedy, beams (4, with score and all
                 hypotheses), generated ids without the start token; options of the generation
Every sequence is computed alone, so that nothing is padded.
"""

import json
import pathlib
import shutil
import sys

import torch
from transformers import (BartConfig, BartForConditionalGeneration, GenerationConfig, MarianConfig,
                          MarianMTModel)

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
    "bart": dict(vocab_size=38, d_model=12, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2,
                 decoder_attention_heads=3, encoder_ffn_dim=20, decoder_ffn_dim=16, activation_function="gelu",
                 scale_embedding=False, forced_bos_token_id=0),
    "bart_scaled": dict(vocab_size=31, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=4,
                        decoder_attention_heads=2, encoder_ffn_dim=12, decoder_ffn_dim=24, activation_function="relu",
                        scale_embedding=True),
}
# As the generation_config.json of BART's own folders has them.
GENERATION = {"bart": dict(forced_bos_token_id=0, no_repeat_ngram_size=2, min_length=6, early_stopping=True)}


def generated(model, source, **options):
    out = model.generate(torch.tensor([source]), **options)
    sequences = out.sequences if hasattr(out, "sequences") else out
    rows = []
    pad = model.config.pad_token_id
    for row in sequences.tolist():
        assert row[0] == model.config.decoder_start_token_id
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
    bart = name.startswith("bart")
    pad, end, start = (1, 2, 2) if bart else (vocab - 1, 0, vocab - 1)
    special = dict(pad_token_id=pad, eos_token_id=end, forced_eos_token_id=end, decoder_start_token_id=start)
    config = (BartConfig if bart else MarianConfig)(max_position_embeddings=32, dropout=0.0, tie_word_embeddings=True,
                                                    **special, **shape)
    model = (BartForConditionalGeneration if bart else MarianMTModel)(config).eval()
    words, first = ((3, vocab), [0]) if bart else ((1, vocab - 1), [])
    for key, parameter in model.named_parameters():
        if "embed_positions" in key and not bart:
            continue
        parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
        if "norm" in key and "weight" in key:
            parameter.add_(1)
    sources = [first + torch.randint(*words, (n,), generator=generator).tolist() + [end] for n in (1, 2, 3, 5, 8, 13, 0, 21)]
    targets = [first + torch.randint(*words, (n,), generator=generator).tolist() + [end] for n in (4, 1, 0, 7, 2, 12, 3, 9)]
    learn(model, sources, targets)
    for key, tensor in list(model.named_parameters()) + [("bias", model.final_logits_bias)]:
        if "embed_positions" not in key or bart:
            tensor.copy_(tensor.bfloat16().float())
    model.final_logits_bias.copy_((0.1 * torch.randn(1, vocab, generator=generator)).bfloat16().float())
    if not bart:
        model.model.shared.weight[pad] = 0
    own = GENERATION.get(name, {} if bart else dict(bad_words_ids=[[pad]]))
    model.generation_config = GenerationConfig(num_beams=4, max_length=512, length_penalty=1.0, **special, **own)
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)

    greedy, beams = [], []
    for source in sources:
        greedy.append(generated(model, source, max_new_tokens=14, num_beams=1)[1][0])
        out, rows = generated(model, source, max_new_tokens=14, num_beams=4, num_return_sequences=4,
                              return_dict_in_generate=True, output_scores=True)
        beams.append({"tokens": rows, "scores": out.sequences_scores.tolist()})
    (here / f"{name}.json").write_text(json.dumps(
        {"sources": sources, "targets": targets, "max_new_tokens": 14, "greedy": greedy, "beams": beams}, indent=1) + "\n")
    print(name, greedy, [b["tokens"][0] for b in beams])


for number, (name, shape) in enumerate(SHAPES.items()):
    if sys.argv[1:] and name not in sys.argv[1:]:
        continue
    make(name, shape, 20261121 + number)
