"""A unigram vocabulary whose cuts depend on how its numbers are read, as the reference reads it: pip install tokenizers==0.23.3

    make_numbers.py    writes numbers.json and numbers_read.json beside this script

The reference reads JSON by serde_json, which does not always give the nearest double. Of a letter a there are the pieces aaa
and aaaaa: -aaaaaaaa is cut in two ways whose sums differ by roundings at most. Kept are letters whose cuts are other ones
where Python, which reads the nearest double, reads the scores.
numbers.json         the tokenizer.json; its other pieces, from "n0" on, have numbers of many forms
numbers_read.json    read: each score as the reference holds it, in hexadecimal; ids: of each text
"""
import json
import pathlib
import random

from tokenizers import Tokenizer, models

HERE = pathlib.Path(__file__).parent
LETTERS = 24
FORMS = ["-0.1", "-1.5e1", "-12345678901234567890", "-18446744073709551615.5", "-18446744073709551616.75", "-0.0", "-5", "-1e-5",
         "-123456789012345678901234567890.123", "-1234567890.12345678901234567890", "-3.0e+2", "-7E-320", "-2.5e-330", "-1e-400",
         "-0.000000000000000000000000000001e30", "-99999999999999999999e-19", "-4.9406564584124654e-324", "-1e22", "-1e23",
         "-2.2250738585072014e-308", "-9007199254740993.0", "-0.1e-300000000000", "-179769313486231570000000000000000000000e200"]


def text_of(pieces):
    vocab = ", ".join(f"[{json.dumps(piece)}, {number}]" for piece, number in pieces)
    return ('{"version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": null, '
            f'"post_processor": null, "decoder": null, "model": {{"type": "Unigram", "unk_id": 0, "byte_fallback": false, "vocab": [{vocab}]}}}}')


def ids(tokenizer, text):
    return tokenizer.encode(text).ids


draw = random.Random(20261126)
number = lambda: repr(-draw.uniform(6, 14))
chosen, code = [("<unk>", "0"), ("-", number())], 0x4E00
while len(chosen) < 2 + 2 * LETTERS:
    letter, code = chr(code), code + 1
    tried = [*chosen, (letter * 3, number()), (letter * 5, number())]
    nearest = Tokenizer(models.Unigram([(piece, float(score)) for piece, score in tried], 0))
    if ids(Tokenizer.from_str(text_of(tried)), "-" + letter * 8) != ids(nearest, "-" + letter * 8):
        chosen = tried
letters = [piece[0] for piece, _ in chosen[2::2]]
more = [f"-{draw.randint(0, 99)}.{draw.randint(0, 10 ** 17 - 1):017}" for _ in range(200)]
more += [f"-{draw.randint(1, 10 ** draw.randint(1, 22))}e{draw.randint(-330, 280)}" for _ in range(100)]
chosen += [(f"n{i}", form) for i, form in enumerate([*FORMS, *more])]
text = text_of(chosen)
tokenizer = Tokenizer.from_str(text)
read = [score for _, score in json.loads(tokenizer.to_str())["model"]["vocab"]]
differ = sum(a != float(b) for a, (_, b) in zip(read, chosen))
print(f"{differ} of {len(read)} numbers are not the nearest double")
texts = ["-" + letter * 8 for letter in letters]
(HERE / "numbers.json").write_text(text.replace("], [", "],\n[") + "\n")
(HERE / "numbers_read.json").write_text(json.dumps({"read": [score.hex() for score in read], "texts": texts,
                                                    "ids": [ids(tokenizer, one) for one in texts]}, separators=(",", ":")) + "\n")
