"""Our convolutions beside torch's, eager, in turns: the best milliseconds of each, and how many times torch's speed ours has.

    python bench/peers/convolution_peers.py CONVOLUTION_TURNS [--rounds 7] [--seconds 0.3] [--threads 1 2]

Needs torch 2.15. f32; forward (no gradients kept), and forward and backward (to input, weight and bias). Ours have channels
last, torch's first, each as its library likes them; outputs are as long as inputs. The best run of all turns counts, so
that other programs' time does not.
"""

import argparse
import subprocess
import time

import torch

# name: batch, length, channels in and out, kernel, dilation
CASES = {
    "Conv1d, 256 channels, width 3, 8 x 512": (8, 512, 256, 256, 3, 1),
    "Conv1d, 256 channels, width 3, dilation 4, 8 x 512": (8, 512, 256, 256, 3, 4),
    "Conv1d, 64 channels, width 3, 32 x 64": (32, 64, 64, 64, 3, 1),
}


class Ours:
    """Our process, which lives beside this one; see bench/micro/convolution_turns.cc."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise SystemExit(f"convolution_turns: {answer or 'it ended'}")
        return answer


def best_seconds(action, seconds, threads):
    """As in convolution_turns.cc: on one thread the processor's time counts."""
    now = time.process_time if threads == 1 else time.perf_counter
    best, end = float("inf"), now() + seconds
    while best == float("inf") or now() < end:
        begin = now()
        action()
        best = min(best, now() - begin)
    return best


def torchs(batch, length, channels_in, channels_out, kernel, dilation):
    padding = (kernel - 1) * dilation // 2
    model = torch.nn.Conv1d(channels_in, channels_out, kernel, padding=padding, dilation=dilation)
    x = torch.randn(batch, channels_in, length)
    trained, grad_out = x.clone().requires_grad_(), torch.randn(batch, channels_out, length)

    def forward():
        with torch.no_grad():
            model(x)

    return {"forward": forward, "both": lambda: model(trained).backward(grad_out)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    ours = Ours(options.program)
    print("| layer | threads | pass | ours, ms | torch, ms | times torch's speed |\n| --- | --- | --- | --- | --- | --- |")
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, sizes in CASES.items():
            ours.ask("case", threads, *sizes)
            for which, action in torchs(*sizes).items():
                turns = [(float(ours.ask("run", options.seconds, which)), best_seconds(action, options.seconds, threads))
                         for _ in range(options.rounds)]
                best = [1e3 * min(side) for side in zip(*turns)]
                label = "forward" if which == "forward" else "forward and backward"
                print(f"| {name} | {threads} | {label} | {best[0]:.2f} | {best[1]:.2f} | {best[1] / best[0]:.2f} |", flush=True)


main()
