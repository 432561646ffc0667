"""The tokens of real decoders' tokenizers by the reference: pip install tokenizers==0.23.3

    make_decoders.py FOLDER TEXTS     for each NAME/tokenizer.json in FOLDER so many texts, their ids and the text of these,
                                      in NAME/expected.json, for the slow test (tests/decoder_tokenizers)
"""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer

SENTENCES = """\
The animal didn't cross the street because it was too tired; IT'S what they'd've said.
Der schnelle braune Fuchs springt \u00fcber den faulen Hund. Stra\u00dfe, \u00dcbergr\u00f6\u00dfe!
El ni\u00f1o comi\u00f3 \u00bfqu\u00e9? \u00a1Ma\u00f1ana ser\u00e1 otro d\u00eda! L'\u00e9t\u00e9 o\u00f9 na\u00efve c\u0153ur, gar\u00e7on.
\u041c\u0430\u043c\u0430 \u043c\u044b\u043b\u0430 \u0440\u0430\u043c\u0443. \u0395\u03bb\u03bb\u03b7\u03bd\u03b9\u03ba\u03ac \u03ba\u03b1\u03b9 \u1f00\u03c1\u03c7\u03b1\u1fd6\u03b1. \u0531\u0575\u0562\u0578\u0582\u0562\u0565\u0576.
\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u6211\u4eec\u53bb\u516c\u56ed\u5427\uff01\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\u3002\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4. \u1112\u1161\u11ab
\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0628\u0650\u0633\u0652\u0645\u0650 \u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0641\u0627\u0631\u0633\u06cc\u200c\u0632\u0628\u0627\u0646 \u06f1\u06f2\u06f3 \u0661\u0662\u0663
\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e \u0967\u0968\u0969 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u10e5\u10d0\u10e0\u10d7\u10e3\u10da\u10d8 \u12a0\u121b\u122d\u129b
def f(x: int) -> int:\n    return x ** 2  # square\n\n\nprint(f"{f(3):>8.2f}")\n
#include <vector>\nint main() {\n\tstd::vector<int> v{1, 2, 3};\r\n\treturn v[0] == 1 ? 0 : 1;\r\n}
SELECT * FROM t WHERE a >= 10 AND b != 'x''y' -- comment\n  ORDER BY 1, 2 DESC;
{"key": [1, 2.5, -3e10, null, true], "nested": {"a\\\\nb": "\\\\u00e9"}}
3.14159265358979 1234567890 0x1F 1,000,000 50% 2026-11-26T22:00:00Z \u2167 \u00bd \u00b2 \u2460 \U0001d7d8
\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea #\ufe0f\u20e3 \U0001fae0
zero\u200bwidth soft\u00adhyphen \ufefftext\u200e mark\u2028line\u2029paragraph\x85next\x0bvertical\x0cform\x1cfile
e\u0301 \u00e9 A\u030a \u212b \u1e9b\u0323 \ufb01 \u0130\u0131 \u017f'\u017f \u01c6 \uac00 \u1100\u1161 \u0344 \ufffd \ufdfa""".replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").split("\n")
SPACES = [" "] * 6 + ["  ", "   ", " " * 17, "\t", "\t\t", "\n", "\n\n", "\n\n\n\n", "\r\n", " \n", "\n ", "\u00a0", "\u3000", "\u2003 ", ""]


def code_point(draw):
    while True:
        code = draw.choice([draw.randint(0, 0x7F), draw.randint(0, 0x7FF), draw.randint(0, 0xFFFF), draw.randint(0, 0x10FFFF)])
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def texts_for(tokenizer, count):
    draw = random.Random(20261126)
    words = [word for sentence in SENTENCES for word in sentence.split(" ")]
    added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    texts = ["", " ", "  ", "\n", "\0", "a\0b", "\x7f\x01\x1b[0m", "a" * 3000, " " * 1000, "\n" * 200, "1" * 100, *SENTENCES,
             "\n".join(SENTENCES)]
    while len(texts) < count:
        parts = [draw.choice(["", "", "", " ", "\n"])]
        for _ in range(draw.randint(1, 15)):
            kind = draw.random()
            parts.append(draw.choice(words) if kind < 0.7 else draw.choice(SENTENCES) if kind < 0.73 else
                         "".join(code_point(draw) for _ in range(draw.randint(1, 6))) if kind < 0.85 else
                         str(draw.randint(0, 10**draw.randint(1, 12))) if kind < 0.95 else draw.choice(added))
            parts.append(draw.choice(SPACES))
        texts.append("".join(parts))
    return texts


def main():
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*/tokenizer.json")):
        tokenizer = Tokenizer.from_file(str(path))
        texts = texts_for(tokenizer, int(sys.argv[2]))
        ids = [tokenizer.encode(text).ids for text in texts]
        expected = {"texts": texts, "ids": ids, "decoded": [tokenizer.decode(i) for i in ids]}
        (path.parent / "expected.json").write_text(json.dumps(expected), encoding="ascii")


main()
