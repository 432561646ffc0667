"""How long Ctrl-C takes to end a call of Python, in milliseconds: the median and the largest of N interrupts of each kind.

    PYTHONPATH=build/release/python python bench/micro/interrupt_delays.py [--model FOLDER] [--interrupts 20] [--only NAME]

- attention() of 8 heads of 4,096 x 4,096
- Embedder.encode() of many texts (FOLDER, as models/get-minilm prints it, or a small model of the tests)
- Embedder() of an encoder of 1.2 GB, which is written first
- train() of configs/en-es-phrases.json, which writes a checkpoint before it ends

Another process sends each signal, at a random moment of a call, and says when: from then to KeyboardInterrupt.
"""

import argparse
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy
import qkv

ROOT = Path(__file__).resolve().parents[2]
ROBERTA = ROOT / "tests" / "golden" / "encoders" / "roberta"

SENDER = """
import os, signal, sys, time
for line in sys.stdin:
    time.sleep(float(line))
    sent = time.monotonic()
    os.kill(os.getppid(), signal.SIGINT)
    print(sent, flush=True)
"""


def large_encoder(folder):
    """A folder like that of the tests, with 24 layers of 1,024."""
    config = json.loads((ROBERTA / "config.json").read_text())
    config |= {"hidden_size": 1024, "num_attention_heads": 16, "num_hidden_layers": 24, "intermediate_size": 4096}
    shapes = {}

    def add(name, *shape):
        shapes[name + ".weight"] = shape
        if len(shape) == 1 or "embeddings" not in name:
            shapes[name + ".bias"] = shape[:1]

    rows = {"word": config["vocab_size"], "position": config["max_position_embeddings"], "token_type": 1}
    for table, count in rows.items():
        add(f"roberta.embeddings.{table}_embeddings", count, 1024)
    add("roberta.embeddings.LayerNorm", 1024)
    for layer in range(24):
        scope = f"roberta.encoder.layer.{layer}."
        for part in ("self.query", "self.key", "self.value", "output.dense"):
            add(f"{scope}attention.{part}", 1024, 1024)
        add(f"{scope}attention.output.LayerNorm", 1024)
        add(f"{scope}intermediate.dense", 4096, 1024)
        add(f"{scope}output.dense", 1024, 4096)
        add(f"{scope}output.LayerNorm", 1024)
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * int(numpy.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(ROBERTA / "tokenizer.json", folder)
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for shape in shapes.values():
            file.write(numpy.zeros(shape, "f4").tobytes())
    return folder


def measure(name, call, sender, interrupts, draw):
    begin = time.monotonic()
    call(True)
    whole = time.monotonic() - begin
    delays = []
    while len(delays) < interrupts:
        inside = True
        try:
            print(draw.uniform(0.05, 0.9) * whole, file=sender.stdin, flush=True)
            call(False)
            inside = False
            time.sleep(60)  # until the signal comes, late
        except KeyboardInterrupt:
            ended, sent = time.monotonic(), float(sender.stdout.readline())
            if inside:
                delays.append(1000 * (ended - sent))
    print(f"{name}: a call of {whole:.2f} s, {len(delays)} interrupts, median {statistics.median(delays):.0f} ms, "
          f"largest {max(delays):.0f} ms", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROBERTA))
    parser.add_argument("--interrupts", type=int, default=20)
    parser.add_argument("--only", default="", help="attention, encode, loading or training")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sender = subprocess.Popen([sys.executable, "-c", SENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              start_new_session=True)  # fmt: skip
    draw, query = random.Random(1), numpy.zeros((8, 4096, 64), "f4")
    embedder = qkv.Embedder(options.model)
    texts = ["one text of some words, and another " * 4] * 300

    def training(whole):
        with tempfile.TemporaryDirectory() as folder:
            config = json.loads((ROOT / "configs" / "en-es-phrases.json").read_text())
            config["training"] |= {"steps": 4 if whole else 1000, "warmup": 2}
            (Path(folder) / "config.json").write_text(json.dumps(config))
            pairs = ROOT / "data" / "phrases.es.tsv"
            qkv.train(Path(folder) / "config.json", pairs, pairs, Path(folder) / "out")

    with tempfile.TemporaryDirectory() as folder:
        large = large_encoder(Path(folder)) if options.only in ("", "loading") else None
        kinds = {
            "attention": lambda _: qkv.attention(query, query, query),
            "encode": lambda _: embedder.encode(texts),
            "loading": lambda _: qkv.Embedder(large),
            "training": training,
        }
        for name, call in kinds.items():
            if options.only in ("", name):
                measure(name, call, sender, options.interrupts, draw)
    sender.stdin.close()
    sender.wait()


if __name__ == "__main__":
    main()
