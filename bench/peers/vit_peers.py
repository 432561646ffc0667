"""ViT-B/16 at 224 x 224 with random weights: ours against transformers on torch eager, interleaved in one run.

    python bench/peers/vit_peers.py [--program build/release/bench/vit_turns] [--rounds 5]

Needs torch 2.15 and transformers in the Python that runs it. Prints for 1 and 8 pictures and one and two threads the
medians, their ratio, and the share of the multiply-add peak that ours reaches (35.1 GFLOP a picture).
"""

import argparse
import statistics
import subprocess
import tempfile
import time

import torch
from transformers import ViTConfig, ViTModel

GFLOP = 35.1  # of a picture: 2 x 17.56 billion multiply-adds, counted from the layers

parser = argparse.ArgumentParser()
parser.add_argument("--program", default="build/release/bench/vit_turns")
parser.add_argument("--rounds", type=int, default=5)
options = parser.parse_args()

torch.manual_seed(1)
model = ViTModel(ViTConfig(), add_pooling_layer=False).eval()
with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
    model.save_pretrained(folder)
    ours = subprocess.Popen([options.program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for batch in (1, 8):
            pictures = torch.randn(batch, 3, 224, 224)
            mine, theirs, peaks = [], [], []
            for _ in range(options.rounds + 1):
                ours.stdin.write(f"{batch} {threads}\n")
                ours.stdin.flush()
                seconds, peak, _ = map(float, ours.stdout.readline().split())
                start = time.perf_counter()
                model(pictures)
                theirs.append(time.perf_counter() - start)
                mine.append(seconds)
                peaks.append(peak)
            own, other = statistics.median(mine[1:]), statistics.median(theirs[1:])
            share = GFLOP * batch / own / (max(peaks) * threads)
            print(f"{batch} pictures, {threads} threads: ours {1e3 * own:.0f} ms, torch {1e3 * other:.0f} ms, "
                  f"ratio {other / own:.2f}, {share:.2f} of the peak")
    ours.stdin.close()
