"""Makes a model for masked words of the tokenizer and encoder of golden/rank and a head of random weights, and expected.json:
what transformers' fill-mask pipeline says of texts."""

import json
import pathlib
import shutil

import torch
import transformers

here = pathlib.Path(__file__).parent
rank = here.parent / "rank"
assert torch.__version__.startswith("2.15"), torch.__version__

generator = torch.Generator().manual_seed(20261130)
model = transformers.BertForMaskedLM.from_pretrained(rank).eval()
head = {k: v for k, v in model.named_parameters() if k.startswith("cls.")}
with torch.no_grad():
    for parameter in head.values():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
model.save_pretrained(here)
(here / "generation_config.json").unlink(missing_ok=True)
shutil.copy(rank / "tokenizer.json", here)
pipe = transformers.pipeline("fill-mask", model=model, tokenizer=transformers.AutoTokenizer.from_pretrained(rank), device="cpu")
expected = []
for text in ("The [MASK] sat on the mat.", "[MASK]", "who[MASK]?", "The [MASK] sat on the [MASK]."):
    found = pipe(text)
    expected.append({"text": text, "masks": found if isinstance(found[0], list) else [found]})
(here / "expected.json").write_text(json.dumps(expected) + "\n", encoding="ascii")
