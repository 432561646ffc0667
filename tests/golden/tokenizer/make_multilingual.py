"""A tokenizer.json of XLM-RoBERTa's size and scheme, lines in many scripts, and their tokens by the reference.

    make_multilingual.py FOLDER LINES     tokenizer.json, corpus and expected in FOLDER, for the slow test

250,002 pieces of the words of other such lines, with random scores, so that a word can be cut in many ways; the rules of
sentencepiece's nmt_nfkc before them. pip install tokenizers==0.23.3 sentencepiece==0.2.3
"""
import io
import pathlib
import random
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

PIECES = 250_002
SPACE = "\u2581"
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
SCRIPTS = {  # ranges of characters, and how long words are
    "latin": ([(0x61, 0x7A), (0x61, 0x7A), (0x61, 0x7A), (0xE0, 0xFF), (0x100, 0x17F)], 8),
    "capital": ([(0x41, 0x5A)], 6),
    "cyrillic": ([(0x430, 0x44F), (0x410, 0x42F)], 8),
    "greek": ([(0x3B1, 0x3C9), (0x386, 0x38F)], 7),
    "arabic": ([(0x621, 0x64A), (0x64B, 0x652), (0xFE80, 0xFEFC)], 6),
    "hebrew": ([(0x5D0, 0x5EA), (0x5B0, 0x5BC)], 6),
    "devanagari": ([(0x904, 0x939), (0x93E, 0x94D)], 7),
    "thai": ([(0xE01, 0xE3A), (0xE40, 0xE4E)], 12),
    "han": ([(0x4E00, 0x4FFF), (0xF900, 0xF910), (0x20000, 0x20020)], 9),
    "kana": ([(0x3041, 0x3096), (0x30A1, 0x30FA), (0xFF66, 0xFF9F)], 8),
    "hangul": ([(0xAC00, 0xAE00), (0x1100, 0x1112), (0x1161, 0x1175)], 5),
    "full width": ([(0xFF01, 0xFF5E)], 6),
    "emoji": ([(0x1F600, 0x1F64F), (0x1F3FB, 0x1F3FF), (0x200D, 0x200D), (0xFE0F, 0xFE0F), (0x1F1E6, 0x1F1FF)], 4),
    "marks": ([(0x61, 0x7A), (0x300, 0x36F)], 8),
    "signs": ([(0x21, 0x2F), (0x30, 0x39), (0x2000, 0x206F), (0x2460, 0x2473), (0xFB00, 0xFB06), (0x3300, 0x3357)], 6),
    "control": ([(0x01, 0x09), (0x0B, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x200B, 0x200F), (0xFEFF, 0xFEFF)], 3),
}
SPACES = [" "] * 20 + ["  ", " " * 9, " " * 300, "\t", "\u3000", "\u00a0", "\u2003 ", ""]  # none after an added token


def word(draw, script):
    ranges, longest = SCRIPTS[script]
    return "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(draw.randint(1, longest)))


def line(draw):
    scripts = draw.choices(list(SCRIPTS), k=draw.randint(1, 4))
    parts = [draw.choice(["", "", " ", "   "])]
    for _ in range(draw.randint(0, 12)):
        if draw.random() < 0.95:
            parts += [word(draw, draw.choice(scripts)), draw.choice(SPACES)]
        else:
            parts += [draw.choice(["<mask>", "</s>", "<unk", SPACE]), draw.choice(SPACES[:-1])]
    return "".join(parts)


def charsmap():
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["cd ce de"] * 20), model_writer=model, vocab_size=8,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def pieces(draw, normalize):
    found = dict.fromkeys(chr(u) for ranges, _ in SCRIPTS.values() for a, b in ranges for u in range(a, b + 1) if u > 0x20)
    while len(found) < PIECES:
        for part in normalize(line(draw)).split():
            part = SPACE + part
            begin = draw.randint(0, len(part) - 1)
            found[part[begin:begin + draw.randint(1, 7)]] = None
            found[part[:draw.randint(1, 5)]] = None
    scored = [(piece, -draw.uniform(3, 16) * len(piece) ** 0.5) for piece in found if piece not in SPECIAL]
    return [*((token, 0.0) for token in SPECIAL[:-1]), *scored[:PIECES - 5], (SPECIAL[-1], 0.0)]


# Of characters that the rules drop where a text begins, tokenizers loses count: its offsets are right for what follows.
def described(tokenizer, text):
    dropped = 0
    while dropped < len(text) and tokenizer.normalizer.normalize_str(text[dropped]) == "":
        dropped += 1
    rest = tokenizer.encode(text[dropped:])
    assert rest.ids == tokenizer.encode(text).ids, repr(text)
    shift = lambda at, special: at if special else at + dropped
    return " ".join(f"{i}:{shift(a, s)}:{shift(b, s)}" for i, (a, b), s in zip(rest.ids, rest.offsets, rest.special_tokens_mask))


def main():
    folder, lines = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    draw = random.Random(20261126)
    normalizer = normalizers.Sequence([normalizers.Precompiled(charsmap()), normalizers.Replace(Regex(" {2,}"), " ")])
    tokenizer = Tokenizer(models.Unigram(pieces(draw, normalizer.normalize_str), 3))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens([*SPECIAL[:-1], AddedToken(SPECIAL[-1], lstrip=True, special=True)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.save(str(folder / "tokenizer.json"))
    corpus = [line(draw) for _ in range(lines)]
    (folder / "corpus").write_text("".join(f"{text}\n" for text in corpus), encoding="utf-8", newline="")
    (folder / "expected").write_text("".join(f"{described(tokenizer, text)}\n" for text in corpus), encoding="ascii")


main()
