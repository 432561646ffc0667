"""Sentence embeddings: qkv embed against transformers on torch, interleaved in one run.

    python bench/peers/embed_peers.py MODEL [--program build/release/bin/qkv] [--rounds 9] [--threads 1]

Needs torch 2.15 and transformers in the Python that runs it; models/get-minilm fetches a MODEL. Ours is the program
itself, text in and text out; theirs is the tokenizer, the model, mean pooling and normalisation in this process, padded
batches sorted by length. Prints real tokens per second of 64 sentences of 5 to 120 words, the time of one short
sentence, and the time from the start of our process to its first embedding: medians, and the ratios of medians.
"""

import argparse
import random
import statistics
import subprocess

import numpy
import torch
from transformers import AutoModel, AutoTokenizer

from side_by_side import medians, seconds

WORDS = """the animal street because was too tired robot must obey orders given by human beings light rain fell over an old
town while people walked home and talked about music numbers gardens their children a letter that never came strange
machines quiet rivers seven bridges morning bread winter stories who knows what tomorrow brings""".split()


def sentences(count, generator):
    lengths = [5 + round(115 * i / (count - 1)) for i in range(count)]
    generator.shuffle(lengths)
    return [" ".join(generator.choice(WORDS) for _ in range(length)) + "." for length in lengths]


class Ours:
    def __init__(self, program, model, threads):
        command = [program, "embed", "--model", model, "--threads", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def embed(self, texts):
        self.process.stdin.write(("\n".join(texts) + "\n").encode())
        self.process.stdin.flush()
        return numpy.array([numpy.fromstring(self.process.stdout.readline(), sep=" ") for _ in texts])


class Theirs:
    def __init__(self, model, batch=16):
        self.tokenizer, self.model = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
        self.batch = batch

    def tokens(self, texts):
        return sum(len(ids) for ids in self.tokenizer(texts, truncation=True, max_length=256)["input_ids"])

    @torch.inference_mode()
    def embed(self, texts):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        result = [None] * len(texts)
        for begin in range(0, len(order), self.batch):
            chosen = order[begin:begin + self.batch]
            inputs = self.tokenizer([texts[i] for i in chosen], padding=True, truncation=True, max_length=256,
                                    return_tensors="pt")
            mask = inputs["attention_mask"].unsqueeze(-1)
            pooled = (self.model(**inputs).last_hidden_state * mask).sum(1) / mask.sum(1)
            for i, row in zip(chosen, torch.nn.functional.normalize(pooled, dim=1).numpy()):
                result[i] = row
        return numpy.array(result)


def race(name, ours, theirs, texts, rounds, repeat):
    difference = abs(ours.embed(texts) - theirs.embed(texts)).max()
    times = medians({"ours": lambda: [ours.embed(texts) for _ in range(repeat)],
                     "theirs": lambda: [theirs.embed(texts) for _ in range(repeat)]}, rounds)
    mine, other = times["ours"] / repeat, times["theirs"] / repeat
    tokens = theirs.tokens(texts)
    print(f"{name}: ours {1e3 * mine:.2f} ms ({tokens / mine:.0f} tokens/s), transformers {1e3 * other:.2f} ms "
          f"({tokens / other:.0f} tokens/s), ratio {other / mine:.2f}; largest difference {difference:.1e}")


def first_embedding(program, model, threads):
    peer = Ours(program, model, threads)
    peer.embed(["Hello, world."])
    peer.process.kill()
    peer.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ours, theirs = Ours(options.program, options.model, options.threads), Theirs(options.model)
    texts = sentences(64, random.Random(20261121))
    race("64 sentences", ours, theirs, texts, options.rounds, 1)
    race("one sentence", ours, theirs, ["The animal did not cross the street."], options.rounds, 20)
    starts = [seconds(lambda: first_embedding(options.program, options.model, options.threads)) for _ in range(options.rounds)]
    print(f"start to first embedding: {1e3 * statistics.median(starts):.0f} ms (best {1e3 * min(starts):.0f})")


if __name__ == "__main__":
    main()
