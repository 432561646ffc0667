"""Makes expected.json: what transformers' text-classification pipeline says of texts with the tokenizer and encoder of
golden/rank and a head of three labels, or one, of random weights, which are in heads.safetensors; by number of labels and
problem_type."""

import json
import pathlib
import tempfile

import torch
import transformers
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
rank = here.parent / "rank"
assert torch.__version__.startswith("2.15"), torch.__version__

TEXTS = ["The cat sat on the mat.", "A dog ran.", "where?", "Somebody."]
generator = torch.Generator().manual_seed(20261129)
heads, expected = {}, []
for labels in (["cat", "dog", "caf\u00e9"], ["cat"]):
    count = len(labels)
    heads |= {f"{count}/classifier.weight": torch.randn(count, 12, generator=generator),
              f"{count}/classifier.bias": torch.randn(count, generator=generator)}
    for problem in (None, "single_label_classification", "multi_label_classification", "regression"):
        config = transformers.BertConfig.from_pretrained(rank, num_labels=count, id2label=dict(enumerate(labels)), problem_type=problem)
        model = transformers.BertForSequenceClassification.from_pretrained(rank, config=config, ignore_mismatched_sizes=True)
        with torch.no_grad():
            model.classifier.weight.copy_(heads[f"{count}/classifier.weight"])
            model.classifier.bias.copy_(heads[f"{count}/classifier.bias"])
        tokenizer = transformers.AutoTokenizer.from_pretrained(rank)
        pipe = transformers.pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")
        for text in TEXTS:
            expected.append({"labels": labels, "problem_type": problem, "text": text, "classes": pipe(text, top_k=None)})
save_file(heads, here / "heads.safetensors")
(here / "expected.json").write_text(json.dumps(expected) + "\n", encoding="ascii")
