"""What transformers 5 on torch 2.15 generates from the folders beside it under other settings of generation_config.json.

    python searches.py

searches.json    per model: sources (ids) and cases; per case: settings, which stand in for those of the folder's own
                 generation_config.json, and per source tokens and scores of all beams, or of the greedy sequence where num_beams
                 is 1: the sum of its tokens' log-probabilities over length to the power of length_penalty
Every sequence is computed alone, so that nothing is padded.
"""

import json
import pathlib

import torch
from transformers import AutoModelForSeq2SeqLM, GenerationConfig

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
MODELS = ["relu", "swish", "gelu", "bart", "bart_scaled"]
SOURCES = [3, 5, 7]  # of NAME.json
NEW_TOKENS = 14


def cases(start, end, often):
    """Of a model that writes the tokens `often` most."""
    a, b, c = often
    yield from (dict(num_beams=beams) for beams in (2, 5, 7))
    yield from (dict(num_beams=4, length_penalty=penalty) for penalty in (-1.0, 0.0, 2.0))
    for beams in (1, 4):
        yield dict(num_beams=beams, renormalize_logits=True)
        yield dict(num_beams=beams, renormalize_logits=True, bad_words_ids=[[a], [b, c], [end]], min_length=4)
        yield dict(num_beams=beams, eos_token_id=[end, b])
        yield dict(num_beams=beams, eos_token_id=[b, end, c], min_length=5, forced_eos_token_id=b)
        yield dict(num_beams=beams, repetition_penalty=1.3)
        yield dict(num_beams=beams, repetition_penalty=0.7, renormalize_logits=True, no_repeat_ngram_size=3)
        yield dict(num_beams=beams, bad_words_ids=[[a, a], [start, b], [a, b, a], [b, b, b, b]])
    for penalty in (-1.0, 0.0, 0.5, 2.0):
        yield from (dict(num_beams=3, length_penalty=penalty, early_stopping=early) for early in ("never", True, False))


@torch.no_grad()
def generated(model, config, source):
    out = model.generate(torch.tensor([source]), generation_config=config, num_return_sequences=config.num_beams,
                         max_new_tokens=NEW_TOKENS, return_dict_in_generate=True, output_scores=True, output_logits=True)
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    rows = []
    for row in out.sequences.tolist():
        row = row[1:]
        length = next((i + 1 for i, token in enumerate(row) if token in ends), len(row))
        assert set(row[length:]) <= {config.pad_token_id}
        rows.append(row[:length])
    if config.num_beams > 1:
        return {"tokens": rows, "scores": [round(score, 6) for score in out.sequences_scores.tolist()]}
    total = 0.0
    for token, scores, logits in zip(rows[0], out.scores, out.logits):
        scores, logits = scores[0].double(), logits[0].double()
        if scores.isfinite().sum() > 1:  # else the token is forced
            total += (scores[token] - (0 if config.renormalize_logits else logits.logsumexp(0))).item()
    return {"tokens": rows, "scores": [round(total / len(rows[0]) ** config.length_penalty, 6)]}


result = {}
for name in MODELS:
    model = AutoModelForSeq2SeqLM.from_pretrained(here / name, dtype=torch.float32).eval()
    golden = json.loads((here / f"{name}.json").read_text())
    sources = [golden["sources"][i] for i in SOURCES]
    written = [token for row in golden["greedy"] for token in row if token != model.config.eos_token_id]
    often = sorted(set(written), key=lambda token: (-written.count(token), token))[:3]
    result[name] = {"sources": sources, "max_new_tokens": NEW_TOKENS, "cases": []}
    for settings in cases(model.config.decoder_start_token_id, model.config.eos_token_id, often):
        config = GenerationConfig.from_pretrained(here / name, **settings)
        config.max_length = None
        found = [generated(model, config, source) for source in sources]
        result[name]["cases"].append({"settings": settings, "found": found})
        print(name, settings, [one["tokens"][0] for one in found], [one["scores"][0] for one in found])

lines = ",\n".join(
    f'"{name}": {{"sources": {json.dumps(one["sources"])}, "max_new_tokens": {one["max_new_tokens"]}, "cases": [\n'
    + ",\n".join(json.dumps(case, separators=(",", ":")) for case in one["cases"]) + "\n]}" for name, one in result.items())
(here / "searches.json").write_text("{" + lines + "}\n")
