"""Makes what transformers' token-classification pipeline says of texts, by every aggregation strategy: the tokenizer and
encoder of golden/rank with a head of random weights, as a folder here; and heads for the folders of golden/encoders that
have a tokenizer, in heads.safetensors. expected.json has the answers by kind and strategy."""

import json
import pathlib
import shutil
import warnings

import torch
import transformers
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
golden = here.parent
assert torch.__version__.startswith("2.15"), torch.__version__
warnings.filterwarnings("ignore", "Tokenizer does not support real words")

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "NUM"]
TEXTS = ["The cat sat on the mat.", "cats dogs ran where?", "Somebody sat; A dogs cats!", "", "caf\u00e9 \u4f60\u597d cats the cats",
         "one two  one two fill here", "the the the the the the the the the the the the the the the the the cats"]
generator = torch.Generator().manual_seed(20261203)
heads, expected = {}, []
for kind, folder, name in (("bert", "rank", "Bert"), ("roberta", "encoders/roberta", "Roberta"), ("mpnet", "encoders/mpnet", "MPNet"),
                           ("xlm_roberta", "encoders/xlm_roberta", "XLMRoberta")):
    config = getattr(transformers, name + "Config").from_pretrained(golden / folder, num_labels=len(LABELS),
                                                                   id2label=dict(enumerate(LABELS)))
    model = getattr(transformers, name + "ForTokenClassification").from_pretrained(
        golden / folder, config=config, ignore_mismatched_sizes=True).eval()
    model.classifier.weight.data = torch.randn(len(LABELS), 12, generator=generator)
    model.classifier.bias.data = torch.zeros(len(LABELS))
    if kind == "bert":
        tokenizer = transformers.AutoTokenizer.from_pretrained(golden / folder)
    else:
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(golden / folder / "tokenizer.json"), 
                                                         unk_token="[UNK]" if kind == "mpnet" else "<unk>")
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    # So that every label is found: no logit is above the others for all tokens.
    with torch.no_grad():
        logits = [model(torch.tensor([tokenizer(text)["input_ids"]])).logits[0] for text in TEXTS[:3]]
        model.classifier.bias.data = -torch.cat(logits).mean(0)
    if kind == "bert":
        model.save_pretrained(here)
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(golden / folder / file, here)
    heads |= {f"{kind}/{key}": value.detach().clone() for key, value in model.classifier.state_dict(prefix="classifier.").items()}
    for strategy in ("none", "simple", "first", "average", "max"):
        pipe = transformers.pipeline("token-classification", model=model, tokenizer=tokenizer, device="cpu", aggregation_strategy=strategy)
        for text in TEXTS if kind == "bert" else TEXTS[:-1]:
            found = [{"label": each.get("entity_group", each.get("entity")), "score": float(each["score"]), "word": each["word"],
                      "start": each["start"], "end": each["end"]} for each in pipe(text)]
            expected.append({"kind": kind, "strategy": strategy, "text": text, "found": found})
save_file(heads, here / "heads.safetensors")
(here / "expected.json").write_text(json.dumps(expected) + "\n", encoding="ascii")
