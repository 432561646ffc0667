"""A training that takes seconds: its config and its pairs."""

import json

from golden import ROOT


def write(folder, **training):
    """config.json, train.tsv and valid.tsv, the settings of the training changed."""
    words = [("one", "uno"), ("two", "dos"), ("three", "tres"), ("four", "cuatro")]
    for name in ("train", "valid"):
        (folder / f"{name}.tsv").write_text("".join(f"{a} {c}\t{b} {d}\n" for a, b in words for c, d in words))
    config = json.loads((ROOT / "configs" / "en-es-phrases.json").read_text())
    config["model"] |= {"model_dim": 16, "heads": 2, "ff_dim": 16, "encoder_layers": 1, "decoder_layers": 1}
    config["tokenizer"]["vocab"] = 300
    config["training"] |= training
    (folder / "config.json").write_text(json.dumps(config))
    return [folder / "config.json", folder / "train.tsv", folder / "valid.tsv"]
