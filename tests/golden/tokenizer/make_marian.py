"""Makes marian/: a small source.spm (unigram, its normalizer nmt_nfkc cut to the rules of make_precompiled.py), vocab.json, and ids.json:
texts, and what MarianTokenizer of transformers 5.24 on sentencepiece 0.2.3 makes of them, ids and text again.

    python make_marian.py                      writes the files beside this script
    python make_marian.py FOLDER LINES         as many random lines and their ids into FOLDER (a slow check)
"""
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
from transformers import MarianTokenizer

from make_precompiled import PIECES, RULES

USER_DEFINED = ["Bx", "cab"]  # "a" and "ab" have replacements
HERE = pathlib.Path(__file__).parent
TEXTS = json.loads((HERE / "texts.json").read_text())
WORDS = "the cat sat on a mat and was reading an old book about attention while it rained in every city of that country".split()
WORDS += [a + b for a in "read book sit rain wait count cite matt cove rent".split() for b in "s er ing ed ly est able ation".split()]


def random_texts(count, seed):
    draw = random.Random(seed)
    extras = [*PIECES, *USER_DEFINED, ">>fr<<", ">>xx<<", ">>", "<<", "</s>", "<unk>", "<pad>", "\u2581", "  "]
    for _ in range(count):
        kind = draw.random()
        if kind < 0.6:
            parts = [draw.choice(extras) if draw.random() < 0.2 else draw.choice(WORDS) + draw.choice([" ", " ", ", ", ". ", ""])
                     for _ in range(draw.randint(1, 15))]
        elif kind < 0.8:
            parts = [draw.choice([">>fr<<", ">>xx<<", " >>fr<< ", ">>a"])] + [draw.choice(extras + WORDS + [" "]) for _ in range(draw.randint(0, 8))]
        else:
            parts = [draw.choice(PIECES) for _ in range(draw.randint(0, 20))]
        yield "".join(parts)


def make(folder):
    draw = random.Random(1)
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES.items():
            rules.write("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in (source, target)) + "\n")
        rules.flush()
        lines = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(3, 12))) + draw.choice([".", "?", "!"]) for _ in range(400)]
        with open(folder / "source.spm", "wb") as out:
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=120, minloglevel=2,
                                                     normalization_rule_tsv=rules.name, bos_id=-1, hard_vocab_limit=False, user_defined_symbols=USER_DEFINED)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "source.spm"))
    known = [pieces.id_to_piece(i) for i in range(pieces.get_piece_size())]
    known = [piece for piece in known if piece not in ("</s>", "<unk>")]
    draw.shuffle(known)
    vocab = {"</s>": 0, "<unk>": 1}
    for piece in known[:-4] + [">>fr<<", "\u0915", "<pad>"]:  # some pieces are unknown, and an unknown character is known
        vocab[piece] = len(vocab)
    (folder / "vocab.json").write_text(json.dumps(vocab, indent=0) + "\n")


def main():
    folder = HERE / "marian"
    if len(sys.argv) == 1:
        folder.mkdir(exist_ok=True)
        make(folder)
    files = {name: str(folder / file) for name, file in (("source_spm", "source.spm"), ("target_spm", "source.spm"), ("vocab", "vocab.json"))}
    tokenizer = MarianTokenizer(**files)
    if len(sys.argv) > 1:
        folder, texts = pathlib.Path(sys.argv[1]), list(random_texts(int(sys.argv[2]), 7))
    else:
        texts = TEXTS[:60] + list(random_texts(300, 20261124))
    ids = [tokenizer(text).input_ids for text in texts]
    (folder / "ids.json").write_text(json.dumps({
        "texts": texts, "ids": ids, "decoded": [tokenizer.decode(row, skip_special_tokens=True) for row in ids]}) + "\n")


main()
