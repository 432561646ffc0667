"""Long texts through an encoder of ModernBERT-base's shape: qkv embed against transformers, ONNX Runtime and OpenVINO.

    python bench/peers/long_text_peers.py [--program build/release/bin/qkv] [--lengths 512 2048 8192] [--rounds 3]
                                    [--threads 1] [--layers 22] [--only REGEX] [--out FILE]

Needs torch 2.15, transformers 5.23, onnxruntime and openvino in the Python that runs it; what is missing is said. The
weights are random: 22 layers of 768, 12 heads, a window of 128 but every third layer global. Each has a process of its
own, and takes turns on one text alone; a turn of 8,192 tokens takes up to a minute. Prints for each length the median of
the seconds, the ratio to ours, and the most memory that the first turn of a new process took beyond what this held
before, its weights among that.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from side_by_side import seconds, take_processors, write

PEERS = ("transformers sdpa", "ONNX Runtime", "OpenVINO")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=22)
    parser.add_argument("--only", default="", help="peers whose name matches this pattern, beside ours")
    parser.add_argument("--out", help="a file for report.py")
    parser.add_argument("--worker", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    take_processors(parser, options.threads)
    return options


OPTIONS = parse()


def make_model(folder):
    import torch
    from transformers import ModernBertConfig, ModernBertModel

    torch.manual_seed(20261127)
    config = ModernBertConfig(num_hidden_layers=OPTIONS.layers)  # else as answerdotai/ModernBERT-base
    ModernBertModel(config).save_pretrained(folder)
    vocab = {"[UNK]": 0, **{f"w{i}": i for i in range(1, 1000)}, "[CLS]": 1000, "[SEP]": 1001, "[PAD]": 1002}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "decoder": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 1001], "cls": ["[CLS]", 1000]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": vocab}}  # fmt: skip
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))


def loaded(name, folder):
    """What runs ids through the model of a folder."""
    import torch
    from transformers import AutoModel

    torch.set_num_threads(OPTIONS.threads)
    onnx = folder / "model.onnx"
    if name == "transformers sdpa" or not onnx.exists():
        kind = "sdpa" if name == "transformers sdpa" else "eager"
        model = AutoModel.from_pretrained(folder, attn_implementation=kind).eval()
        if name == "transformers sdpa":
            return lambda ids: model(torch.tensor([ids])).last_hidden_state.mean(1)
        text = torch.arange(1, 33)[None]
        torch.onnx.export(
            model, (text, torch.ones_like(text)), onnx, input_names=["input_ids", "attention_mask"], output_names=["hidden"],
            dynamic_axes={each: {0: "batch", 1: "length"} for each in ("input_ids", "attention_mask", "hidden")},
            opset_version=17, dynamo=False,
        )  # fmt: skip
        return None  # a process without torch's model runs it
    import numpy

    def arrays(ids):
        return {"input_ids": numpy.array([ids]), "attention_mask": numpy.ones((1, len(ids)), numpy.int64)}

    if name == "ONNX Runtime":
        import onnxruntime

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.inter_op_num_threads = OPTIONS.threads, 1
        session = onnxruntime.InferenceSession(str(onnx), settings, providers=["CPUExecutionProvider"])
        return lambda ids: session.run(None, arrays(ids))[0].mean(1)
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": OPTIONS.threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(onnx), "CPU", settings)
    return lambda ids: compiled(arrays(ids))[0].mean(1)


def work(name, folder):
    """A line of ids on standard input, a line of the mean of the hidden states on standard output."""
    run = loaded(name, Path(folder))
    if run is None:
        return
    import torch

    with torch.inference_mode():
        for line in sys.stdin:
            row = run([1000, *(int(word[1:]) for word in line.split()), 1001])
            print(*row[0].tolist(), flush=True)


class Engine:
    """A process that answers a line of words with a line of numbers."""

    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.embed("w1 w2 w3")

    def embed(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        return [float(number) for number in line.split()]

    def kilobytes(self, key):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(rf"{key}:\s+(\d+) kB", status)[1])

    def turn(self, text):
        """Seconds, and MiB beyond what was held before."""
        before = self.kilobytes("VmRSS")
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak begins anew
        time.sleep(0.02)
        taken = seconds(lambda: self.embed(text))
        return taken, (self.kilobytes("VmHWM") - before) / 1024


def engines(folder):
    yield Engine("qkv", [OPTIONS.program, "embed", "--model", str(folder), "--threads", str(OPTIONS.threads)])
    worker = [sys.executable, __file__, "--threads", str(OPTIONS.threads), "--worker"]
    for name in PEERS:
        if not re.search(OPTIONS.only, name):
            continue
        try:
            if name != "transformers sdpa" and not (folder / "model.onnx").exists():
                subprocess.run([*worker, name, str(folder)], check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            yield Engine(name, [*worker, name, str(folder)])
        except (RuntimeError, subprocess.CalledProcessError) as error:
            told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            print(f"{name}: {told[-1][:200]}", file=sys.stderr)


def race(folder):
    rows = []
    generator = random.Random(20261127)
    for length in OPTIONS.lengths:
        running = list(engines(folder))  # new ones: what a text before has left would count as held
        text = " ".join(f"w{generator.randrange(1, 1000)}" for _ in range(length - 2))
        first = {each.name: each.turn(text) for each in running}
        turns = {each.name: [first[each.name][0]] for each in running}
        for _ in range(OPTIONS.rounds - 1):
            for each in running:
                turns[each.name].append(each.turn(text)[0])
        ours = running[0].embed(text)
        for each in running:
            ratios = [theirs / own for theirs, own in zip(turns[each.name], turns["qkv"], strict=True)]
            there = each.embed(text) if each is not running[0] and length <= 512 else ours
            rows.append({"length": length, "name": each.name, "seconds": statistics.median(turns[each.name]),
                         "ratio": statistics.median(ratios), "memory": first[each.name][1],
                         "difference": max(abs(a - b) for a, b in zip(ours, there, strict=True))})  # fmt: skip
            print("{length:6} {name:18} {seconds:9.3f} s  {ratio:6.2f} of ours  {memory:8.1f} MiB  {difference:.0e}".format(**rows[-1]),
                  flush=True)  # fmt: skip
        for each in running:
            each.process.stdin.close()
            each.process.wait()
    write(OPTIONS.out, "long texts", OPTIONS, rows=rows)


if OPTIONS.worker:
    work(*OPTIONS.worker)
else:
    with tempfile.TemporaryDirectory() as temporary:
        make_model(Path(temporary))
        race(Path(temporary))
