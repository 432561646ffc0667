"""Makes the expected values of the tokenizer tests with the reference: pip install tokenizers==0.23.3 unicodedata2

    make.py MINILM_FOLDER                         writes the files beside this script
    make.py MINILM_FOLDER CORPUS EXPECTED LINES   as many lines of text and their tokens, for the slow test

All texts are written here or generated. small.json is a tokenizer.json with a vocabulary of our own.
"""
import json
import pathlib
import random
import sys

import unicodedata2 as ucd
from tokenizers import Tokenizer, normalizers, pre_tokenizers

HERE = pathlib.Path(__file__).parent
CODES = [chr(u) for u in range(0x110000) if not 0xD800 <= u < 0xE000]

SENTENCES = """\
The animal didn't cross the street because it was too tired.
The animal didn't cross the street because it was too wide.
A robot must obey the orders given it by human beings, except where such orders would conflict.
Time flies like an arrow; fruit flies like a banana.
He saw her duck near the bank, and the bank was steep.
Attention weights are never negative: they sum to 1.0 (up to rounding).
Prices: $5.00, 7,50\u00a0\u20ac, \u00a33, \uffe510\u3000each!
unbelievably tokenization untokenizable antidisestablishmentarianism
na\u00efve caf\u00e9 r\u00e9sum\u00e9 \u00c5ngstr\u00f6m A\u030angstro\u0308m \u0130stanbul \u0131\u015f\u0131k STRASSE Stra\u00dfe
\u0413\u043b\u0443\u0431\u043e\u043a\u043e\u0435 \u043e\u0431\u0443\u0447\u0435\u043d\u0438\u0435, \u0451\u043b\u043a\u0430 \u0438 \u0439\u043e\u0433.
\u0391\u03b8\u03ae\u03bd\u03b1 \u03ba\u03b1\u03b9 \u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2: \u039f\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3
\u6ce8\u610f\u529b\u673a\u5236 is \u91cd\u8981, \u6771\u4eac\u3067\u3059\u3002\u30ab\u30bf\u30ab\u30ca \u306f\u3072\u3089\u304c\u306a
\ud55c\uad6d\uc5b4 \ubb38\uc7a5 \u1112\u1161\u11ab
\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u0645\u0631\u062d\u0628\u0627 \u0628\u0650\u0633\u0652\u0645
\u0939\u093f\u0928\u094d\u0926\u0940 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd
I [MASK] you. [CLS] [SEP] [PAD] [UNK] [mask] [MASK]ed [[MASK]] [MASK
\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f44d\U0001f3fd \U0001f1e9\U0001f1ea #\ufe0f\u20e3
zero\u200bwidth soft\u00adhyphen \ufefftext\u200e mark\u2028line\u2029paragraph\x85next\x0bvertical
e-mail: someone@example.org, https://example.org/a_b?c=d&e=f#g
3.14159 1e-7 0x1F 50% C++20 f(x)=x^2 <tag/> "quoted" 'single' `code` ~home {a|b} \\back\\slash
"""

ADDED = [  # content, special, single_word, lstrip, rstrip, normalized
    ("[PAD]", True, False, False, False, False),
    ("[UNK]", True, False, False, False, False),
    ("[CLS]", True, False, False, False, False),
    ("[SEP]", True, False, False, False, False),
    ("[MASK]", True, False, True, False, False),
    ("<left>", False, False, True, False, False),
    ("<right>", False, False, False, True, False),
    ("<both>", True, False, True, True, False),
    ("<bo", False, False, False, False, False),
    ("word", False, True, False, False, False),
    ("\u00c9tude", False, False, False, False, True),
    ("Mixed Case", False, True, True, True, True),
]


def small_tokenizer():
    """Every kind of character that the texts are made of, and some English pieces."""
    letters = [chr(u) for u in [*range(0x21, 0x7F), *range(0xA1, 0x250), *range(0x370, 0x530), *range(0x5D0, 0x5EB),
                                *range(0x620, 0x64B), *range(0x900, 0x950), *range(0x1100, 0x1113),
                                *range(0x1161, 0x1176), *range(0x11A8, 0x11C3), *range(0x3041, 0x30FF)]]
    letters += sorted(set("".join(SENTENCES)) | set(mark_pool()) | set(newer_pool()))
    single = [c for c in dict.fromkeys(letters) if not c.isspace()]
    pieces = "the animal street cross because it was too tired wide robot obey order un believ able token ing ##ization"
    pieces += " ##s ##ed ##ing ##ly ##able ##er an ##an attention weight bank fl ##ies is must human be ##ings 3.14"
    tokens = [a[0] for a in ADDED[:5]] + single + ["##" + c for c in single] + pieces.split()
    vocab = {token: i for i, token in enumerate(dict.fromkeys(tokens))}
    added, next_id = [], len(vocab)
    for content, special, single_word, lstrip, rstrip, normalized in ADDED:
        if content not in vocab:
            number, next_id = next_id, next_id + 1
        else:
            number = vocab[content]
        added.append(dict(id=number, content=content, single_word=single_word, lstrip=lstrip, rstrip=rstrip,
                          normalized=normalized, special=special))
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", vocab["[SEP]"]], "cls": ["[CLS]", vocab["[CLS]"]]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 40, "vocab": vocab},
    }


def mark_pool():
    """Combining characters that stay when nonspacing marks go, and so show the order they are put in."""
    return [c for c in CODES if ucd.combining(c) and ucd.category(c) != "Mn"]


def newer_pool():
    """Marks and punctuation that Unicode 8.0 did not have: plain characters for the reference."""
    return [chr(u) for u in [0x61D, 0x7FD, 0x8E2, 0x9FE, 0xC3C, 0xEBA, 0x180F, 0x1ABF, 0x1DF6, 0x2E4F, 0x10F46, 0x1133B,
                             0x11938, 0x11F42, 0x1E000, 0x1E08F, 0x1E94A, 0x166D, 0x1734, 0x111C9, 0x1171E]]


def make_texts(count=3000, seed=20):
    rng = random.Random(seed)
    texts = SENTENCES.split("\n")[:-1]
    texts += ["", " ", "\t", "\r\n", "\u3000", "\u200b", "\0", "a\0b", "\ufffd", "a" * 40, "a" * 41, "\u00e9" * 40,
              "e\u0301" * 41, "[MASK]" * 20, "<left", "<bo<both>", "\u0301", "\u0344\u0316a", "a\u302e\u0301\u0316"]
    words = " ".join(SENTENCES.split("\n")).split() + [a[0] for a in ADDED] + [" ", "  ", "\t"]
    by_category = {}
    for c in CODES:
        by_category.setdefault(ucd.category(c), []).append(c)
    decomposed = [c for c in CODES if ucd.decomposition(c) and not ucd.decomposition(c).startswith("<")]
    jamo = [chr(u) for u in [*range(0x1100, 0x1113), *range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]]
    cjk = [chr(rng.choice([rng.randint(0x4E00, 0x9FFF), rng.randint(0x3400, 0x4DBF), rng.randint(0x20000, 0x2CEAF),
                           rng.randint(0xF900, 0xFAFF)])) for _ in range(300)]
    emoji = list("\U0001f468\u200d\U0001f469\U0001f467\ufe0f\U0001f3fd\U0001f1e9\U0001f1ea\u2764\u20e3")
    marks = [c for c in CODES if ucd.combining(c)]
    pools = [words, words, words, marks, marks, mark_pool(), newer_pool(), decomposed, jamo, cjk, emoji, CODES,
             list("abc ABC  \t\r"), *by_category.values()]
    while len(texts) < count:
        chosen = [rng.choice(pools) for _ in range(rng.randint(1, 3))]
        glue = rng.choice(["", "", " "])
        texts.append(glue.join(rng.choice(rng.choice(chosen)) for _ in range(rng.randint(1, 10))))
    return texts


def ranges(codes):
    found = []
    for u in codes:
        if found and found[-1][1] == u - 1:
            found[-1][1] = u
        else:
            found.append([u, u])
    return " ".join(f"{a:X}-{b:X}" if a != b else f"{a:X}" for a, b in found)


def code_points():
    """What the reference does with each code point, seen between two letters."""
    off = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    clean, chinese, strip, lower = (normalizers.BertNormalizer(**{**off, name: True}).normalize_str for name in off)
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    hexes = lambda text: ".".join(f"{ord(c):X}" for c in text)
    lines = []
    for name, test in [("removed", lambda c: clean(f"a{c}b") == "ab"), ("space", lambda c: clean(f"a{c}b") == "a b"),
                       ("chinese", lambda c: chinese(f"a{c}b") == f"a {c} b"), ("mark", lambda c: strip(f"a{c}b") == "ab"),
                       ("alone", lambda c: [w for w, _ in split(f"a{c}b")] == ["a", c, "b"]),
                       ("dropped", lambda c: [w for w, _ in split(f"a{c}b")] == ["a", "b"])]:
        lines.append(f"{name} {ranges(ord(c) for c in CODES if test(c))}")
    for name, function in [("lower", lower), ("stripped", strip)]:
        changed = [(c, function(c)) for c in CODES if not "\uac00" <= c <= "\ud7a3"]  # Hangul is computed
        lines.append(f"{name} " + " ".join(f"{ord(c):X}:{hexes(r)}" for c, r in changed if r not in (c, "")))
    return "\n".join(lines) + "\n"


def tokens(tokenizer, text):
    encoding = tokenizer.encode(text)
    return "".join(f"{i}:{a}:{b} " for i, (a, b) in zip(encoding.ids, encoding.offsets)).rstrip()


def main():
    minilm = Tokenizer.from_file(f"{sys.argv[1]}/tokenizer.json")
    minilm.no_padding()
    minilm.no_truncation()
    if len(sys.argv) == 5:
        lines = [text.replace("\n", " ") for text in make_texts(int(sys.argv[4]), seed=21)]
        with open(sys.argv[2], "w", encoding="utf-8", newline="\n") as corpus, open(sys.argv[3], "w") as expected:
            for line in lines:
                print(line, file=corpus)
                print(tokens(minilm, line), file=expected)
        return
    texts = make_texts()
    description = json.dumps(small_tokenizer(), ensure_ascii=True, indent=0)
    small = Tokenizer.from_str(description)
    write = lambda name, content: (HERE / name).write_text(content, encoding="ascii")
    write("small.json", description + "\n")
    write("texts.json", json.dumps(texts, ensure_ascii=True, indent=0) + "\n")
    write("small_tokens.txt", "".join(tokens(small, t) + "\n" for t in texts))
    write("small_decoded.json", json.dumps([small.decode(small.encode(t).ids) for t in texts], indent=0) + "\n")
    write("minilm_tokens.txt", "".join(tokens(minilm, t) + "\n" for t in texts))
    write("code_points.txt", code_points())


main()
