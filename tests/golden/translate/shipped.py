"""Checks the model that ships, models/en-es, against transformers 5 on torch 2.15 and CTranslate2 4.8, and writes what they
translate.

    python shipped.py

shipped.json     texts; ids of each as transformers' AutoTokenizer encodes it; greedy and beams (4, the best one): generated
                 ids by transformers, without the start token, each text alone; text: of the beams, decoded by AutoTokenizer;
                 ctranslate2: greedy and beams, with the end token, which CTranslate2 leaves out
Greedily CTranslate2 must give the tokens of transformers: this fails if it does not. Its beams end by another rule, so that some
of its translations are others; they are printed.
"""

import json
import pathlib
import sys
import tempfile

import ctranslate2
import torch
from transformers import AutoTokenizer, MarianMTModel

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
folder = here.parents[2] / "models" / "en-es"

TEXTS = [
    "You are welcome", "You are welcome.", "Thank you", "Good morning", "Where is the station?", "I do not understand.",
    "How much does it cost?", "See you tomorrow!", "Open the file.", "The document could not be saved.",
    "Delete the selected rows", "Insert a new column before the current cell.", "Do you want to replace the existing file?",
    "Page", "Error", "Print preview", "And God said, Let there be light: and there was light.",
    "In the beginning God created the heavens and the earth.", "Jesus wept.",
    "He went up on the mountain, and sat down there.", "The king sent messengers to the city.", "Café, naïve, 你好!",
    "a", "1 2 3", "XML", "The quick brown fox jumps over the lazy dog.",
    "Please write your name and address at the top of the page.", "I have never seen such a beautiful sunset.",
    "She told me that the weather would change before the end of the week.",
    # CTranslate2's beams give another for this one.
    "Her brother plays the guitar better than anybody else I know.",
]


@torch.no_grad()
def generated(model, ids, **options):
    row = model.generate(torch.tensor([ids]), **options)[0].tolist()[1:]
    pad = model.config.pad_token_id
    while row and row[-1] == pad:
        row.pop()
    return row


def main():
    model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(text)["input_ids"] for text in TEXTS]
    greedy = [generated(model, row, num_beams=1, max_new_tokens=60) for row in ids]
    beams = [generated(model, row, num_beams=4, max_new_tokens=60) for row in ids]
    result = {"texts": TEXTS, "ids": ids, "max_new_tokens": 60, "greedy": greedy, "beams": beams,
              "text": [tokenizer.decode(row, skip_special_tokens=True) for row in beams]}

    with tempfile.TemporaryDirectory() as work:
        converter = ctranslate2.converters.TransformersConverter(str(folder))
        converter.convert(f"{work}/model", force=True)
        translator = ctranslate2.Translator(f"{work}/model", compute_type="float32", intra_threads=1)
        tokens = [tokenizer.convert_ids_to_tokens(row) for row in ids]
        result["ctranslate2"] = {}
        for name, size in (("greedy", 1), ("beams", 4)):
            found = translator.translate_batch(tokens, beam_size=size, max_decoding_length=60, max_batch_size=1)
            result["ctranslate2"][name] = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) + [model.config.eos_token_id]
                                           for one in found]
    (here / "shipped.json").write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    for name, expected in (("greedy", greedy), ("beams", beams)):
        others = [(text, row) for text, row, own in zip(TEXTS, result["ctranslate2"][name], expected) if row != own]
        for text, row in others:
            print(f"{name}: CTranslate2 differs for {text!r}: {tokenizer.decode(row, skip_special_tokens=True)!r}")
        print(f"{name}: CTranslate2 gives the same tokens for {len(TEXTS) - len(others)} of {len(TEXTS)}")
        if name == "greedy" and others:
            sys.exit("greedy: CTranslate2 must give the tokens of transformers")


if __name__ == "__main__":
    main()
