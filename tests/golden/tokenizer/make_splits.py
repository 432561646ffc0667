"""Writes splits.json with the reference: pip install tokenizers==0.23.3, python make_splits.py

Where pre-tokenizers cut texts of characters that the expressions tell apart: each as tokenizer.json has it, and for each text
the places (in characters) of its words.
"""
import json
import pathlib
import random

from tokenizers import Regex, pre_tokenizers

HERE = pathlib.Path(__file__).parent
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN = GPT4.replace("{1,3}", "")
BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PIECES = ["a", "B", "word", "\u00e9", "e\u0301", "\u4f60\u597d", "\u0645", "\u05e9", "1", "12", "12345", "\u0663", "\u2167", "\u00bd",
          "\U00011de0", "\U00016ff4", " ", " ", "  ", "    ", "\n", "\n\n", "\r\n", "\r", "\t", "\u00a0", "\u3000", "\x85",
          "\u2028", "\x0b", "\x1c", "\u200b", "'", "'s", "'S", "'\u017f", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'lL", "'d", "'x",
          "\u2019s", ".", "...", "!?", "_", "$", "+", "\u3002", "\u00ab", "\U0001f600", "\u200d", "\u0301", "\0", "\ufffd",
          "</s>", "-", "--", "- -"]


def split(pattern, behavior, invert):
    return pre_tokenizers.Split(pattern, behavior, invert)


def pre_tokenizers_to_show():
    for expression in [GPT2, GPT4, QWEN]:
        yield split(Regex(expression), "isolated", False)
    yield split(Regex(GPT4), "removed", True)
    for behavior in BEHAVIORS:
        yield split(" ", behavior, False)
        yield split("- -", behavior, True)
        yield pre_tokenizers.Punctuation(behavior)
    yield pre_tokenizers.Digits(individual_digits=False)
    yield pre_tokenizers.Digits(individual_digits=True)
    yield pre_tokenizers.Sequence([pre_tokenizers.Digits(True), split("a", "merged_with_next", False)])


def main():
    draw = random.Random(38)
    texts = ["", " ", "a", "- -", "- - - -", "a - -", "\n \n"]
    while len(texts) < 100:
        texts.append("".join(draw.choice(PIECES) for _ in range(draw.randint(1, 12))))
    shown = [{"pre_tokenizer": json.loads(p.__getstate__()), "words": [
        [at for _, span in p.pre_tokenize_str(text) for at in span] for text in texts]} for p in pre_tokenizers_to_show()]
    content = json.dumps({"texts": texts, "splits": shown}, separators=(",", ":"))
    (HERE / "splits.json").write_text(content + "\n", encoding="ascii")


main()
