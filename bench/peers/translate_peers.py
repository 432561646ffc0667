"""Translation: qkv translate against CTranslate2 (and transformers on torch), interleaved in one run.

    python bench/peers/translate_peers.py TEST.tsv [--model models/en-es] [--program build/release/bin/qkv] [--rounds 5]
                                    [--threads 1] [--sentences 256] [--beams 1] [--weights f32|int8] [--reduced]
                                    [--transformers]
                                    [--out FILE]

Needs ctranslate2 4.8 and transformers in the Python that runs it; TEST.tsv comes from data/make-parallel. Ours is the
program itself, text in and text out (--reduced: with --precision reduced, too); theirs gets its tokens ready made. Sentences go in batches of 32, sorted by length.
Prints generated tokens per second, the time of one sentence of about 24 tokens, and the time from the start of our process
to its first translation: medians, and the ratios of medians.
"""

import argparse
import statistics
import subprocess
import tempfile

import ctranslate2
import torch
from transformers import AutoTokenizer, MarianMTModel

from side_by_side import medians, seconds, write

BATCH = 32


class Ours:
    def __init__(self, options, *precision):
        command = [options.program, "translate", "--model", options.model, "--threads", str(options.threads), "--beams",
                   str(options.beams), "--weights", options.weights, *precision]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def translate(self, texts):
        self.process.stdin.write(("\n".join(texts) + "\n").encode())
        self.process.stdin.flush()
        return [self.process.stdout.readline().decode().rstrip("\n") for _ in texts]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class CTranslate2:
    def __init__(self, options, tokenizer, folder):
        ctranslate2.converters.TransformersConverter(options.model).convert(folder, force=True)
        self.translator = ctranslate2.Translator(folder, compute_type={"f32": "float32", "int8": "int8"}[options.weights],
                                                 intra_threads=options.threads, inter_threads=1)
        self.tokenizer, self.beams = tokenizer, options.beams
        self.tokens = {}

    def translate(self, texts):
        for text in texts:
            if text not in self.tokens:
                self.tokens[text] = self.tokenizer.convert_ids_to_tokens(self.tokenizer(text)["input_ids"])
        results = self.translator.translate_batch([self.tokens[text] for text in texts], beam_size=self.beams)
        return [self.tokenizer.decode(self.tokenizer.convert_tokens_to_ids(r.hypotheses[0])) for r in results]


class Transformers:
    def __init__(self, options, tokenizer):
        torch.set_num_threads(options.threads)
        self.model = MarianMTModel.from_pretrained(options.model, dtype=torch.float32).eval()
        self.tokenizer, self.beams = tokenizer, options.beams

    @torch.inference_mode()
    def translate(self, texts):
        rows = self.model.generate(**self.tokenizer(texts, padding=True, return_tensors="pt"), num_beams=self.beams)
        return self.tokenizer.batch_decode(rows, skip_special_tokens=True)


def race(name, peers, batches, tokens, rounds):
    outputs = {side: [line for batch in batches for line in peer.translate(batch)] for side, peer in peers.items()}
    times = medians({side: lambda peer=peer: [peer.translate(batch) for batch in batches] for side, peer in peers.items()},
                    rounds)
    speeds = {}
    for side, median in times.items():
        speeds[side] = tokens(outputs["ours"]) / median
        same = sum(a == b for a, b in zip(outputs["ours"], outputs[side]))
        print(f"{name}, {side}: {1e3 * median:.1f} ms, {tokens(outputs['ours']) / median:.0f} tokens/s, ours is "
              f"{median / times['ours']:.2f} times as fast; {same} of {len(outputs['ours'])} translations the same")
    return speeds


def first(options):
    peer = Ours(options)
    peer.translate(["You are welcome"])
    peer.process.kill()
    peer.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("test")
    parser.add_argument("--model", default="models/en-es")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sentences", type=int, default=256)
    parser.add_argument("--beams", type=int, default=1)
    parser.add_argument("--weights", default="f32", choices=["f32", "int8"])
    parser.add_argument("--reduced", action="store_true", help="ours with --precision reduced, too")
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--out", help="a file for report.py")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    with open(options.test, encoding="utf-8") as file:
        texts = [line.split("\t")[0] for line in file]
    texts = sorted((text for text in texts if 8 <= len(text.split()) <= 30), key=len)
    texts = texts[:: max(1, len(texts) // options.sentences)][: options.sentences]
    batches = [texts[i:i + BATCH] for i in range(0, len(texts), BATCH)]

    def tokens(outputs):
        return sum(len(tokenizer(text)["input_ids"]) for text in outputs)

    with tempfile.TemporaryDirectory() as folder:
        peers = {"ours": Ours(options), "CTranslate2": CTranslate2(options, tokenizer, folder)}
        if options.reduced:
            peers["ours reduced"] = Ours(options, "--precision", "reduced")
        if options.transformers:
            peers["transformers"] = Transformers(options, tokenizer)
        many = race(f"{len(texts)} sentences", peers, batches, tokens, options.rounds)
        one = min(texts, key=lambda text: abs(len(tokenizer(text)["input_ids"]) - 24))
        alone = race("one sentence", peers, [[one]], tokens, 4 * options.rounds)
    write(options.out, "translation", options, weights=options.weights, rows={"in batches": many, "alone": alone})
    starts = [seconds(lambda: first(options)) for _ in range(4 * options.rounds)]
    print(f"start to first translation: {1e3 * statistics.median(starts):.0f} ms (best {1e3 * min(starts):.0f})")


if __name__ == "__main__":
    main()
