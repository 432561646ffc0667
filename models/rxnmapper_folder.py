"""Makes a folder with rxnmapper's pytorch_model.bin and vocab.txt one of transformers' AlbertForMaskedLM, and says so.

    python models/rxnmapper_folder.py FOLDER

The package cuts reactions (SMILES) into tokens by a regular expression of its own, which no tokenizer.json says. The one that
is written here takes them with spaces between: "C C ( = O ) O".
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file

folder = pathlib.Path(sys.argv[1])
tensors = torch.load(folder / "pytorch_model.bin", map_location="cpu", weights_only=True)
for tied, name in ("predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"), ("predictions.decoder.bias", "predictions.bias"):
    if not torch.equal(tensors.pop(tied), tensors[name]):
        raise SystemExit(f"{tied} is not {name}")
save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors", metadata={"format": "pt"})

vocab = {word: number for number, word in enumerate((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())}
special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
token = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
tokenizer = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [{"id": vocab[word], "content": word, **token} for word in special],
    "normalizer": None,
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", vocab["[SEP]"]], "cls": ["[CLS]", vocab["[CLS]"]]},
    "decoder": None,
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocab,
    },
}
(folder / "tokenizer.json").write_text(json.dumps(tokenizer) + "\n", encoding="utf-8")
numbers = sum(tensor.numel() for tensor in tensors.values())
print(f"rxnmapper: {len(tensors)} tensors, {numbers / 1e6:.2f} million numbers", file=sys.stderr)
