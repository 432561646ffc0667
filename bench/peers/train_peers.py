"""Training: qkv train against MarianMTModel of transformers on torch eager, in f32 and with products in bf16 (theirs by
autocast), interleaved in one run.

    python bench/peers/train_peers.py TRAIN.tsv [--program build/release/bin/qkv] [--rounds 3] [--threads 1] [--steps 20]
                                [--dropout 0.1] [--vocab 8000] [--ff-dim 1024] [--fixed]
                                [--out FILE]

Needs torch 2.15, transformers and tokenizers in the Python that runs it; TRAIN.tsv comes from data/make-parallel. Both train
the same model (256 wide, 3 + 3 layers, 4 heads) from random weights with Adam, label smoothing 0.1 and clipping, on the same
pairs: ours packs them, torch gets padded batches of pairs of about the same length and as many tokens. --fixed: made-up pairs
of 31 words on both sides, batches of 32, no padding anywhere. Prints target tokens per second, medians of the rounds, and
their ratio to torch in f32.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

import torch
from tokenizers import Tokenizer
from transformers import MarianConfig, MarianMTModel

from side_by_side import reduced_precisions, write


def config(options, batch_tokens, precision):
    return {"model": {"model_dim": 256, "heads": 4, "ff_dim": options.ff_dim, "encoder_layers": 3, "decoder_layers": 3,
                      "positions": 256, "dropout": options.dropout},
            "tokenizer": {"vocab": options.vocab},
            "training": {"steps": options.steps, "batch_tokens": batch_tokens, "rate": 0.001, "warmup": 100, "clip": 1,
                         "precision": precision, "beta2": 0.98, "epsilon": 1e-9, "label_smoothing": 0.1, "log_every": options.steps,
                         "validate_every": options.steps}}


def ours(options, folder, precision, number):
    out = folder / f"{precision}-{number}"
    subprocess.run([options.program, "train", "--threads", str(options.threads), "--config", folder / f"{precision}.json", "--train",
                    folder / "train.tsv", "--valid", folder / "valid.tsv", "--tokenizer", folder / "tokenizer.json", "--out",
                    out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    lines = [json.loads(line) for line in open(out / "log.jsonl", encoding="utf-8")]
    return next(line["tokens_per_second"] for line in lines if "tokens_per_second" in line)


class Theirs:
    def __init__(self, options, tokenizer, pairs, batch_tokens):
        vocab = tokenizer.get_vocab_size()
        self.pad = vocab - 1
        settings = MarianConfig(vocab_size=vocab, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
                                decoder_attention_heads=4, encoder_ffn_dim=options.ff_dim, decoder_ffn_dim=options.ff_dim,
                                activation_function="relu", max_position_embeddings=256, pad_token_id=self.pad,
                                eos_token_id=0, decoder_start_token_id=self.pad, scale_embedding=True,
                                dropout=options.dropout, attention_dropout=options.dropout,
                                activation_dropout=options.dropout)
        self.model = MarianMTModel(settings).train()
        self.adam = torch.optim.Adam(self.model.parameters(), lr=0.001, betas=(0.9, 0.98), eps=1e-9)
        self.loss = torch.nn.CrossEntropyLoss(ignore_index=self.pad, label_smoothing=0.1)
        ids = [[(row if row and row[-1] == 0 else row + [0]) for row in (tokenizer.encode(text).ids for text in pair)]
               for pair in pairs]
        ids.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        self.batches, batch, size = [], [], 0
        for pair in ids:
            if batch and size + len(pair[0]) + len(pair[1]) > batch_tokens:
                self.batches.append(batch)
                batch, size = [], 0
            batch.append(pair)
            size += len(pair[0]) + len(pair[1])
        random.Random(1).shuffle(self.batches)

    def padded(self, rows):
        return torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], True, self.pad)

    def speed(self, steps, autocast):
        tokens, begin = 0, time.perf_counter()
        for step in range(steps):
            batch = self.batches[step % len(self.batches)]
            source, target = (self.padded([pair[side] for pair in batch]) for side in (0, 1))
            start = torch.full((len(batch), 1), self.pad)
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                logits = self.model(input_ids=source, attention_mask=(source != self.pad).long(),
                                    decoder_input_ids=torch.cat([start, target[:, :-1]], 1)).logits
                loss = self.loss(logits.flatten(0, 1), target.flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1)
            self.adam.step()
            self.adam.zero_grad()
            tokens += sum(len(pair[1]) for pair in batch)
        return tokens / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--vocab", type=int, default=8000)
    parser.add_argument("--ff-dim", type=int, default=1024)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--out", help="a file for report.py")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    batch_tokens = 2048
    generator = random.Random(20261121)
    lines = [line for line in open(options.train, encoding="utf-8") if len(line) < 600]
    generator.shuffle(lines)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        precisions = ("exact", *reduced_precisions(options.program))
        for precision in precisions:
            (folder / f"{precision}.json").write_text(json.dumps(config(options, batch_tokens, precision)))
        (folder / "train.tsv").write_text("".join(lines[:8000]), encoding="utf-8")
        (folder / "valid.tsv").write_text("a\ta\n")
        subprocess.run([options.program, "tokenizer", "train", "--input", folder / "train.tsv", "--vocab", str(options.vocab),
                        "--out", folder / "tokenizer.json"], check=True, stdout=subprocess.DEVNULL)
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        if options.fixed:
            words = [token for token in tokenizer.get_vocab() if len(tokenizer.encode(token).ids) == 2 and token.isalpha()]
            text = lambda: " ".join(generator.choice(words) for _ in range(31))
            made = [f"{text()}\t{text()}\n" for _ in range(4000)]
            fit = lambda side: len(tokenizer.encode(side).ids) == 32
            made = [line for line in made if all(fit(side) for side in line.rstrip("\n").split("\t"))]
            (folder / "train.tsv").write_text("".join(made), encoding="utf-8")
        pairs = [line.rstrip("\n").split("\t") for line in open(folder / "train.tsv", encoding="utf-8")]
        theirs = Theirs(options, tokenizer, pairs, batch_tokens)
        theirs.speed(2, False)
        theirs.speed(2, True)
        names = [f"qkv {precision}".removesuffix(" exact") for precision in precisions]
        speeds = {name: [] for name in (*names, "torch", "torch autocast bf16")}
        for number in range(options.rounds):
            for name, turns in speeds.items():
                if name.startswith("torch"):
                    turns.append(theirs.speed(options.steps, "autocast" in name))
                else:
                    turns.append(ours(options, folder, name.removeprefix("qkv").strip() or "exact", number))
    rows = {name: statistics.median(turns) for name, turns in speeds.items()}
    print(f"{'pairs of 31 words' if options.fixed else 'real pairs'}, dropout {options.dropout}, {options.threads} threads:")
    for name, speed in rows.items():
        print(f"{name:20} {speed:6.0f} target tokens/s, {speed / rows['torch']:.2f}")
    write(options.out, "training", options, rows=rows)


if __name__ == "__main__":
    main()
