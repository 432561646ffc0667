"""Makes expected.json: what transformers' fill-mask pipeline says of texts with the tokenizer and encoder of golden/rank and
a head for masked words of random weights, which are in head.safetensors."""

import json
import pathlib

import torch
import transformers
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
rank = here.parent / "rank"
assert torch.__version__.startswith("2.15"), torch.__version__

generator = torch.Generator().manual_seed(20261130)
model = transformers.BertForMaskedLM.from_pretrained(rank).eval()
head = {k: v for k, v in model.named_parameters() if k.startswith("cls.")}
with torch.no_grad():
    for parameter in head.values():
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
save_file({k: v.detach().clone() for k, v in head.items()}, here / "head.safetensors")
pipe = transformers.pipeline("fill-mask", model=model, tokenizer=transformers.AutoTokenizer.from_pretrained(rank), device="cpu")
expected = []
for text in ("The [MASK] sat on the mat.", "[MASK]", "who[MASK]?", "The [MASK] sat on the [MASK]."):
    found = pipe(text)
    expected.append({"text": text, "masks": found if isinstance(found[0], list) else [found]})
(here / "expected.json").write_text(json.dumps(expected) + "\n", encoding="ascii")
