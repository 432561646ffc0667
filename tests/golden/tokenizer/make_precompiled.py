"""Makes precompiled/: charsmaps of sentencepiece 0.2.3 as tokenizer.json files whose normalizer is Precompiled, and what
tokenizers 0.23.3 makes of texts by them.

    python make_precompiled.py
"""
import base64
import io
import json
import pathlib
import random
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import normalizers

HERE = pathlib.Path(__file__).parent
RULES = {"a": "X", "ab": "Y", "e\u0301": "\u00e9", "\u00c4": "Ae", "\uff21": "A", "\u200d": "", "\u0301": "", "\r\n": "\n", "\ufb03": "ffi",
         "\u2460": "1", "\u0600": "n", "\u3000": " ", "\t": " ", "\u0e33": "\u0e4d\u0e32", "\U0001f600": ":)", "\u1100\u1161": "\uac00", "\u00a0": " "}
PIECES = [*"aAbBeEx1 \t\r\n", "\u0301", "\u0308", "\u00c4", "\u200d", "\ufe0f", "\ufb03", "\u2460", "\u0600", "\u0661", "\u3000", "\uff21", "\u0e33",
          "\u0e01", "\U0001f600", "\U0001f1e9", "\u1100", "\u1161", "\u11a8", "\uac00", "\u0915", "\u094d", "\u0301", "\u00a9", "\u0897", "\U000113d1",
          "\U00011a3a", "\x00", "\x1f", "\u00a0", "\ufffd", "\u0650", "\u0644", "\u20dd", "\U000e0101"]


def charsmap():
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES.items():
            rules.write("\t".join(" ".join(f"{ord(c):X}" for c in side) for side in (source, target)) + "\n")
        rules.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["cd ce de"] * 20), model_writer=model, vocab_size=8,
                                                 normalization_rule_tsv=rules.name, minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def main():
    rules = charsmap()
    ours = normalizers.Precompiled(rules)
    draw = random.Random(20261124)
    texts = [chr(u) for u in (*range(0x20, 0x250), 0x600, 0x3000, 0xFF21)]
    texts += ["".join(draw.choice(PIECES) for _ in range(draw.randint(1, 12))) for _ in range(1200)]
    texts = ["", *dict.fromkeys(texts)]
    (HERE / "precompiled.json").write_text(json.dumps({
        "charsmap": base64.b64encode(rules).decode(), "texts": texts, "normalized": [ours.normalize_str(t) for t in texts]}, indent=0) + "\n")


if __name__ == "__main__":
    main()
