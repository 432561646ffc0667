"""ViT-B/16 at 224 x 224 with random weights: ours, transformers on torch eager, ONNX Runtime and OpenVINO, in turns.

    python bench/peers/vit_peers.py [--program build/release/bench/vit_turns] [--rounds 5]

Needs what requirements.txt lists, transformers 5.23 and onnxscript 0.7 in the Python that runs it. Prints a row of a
table for 1 and 8 pictures and one and two threads: the median milliseconds of ours, the share of the multiply-add peak
that they reach (35.1 GFLOP a picture), and how many times as long each of the others takes.
"""

import argparse
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnxruntime
import openvino
import torch
from transformers import ViTConfig, ViTModel

GFLOP = 35.1  # of a picture: 2 x 17.56 billion multiply-adds, counted from the layers


class Ours:
    """Our process, which lives beside this one; see bench/micro/vit_turns.cc."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, batch, threads):
        """Seconds, and the peak of one core in GFLOP/s."""
        print(batch, threads, file=self.process.stdin, flush=True)
        seconds, peak, _ = map(float, self.process.stdout.readline().split())
        return seconds, peak


class Hidden(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pictures):
        return self.model(pictures).last_hidden_state


def onnx_runtime(file, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    return lambda pictures: session.run(None, {"pictures": pictures.numpy()})[0]


def open_vino(file, threads):
    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(file, "CPU", options).create_infer_request()
    return lambda pictures: request.infer([pictures.numpy()], share_inputs=True)[0]


def race(ours, peers, pictures, threads, rounds):
    """A row of the table; the first round warms up."""
    seconds, peaks = {name: [] for name in ("ours", *peers)}, []
    for _ in range(rounds + 1):
        own, peak = ours.run(len(pictures), threads)
        seconds["ours"].append(own)
        peaks.append(peak)
        for name, peer in peers.items():
            start = time.perf_counter()
            peer(pictures)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    own = medians.pop("ours")
    share = GFLOP * len(pictures) / own / (max(peaks) * threads)
    ratios = [f"{median / own:.2f}" for median in medians.values()]
    cells = [len(pictures), threads, f"{1e3 * own:,.0f} ms", f"{share:.2f}", *ratios]
    return "| " + " | ".join(map(str, cells)) + " |"


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/release/bench/vit_turns")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.manual_seed(1)
    model = ViTModel(ViTConfig(), add_pooling_layer=False).eval()
    eager = Hidden(model).eval()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = {batch: str(pathlib.Path(folder, f"{batch}.onnx")) for batch in (1, 8)}
        for batch, file in files.items():
            torch.onnx.export(eager, (torch.zeros(batch, 3, 224, 224),), file, input_names=["pictures"], verbose=False)
        ours = Ours(options.program, folder)
        print("| pictures | threads | ours | share of the peak | torch | ONNX Runtime | OpenVINO |")
        print("| --- " * 7 + "|")
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for batch, file in files.items():
                peers = {"torch": eager}
                peers |= {"ONNX Runtime": onnx_runtime(file, threads), "OpenVINO": open_vino(file, threads)}
                pictures = torch.randn(batch, 3, 224, 224)
                expected = eager(pictures).numpy()
                for name, peer in peers.items():
                    # Another computation, a lower precision say, would be no peer.
                    assert numpy.abs(numpy.asarray(peer(pictures)) - expected).max() < 1e-3, name
                print(race(ours, peers, pictures, threads, options.rounds), flush=True)


main()
