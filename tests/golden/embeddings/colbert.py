"""Writes colbert.json: what a folder of ColBERT's own class HF_ColBERT says of texts, in torch 2.15 as the code of ColBERT v2 has it
(colbert/modeling/tokenization and colbert/modeling/colbert.py): the encoder is that of model.safetensors, linear.weight that of
projection.safetensors, and config and tokenizer are those of golden/fill, whose words "who" and "dog" mark queries and
documents.

python3 colbert.py; needs transformers and torch.
"""

import json
import pathlib
import string

import torch
import transformers
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
FILL = HERE.parent / "fill"
TEXTS = ["The cat sat on the mat.", "who?", "The dog sat. Who sat on the mat? The cat.", "mat mat", ""]
METADATA = {"dim": 5, "query_maxlen": 9, "doc_maxlen": 11, "mask_punctuation": True, "attend_to_mask_tokens": False,
            "query_token_id": "who", "doc_token_id": "dog", "similarity": "cosine", "interaction": "colbert", "nbits": 2}

tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(FILL / "tokenizer.json"), pad_token="[PAD]", mask_token="[MASK]")
config = transformers.BertConfig.from_pretrained(FILL)
bert = transformers.BertModel(config, add_pooling_layer=False).eval()
weights = load_file(HERE / "model.safetensors")
bert.load_state_dict({name[5:]: value for name, value in weights.items() if name.startswith("bert.")})
linear = load_file(HERE / "projection.safetensors")["linear.weight"]
skipped = {tokenizer.encode(mark, add_special_tokens=False)[0] for mark in string.punctuation}
pad, mask = tokenizer.pad_token_id, tokenizer.mask_token_id


def vectors(ids, attention):
    with torch.no_grad():
        rows = bert(input_ids=ids, attention_mask=attention)[0] @ linear.T
    return torch.nn.functional.normalize(rows, p=2, dim=2)


def queries(texts, metadata):
    length = metadata["query_maxlen"]
    found = tokenizer([". " + text for text in texts], padding="max_length", truncation=True, max_length=length, return_tensors="pt")
    ids, attention = found["input_ids"], found["attention_mask"]
    ids[:, 1] = tokenizer.convert_tokens_to_ids(metadata["query_token_id"])
    ids[ids == pad] = mask
    if metadata["attend_to_mask_tokens"]:
        attention[ids == mask] = 1
    return [rows.tolist() for rows in vectors(ids, attention)]


def documents(texts, metadata):
    found = tokenizer([". " + text for text in texts], padding="longest", truncation=True, max_length=metadata["doc_maxlen"],
                      return_tensors="pt")
    ids, attention = found["input_ids"], found["attention_mask"]
    ids[:, 1] = tokenizer.convert_tokens_to_ids(metadata["doc_token_id"])
    without = skipped if metadata["mask_punctuation"] else set()
    kept = [[each not in without and each != pad for each in row] for row in ids.tolist()]
    return [rows[torch.tensor(keep)].tolist() for rows, keep in zip(vectors(ids, attention), kept)]


cases = []
for change in ({}, {"attend_to_mask_tokens": True, "mask_punctuation": False}):
    metadata = METADATA | change
    cases.append({"metadata": metadata, "query": queries(TEXTS, metadata), "document": documents(TEXTS, metadata)})
(HERE / "colbert.json").write_text(json.dumps({"texts": TEXTS, "cases": cases}) + "\n", encoding="ascii")
