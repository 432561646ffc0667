"""Makes judged.json: what torch 2.15 in double says of the outputs of heads, of transformers' models by eager attention.

    python judged.py

Of each output its value; by how much that falls if a token is hidden by the attention mask, one after the other; and of each
token (as a key) the gradient of the value with respect to the weights of attention times the weights, summed over layers,
heads and queries. Encoders, heads and tokenizers are those of other golden folders; ids stand here for those that the folder's
tokenizer makes of the texts, which the tests compare.
"""

import json
import pathlib

import torch
import transformers
from safetensors.torch import load_file

here = pathlib.Path(__file__).parent
golden = here.parent
assert torch.__version__.startswith("2.15"), torch.__version__
LABELS = {"single_label_classification": "cat", "multi_label_classification": "dog", "regression": "caf\u00e9"}


def opened(kind, folder, **config):
    own = transformers.AutoConfig.from_pretrained(golden / folder, attn_implementation="eager", **config)
    model = getattr(transformers, kind).from_pretrained(golden / folder, config=own, ignore_mismatched_sizes=True)
    return model.double().eval()


def with_head(model, heads, prefix):
    weights = {name[len(prefix):]: value for name, value in load_file(golden / heads).items() if name.startswith(prefix)}
    missing, unexpected = model.load_state_dict(weights, strict=False)
    assert not unexpected and weights
    return model.double()


def inputs_of(ids, types):
    inputs = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    return inputs | ({"token_type_ids": torch.tensor([types])} if types else {})


def measured(model, ids, types, value):
    inputs = inputs_of(ids, types)
    found = model(**inputs, output_attentions=True)
    for weights in found.attentions:
        weights.retain_grad()
    whole = value(found)
    whole.backward()
    gradient = sum((weights.grad * weights)[0].sum((0, 1)) for weights in found.attentions)
    knock_out = []
    with torch.no_grad():
        for token in range(len(ids)):
            inputs["attention_mask"] = torch.ones(1, len(ids), dtype=torch.long)
            inputs["attention_mask"][0, token] = 0
            knock_out.append((whole - value(model(**inputs))).item())
    model.zero_grad()
    return {"value": whole.item(), "gradient": gradient.tolist(), "knock_out": knock_out}


def label_at(row, label):
    return lambda found: (found.logits[0] if row is None else found.logits[0, row]).log_softmax(-1)[label]


def tokens_of(folder, *texts):
    encoded = transformers.PreTrainedTokenizerFast(tokenizer_file=str(golden / folder / "tokenizer.json"))(*texts, return_token_type_ids=True)
    return encoded["input_ids"], encoded["token_type_ids"]


class OverAll:
    """A ModernBERT whose mean is over all tokens: what is hidden from attention is no less there."""

    def __init__(self, model):
        self.model, self.zero_grad = model, model.zero_grad

    def __call__(self, **inputs):
        found = self.model.model(**inputs)
        found.logits = self.model.classifier(self.model.head(found.last_hidden_state.mean(1)))
        return found


cases = []


def add(name, task, texts, ids, types, model, values):
    outputs = [{"name": said} | measured(model, ids, types, value) for said, value in values]
    cases.append({"name": name, "task": task, "texts": texts, "ids": ids, "outputs": outputs})
    print(name, [(one["name"], round(one["value"], 3)) for one in outputs])


def tags(kind, model, text, ids, types):
    with torch.no_grad():
        best = model(**inputs_of(ids, types)).logits[0].argmax(-1)
    tokens = transformers.PreTrainedTokenizerFast(tokenizer_file=str(golden / FOLDERS[kind] / "tokenizer.json"))(
        text, return_special_tokens_mask=True)["special_tokens_mask"]
    names = [(i, best[i].item()) for i in range(len(ids)) if not tokens[i] and model.config.id2label[best[i].item()] != "O"]
    add(kind, "tag", [text], ids, types, model, [(model.config.id2label[label], label_at(row, label)) for row, label in names])


FOLDERS = {"bert": "tags", "roberta": "encoders/roberta", "mpnet": "encoders/mpnet"}
TEXT = "cats dogs ran where?"
TAGS = {int(id): label for id, label in json.loads((golden / "tags/config.json").read_text())["id2label"].items()}
for kind, of in (("bert", "Bert"), ("roberta", "Roberta"), ("mpnet", "MPNet")):
    ids, types = tokens_of(FOLDERS[kind], TEXT)
    model = opened(of + "ForTokenClassification", FOLDERS[kind], id2label=TAGS, num_labels=len(TAGS))
    if kind != "bert":
        with_head(model, "tags/heads.safetensors", kind + "/")
    tags(kind, model, TEXT, ids, types if kind == "bert" else None)

for problem, label in LABELS.items():
    names = ["cat", "dog", "caf\u00e9"]
    at = names.index(label)
    model = with_head(opened("BertForSequenceClassification", "rank", num_labels=3), "text_classes/heads.safetensors", "3/")
    said = {"single_label_classification": label_at(None, at),
            "multi_label_classification": lambda found, at=at: torch.nn.functional.logsigmoid(found.logits[0, at]),
            "regression": lambda found, at=at: found.logits[0, at]}[problem]
    for texts in (["The cat sat on the mat."], ["A dog ran.", "where?"]):
        add(problem, "classify", texts, *tokens_of("rank", *texts), model, [(label, said)])

PAIR = ["Who sat on the mat?", "The cat sat."]
add("rank", "rank", PAIR, *tokens_of("rank", *PAIR), opened("BertForSequenceClassification", "rank"),
    [("score", lambda found: found.logits[0, 0])])

MASKED = "The [MASK] sat on the [MASK]."
ids, types = tokens_of("fill", MASKED)
mask = transformers.PreTrainedTokenizerFast(tokenizer_file=str(golden / "fill/tokenizer.json")).convert_tokens_to_ids("[MASK]")
model = opened("BertForMaskedLM", "fill")
tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(golden / "fill/tokenizer.json"))
with torch.no_grad():
    best = model(**inputs_of(ids, types)).logits[0].argmax(-1)
rows = [i for i, each in enumerate(ids) if each == mask]
add("fill", "fill", [MASKED], ids, types, model,
    [(tokenizer.decode([best[row].item()]), label_at(row, best[row].item())) for row in rows])

QUESTION = ["Who sat on the mat?", "The cat sat on the mat."]
ids, types = tokens_of("answers", *QUESTION)
model = opened("BertForQuestionAnswering", "answers")
context = [i for i, kind in enumerate(types) if kind == 1][:-1]  # without the end
rows = context + [0]


def answer(first, last):
    def value(found):
        begin, end = (logits[0, rows].log_softmax(-1) for logits in (found.start_logits, found.end_logits))
        return begin[first] + end[last]
    return value


with torch.no_grad():
    found = model(**inputs_of(ids, types))
    values = {(a, b): answer(a, b)(found).item() for a in range(len(context)) for b in range(a, min(len(context), a + 15))}
first, last = max(values, key=values.get)
add("answers", "answer", QUESTION, ids, types, model, [(f"{first} {last}", answer(first, last))])

# Of words w0 to w6, whose ids begin at 4, between 2 and 3.
for kind, name in (("albert", "AlbertForSequenceClassification"), ("modernbert", "ModernBertForSequenceClassification")):
    ids = [2, 4, 7, 9, 6, 6, 10, 3]
    model = opened(name, f"text_training/{kind}")
    model = OverAll(model) if kind == "modernbert" else model
    types = [0] * len(ids) if kind == "albert" else None
    with torch.no_grad():
        best = model(**inputs_of(ids, types)).logits[0].argmax(-1).item()
    add(kind, "words", [" ".join(f"w{each - 4}" for each in ids[1:-1])], ids, types, model, [(f"LABEL_{best}", label_at(None, best))])

(here / "judged.json").write_text(json.dumps(cases) + "\n", encoding="ascii")
