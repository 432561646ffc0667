"""Our recurrent layers beside torch's, eager, in turns: seconds of each, and how many times torch's speed ours has.

    python recurrent_peers.py RECURRENT_TURNS [--rounds 7] [--seconds 0.3]

f32, one layer, one direction, 256 wide, batch 32, length 64; forward (no gradients kept), and forward and backward (to
input and parameters). The best of many runs counts on each side, and of the rounds the median of the ratios.
"""

import argparse
import statistics
import subprocess
import time

import torch

BATCH, LENGTH, SIZE = 32, 64, 256


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        answer = self.process.stdout.readline().strip()
        if not answer or answer.startswith("error"):
            raise SystemExit(f"{line}: {answer}")
        return answer


def best(action, seconds, threads):
    """On one thread the processor's time counts, on both sides, so that other programs' turns do not."""
    now = time.process_time if threads == 1 else time.perf_counter
    end, least = now() + seconds, float("inf")
    while now() < end or least == float("inf"):
        begin = now()
        action()
        least = min(least, now() - begin)
    return least


def actions(kind):
    model = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[kind](SIZE, SIZE, batch_first=True)
    x = torch.randn(BATCH, LENGTH, SIZE)
    trained, grad_out = x.clone().requires_grad_(), torch.randn(BATCH, LENGTH, SIZE)

    def forward():
        with torch.no_grad():
            model(x)

    def both():
        model(trained)[0].backward(grad_out)

    return {"forward": forward, "both": both}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()
    ours = Ours(options.program)
    print("| layer | threads | pass | ours, ms | torch, ms | times torch's speed |\n| --- | --- | --- | --- | --- | --- |")
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for kind in ("lstm", "gru", "rnn"):
            ours.ask(f"case {kind} {threads} {BATCH} {LENGTH} {SIZE}")
            for name, action in actions(kind).items():
                turns = [(float(ours.ask(f"run {options.seconds} {name}")), best(action, options.seconds, threads))
                         for _ in range(options.rounds)]
                ratio = statistics.median(theirs / own for own, theirs in turns)
                print(f"| {kind} | {threads} | {name} | {1e3 * min(t[0] for t in turns):.2f} | "
                      f"{1e3 * min(t[1] for t in turns):.2f} | {ratio:.2f} |", flush=True)


main()
