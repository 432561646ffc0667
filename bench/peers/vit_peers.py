"""ViT-B/16 at 224 x 224 with random weights: ours, transformers on torch eager, ONNX Runtime and OpenVINO, in f32; and ours
in precision reduced, torch under autocast in bf16 and OpenVINO with the hint bf16. In turns.

    python bench/peers/vit_peers.py [--program build/release/bench/vit_turns] [--rounds 5]

Needs what requirements.txt lists in the Python that runs it. Prints rows of a table for 1 and 8 pictures and one and two
threads: the median milliseconds of ours, the share of the multiply-add peak in f32 that they reach (35.1 GFLOP a picture),
and how many times as long each of the others takes.
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

from side_by_side import REST

GFLOP = 35.1  # of a picture: 2 x 17.56 billion multiply-adds, counted from the layers


class Ours:
    """Our process, which lives beside this one; see bench/micro/vit_turns.cc."""

    def __init__(self, program, folder, *precision):
        self.process = subprocess.Popen([program, folder, *precision], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

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


def autocast(model):
    def run(pictures):
        with torch.autocast("cpu", torch.bfloat16):
            return model(pictures).float()

    return run


def open_vino(file, threads, precision):
    options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision}
    request = openvino.Core().compile_model(file, "CPU", options).create_infer_request()
    return lambda pictures: request.infer([pictures.numpy()], share_inputs=True)[0]


def race(kind, ours, peers, pictures, threads, rounds):
    """A row of the table; the first round warms up."""
    seconds, peaks = {name: [] for name in ("ours", *peers)}, []
    for _ in range(rounds + 1):
        time.sleep(REST)
        own, peak = ours.run(len(pictures), threads)
        seconds["ours"].append(own)
        peaks.append(peak)
        for name, peer in peers.items():
            time.sleep(REST)
            start = time.perf_counter()
            peer(pictures)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    own = medians.pop("ours")
    share = GFLOP * len(pictures) / own / (max(peaks) * threads)
    ratios = ", ".join(f"{name} {median / own:.2f}" for name, median in medians.items())
    cells = [len(pictures), threads, f"{kind} {1e3 * own:,.0f} ms", f"{share:.2f}", ratios]
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
        kinds = {"f32": Ours(options.program, folder), "bf16": Ours(options.program, folder, "reduced")}
        print("| pictures | threads | ours | share of the peak | the others |")
        print("| --- " * 5 + "|")
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for batch, file in files.items():
                pictures = torch.randn(batch, 3, 224, 224)
                expected = eager(pictures).numpy()
                for kind, ours in kinds.items():
                    if kind == "f32":
                        peers = {"torch": eager, "ONNX Runtime": onnx_runtime(file, threads)}
                    else:
                        peers = {"torch autocast": autocast(eager)}
                    peers["OpenVINO"] = open_vino(file, threads, kind)
                    for name, peer in peers.items():
                        # Another computation, a lower precision say, would be no peer.
                        error = numpy.abs(numpy.asarray(peer(pictures)) - expected).max()
                        assert error < (1e-3 if kind == "f32" else 0.1), f"{name}: {error}"
                    print(race(kind, ours, peers, pictures, threads, options.rounds), flush=True)


main()
