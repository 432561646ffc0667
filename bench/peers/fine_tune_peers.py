"""Fine-tuning an encoder on pairs that belong together: qkv train against sentence-transformers, in turns in one run.

    python bench/peers/fine_tune_peers.py MODEL PAIRS.tsv HELD_OUT.tsv [--program build/release/bin/qkv] [--rounds 2]
                                [--threads 1] [--steps 20] [--batch 64] [--pairs 5000] [--out FILE]

Needs torch 2.15 and sentence-transformers 6.2 in the Python that runs it; models/get-minilm fetches a MODEL,
data/make-parallel writes train.tsv and test.tsv, of which pairs are drawn by a seed. Both begin with the model and have batches, AdamW, rate,
warm-up, cosine, clipping, dropout and length in common: ours is configs/contrast.json without chunks, theirs
SentenceTransformer and MultipleNegativesRankingLoss in a loop of torch, as its trainer needs accelerate and does the same.
First prints pairs a second of processor time (a busy machine takes turns off the clock), medians of the rounds, of all
steps but the first; then, after one epoch, the share of held-out texts whose nearest partner is theirs, with its standard
error, both by sentence-transformers; and the difference of both shares with its own, from the texts that one alone found.
"""

import argparse
import json
import math
import pathlib
import random
import resource
import statistics
import subprocess
import tempfile
import time

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from side_by_side import take_processors, write

LENGTH = 128
CONFIG = pathlib.Path(__file__).parents[2] / "configs/contrast.json"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("pairs_file")
    parser.add_argument("held_out_file")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--out", help="a file for report.py")
    options = parser.parse_args()
    take_processors(parser, options.threads)
    torch.set_num_threads(options.threads)
    return options


class Ours:
    def __init__(self, options, folder):
        self.options, self.folder, self.runs = options, folder, 0

    def train(self, limit):
        """The folder of a training with this limit, and its processor seconds."""
        self.runs += 1
        out, config = self.folder / f"run{self.runs}", json.loads(CONFIG.read_text())
        del config["training"]["epochs"]
        config["training"] |= {"batch": self.options.batch, "chunk": 0, "max_length": LENGTH} | limit
        (self.folder / "config.json").write_text(json.dumps(config))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([self.options.program, "train", "--threads", str(self.options.threads), "--config",
                        self.folder / "config.json", "--from", self.options.model, "--train", self.folder / "train.tsv",
                        "--valid", self.folder / "valid.tsv", "--out", out], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return out, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def speed(self):
        whole, one = (self.train({"steps": steps})[1] for steps in (self.options.steps, 1))
        return (self.options.steps - 1) * self.options.batch / (whole - one)


class Theirs:
    def __init__(self, options, pairs):
        self.options, self.pairs = options, pairs
        self.settings = json.loads(CONFIG.read_text())["training"]

    def train(self, steps):
        """The model after this many steps of its schedule, and the processor seconds of all but the first."""
        settings = self.settings
        torch.manual_seed(1)
        model = SentenceTransformer(self.options.model, device="cpu")
        model.max_seq_length = LENGTH
        model.train()
        loss = MultipleNegativesRankingLoss(model, scale=1 / settings["temperature"])
        adam = torch.optim.AdamW(model.parameters(), lr=settings["rate"], betas=(0.9, settings["beta2"]),
                                 eps=settings["epsilon"], weight_decay=settings["weight_decay"])
        warmup = settings["warmup"]
        rate = torch.optim.lr_scheduler.LambdaLR(
            adam, lambda step: (step + 1) / warmup if step < warmup else
            0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))))
        order = random.Random(1).sample(self.pairs, len(self.pairs))
        size, per_epoch = self.options.batch, math.ceil(len(order) / self.options.batch)
        for step in range(steps):
            if step == 1:
                begin = time.process_time()
            first = step % per_epoch * size
            batch = order[first:first + size]
            features = [model.preprocess([pair[side] for pair in batch]) for side in (0, 1)]
            loss(features, None).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
            adam.step()
            adam.zero_grad()
            rate.step()
        return model.eval(), time.process_time() - begin

    def speed(self):
        return (self.options.steps - 1) * self.options.batch / self.train(self.options.steps)[1]


def found_by(model, pairs):
    first, second = (model.encode([pair[side] for pair in pairs], convert_to_tensor=True, normalize_embeddings=True)
                     for side in (0, 1))
    return ((first @ second.T).argmax(1) == torch.arange(len(pairs))).double()


def pairs_of(path):
    lines = [line for line in open(path, encoding="utf-8") if 0 < line.count("\t")]
    return [line.rstrip("\n").split("\t")[:2] for line in lines]


def main():
    options = parse()
    held_out, pairs = pairs_of(options.held_out_file), pairs_of(options.pairs_file)
    trained = random.Random(1).sample(pairs, min(options.pairs, len(pairs)))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part, own in (("train", trained), ("valid", held_out)):
            (folder / f"{part}.tsv").write_text("".join("\t".join(pair) + "\n" for pair in own), encoding="utf-8")
        ours, theirs = Ours(options, folder), Theirs(options, trained)
        speeds = {"qkv": [], "sentence-transformers": []}
        for _ in range(options.rounds):
            speeds["qkv"].append(ours.speed())
            speeds["sentence-transformers"].append(theirs.speed())
        mine, other = (statistics.median(turns) for turns in speeds.values())
        print(f"{len(trained)} pairs, {options.threads} threads: ours {mine:.1f} pairs/s, sentence-transformers {other:.1f}, "
              f"ratio {mine / other:.2f}", flush=True)
        out, _ = ours.train({"epochs": 1})
        found = {"before": found_by(SentenceTransformer(options.model, device="cpu"), held_out),
                 "qkv": found_by(SentenceTransformer(str(out), device="cpu"), held_out),
                 "sentence-transformers": found_by(theirs.train(math.ceil(len(trained) / options.batch))[0], held_out)}
    count = len(held_out)
    shares = {name: each.mean().item() for name, each in found.items()}
    print(f"found of {count}: " + ", ".join(f"{name} {100 * share:.2f} % (+- {100 * math.sqrt(share * (1 - share) / count):.2f})"
                                            for name, share in shares.items()))
    apart = found["qkv"] - found["sentence-transformers"]
    print(f"difference {100 * apart.mean().item():.2f} points (+- {100 * apart.std().item() / math.sqrt(count):.2f})")
    write(options.out, "fine-tuning", options, rows={"qkv": mine, "sentence-transformers": other}, found=shares)


if __name__ == "__main__":
    main()
