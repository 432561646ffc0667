"""Makes pairs.json: what `tokenizers` makes of pairs of texts, cut longest first: of each file, pair and maximum length
(0: none) the ids and the types; and windows.json, where only the second text is cut into overlapping parts: of each file, pair,
maximum length and overlap the ids, and the word of each token (-1: none)."""

import json
import pathlib

from tokenizers import Tokenizer

golden = pathlib.Path(__file__).parent.parent
FILES = ["tokenizer/small.json", "encoders/roberta/tokenizer.json", "encoders/mpnet/tokenizer.json", "encoders/xlm_roberta/tokenizer.json"]
TEXTS = ["The cat sat on the mat.", "A cat", "", " caf\u00e9 \u4f60\u597d!", "one two one two one two fill here the cat sat"]

found = []
for file in FILES:
    tokenizer = Tokenizer.from_file(str(golden / file))
    tokenizer.no_padding()
    for most in (0, 4, 7, 12):
        tokenizer.no_truncation()
        if most:
            tokenizer.enable_truncation(most, strategy="longest_first")
        for first in TEXTS:
            for second in TEXTS:
                pair = tokenizer.encode(first, second)
                found.append([file, first, second, most, pair.ids, pair.type_ids])
(golden / "tokenizer" / "pairs.json").write_text(json.dumps(found) + "\n", encoding="ascii")

windows = []
for file in FILES:
    tokenizer = Tokenizer.from_file(str(golden / file))
    tokenizer.no_padding()
    for most, stride in ((12, 0), (12, 3), (24, 5), (200, 7)):
        tokenizer.enable_truncation(most, strategy="only_second", stride=stride)
        for first in TEXTS[1:3]:
            for second in TEXTS:
                pair = tokenizer.encode(first, second)
                parts = [pair, *pair.overflowing]
                words = [[-1 if word is None else word for word in part.word_ids] for part in parts]
                windows.append([file, first, second, most, stride, [part.ids for part in parts], words])
(golden / "tokenizer" / "windows.json").write_text(json.dumps(windows) + "\n", encoding="ascii")
