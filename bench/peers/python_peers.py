"""Python beside its peers, as ratios of processor time, the two sides of each in turns:

    python bench/peers/python_peers.py [--model FOLDER] [--rounds N]

- encode(): 64 texts of 5 to 120 words, Embedder beside SentenceTransformer on torch, with 1 and 2 threads (needs
  sentence-transformers; FOLDER: models/get-minilm prints it)
- a call of attention() on one query and key: Python beside C++ (compiled here against build/release), in microseconds
- the same of qkv.torch.attention(), without and with gradients, beside torch's own and an autograd.Function that computes
  nothing (needs torch)
- import numpy, qkv beside import numpy, in milliseconds
"""

import argparse
import importlib.util
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CALL = """
#include <cstdio>
#include <ctime>
#include "qkv/attention.h"
int main() {
  const qkv::Tensor x = qkv::Tensor::zeros({1, 1, 1, 16});
  qkv::Tensor out = qkv::Tensor::zeros({1, 1, 1, 16});
  constexpr int kCalls = 200000;
  for (int warm = 0; warm < 2; ++warm) {
    const std::clock_t begin = std::clock();
    for (int i = 0; i < kCalls; ++i) qkv::attention(x, x, x, out, {.threads = 1});
    if (warm) std::printf("%f\\n", 1e6 * double(std::clock() - begin) / CLOCKS_PER_SEC / kCalls);
  }
}
"""


def best(rounds, *sides):
    """The least processor seconds of each side, run in turns: the machine may be busy."""
    least = [float("inf")] * len(sides)
    for _ in range(rounds):
        for i, side in enumerate(sides):
            begin = time.process_time()
            side()
            least[i] = min(least[i], time.process_time() - begin)
    return least


def texts():
    draw = random.Random(1)
    words = "the model reads a text and gives numbers for its meaning while nobody waits long".split()
    return [" ".join(draw.choice(words) for _ in range(draw.randint(5, 120))) for _ in range(64)]


def encode(folder, rounds):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import qkv
    import torch
    from sentence_transformers import SentenceTransformer

    ours, theirs, given = qkv.Embedder(folder), SentenceTransformer(folder, device="cpu"), texts()
    difference = abs(ours.encode(given) - theirs.encode(given)).max()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for batch in (8, 32, 64):
            a, b = best(rounds, lambda: ours.encode(given, threads=threads), lambda: theirs.encode(given, batch_size=batch))
            print(f"encode, {threads} threads, their batch {batch}: {b / a:.2f} times sentence-transformers ({a:.3f} s, {b:.3f} s)")
    print(f"the largest difference: {difference:.1e}")


def call(rounds):
    import numpy
    import qkv

    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "call.cc", Path(folder) / "call"
        source.write_text(CALL)
        flags = ["-std=c++20", "-O2", f"-I{ROOT}/include", f"-L{ROOT}/build/release", f"-Wl,-rpath,{ROOT}/build/release"]
        subprocess.run(["g++", *flags, str(source), "-lqkv", "-o", str(program)], check=True)
        x, out = numpy.zeros((1, 1, 1, 16), "f4"), numpy.zeros((1, 1, 1, 16), "f4")
        calls = 50000
        cpp, python, plain, whole = [], [], [], []

        def timed(body):
            begin = time.process_time()
            for _ in range(calls):
                body()
            return 1e6 * (time.process_time() - begin) / calls

        for _ in range(rounds):
            cpp.append(float(subprocess.run([program], capture_output=True, text=True, check=True).stdout))
            python.append(timed(lambda: qkv.attention(x, x, x, threads=1, out=out)))
            whole.append(timed(lambda: qkv.attention(x, x, x)))
            plain.append(timed(lambda: None))
    empty = min(plain)
    print(f"a call in C++: {min(cpp):.2f} us; in Python with out and threads: {min(python) - empty:.2f} us, "
          f"{min(python) - empty - min(cpp):.2f} more; with a new output: {min(whole) - empty:.2f} us")  # fmt: skip


def tensors(rounds):
    import torch
    from qkv.torch import attention

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, query, key, value):
            ctx.save_for_backward(query, key, value)
            return torch.empty_like(query)

        @staticmethod
        def backward(ctx, grad_out):
            return tuple(torch.empty_like(tensor) for tensor in ctx.saved_tensors)

    torch.set_num_threads(1)
    theirs = torch.nn.functional.scaled_dot_product_attention
    for shape in ((1, 1, 1, 16), (1, 8, 16, 64)):
        inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
        grad_out = torch.ones(shape)
        alone = [tensor.detach() for tensor in inputs]

        def forward(call):
            return lambda: [call(*alone) for _ in range(4)]

        def both(call):
            return lambda: [torch.autograd.grad(call(*inputs), inputs, grad_out) for _ in range(4)]

        sides = [forward(call) for call in (attention, theirs)] + [both(call) for call in (attention, theirs, Nothing.apply)]
        ours, other, ours_both, other_both, nothing = (1e6 * each / 4 for each in best(400 * rounds, *sides))
        print(f"qkv.torch.attention, {list(shape)}: {ours:.1f} us, torch's {other:.1f}; forward and backward {ours_both:.1f}, "
              f"torch's {other_both:.1f}, a function that computes nothing {nothing:.1f}")  # fmt: skip


def imports(rounds):
    def milliseconds(code):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    pairs = [(milliseconds("import numpy"), milliseconds("import numpy, qkv")) for _ in range(3 * rounds)]
    numpy_alone, with_qkv = (min(side) for side in zip(*pairs))
    print(f"import numpy: {numpy_alone:.0f} ms; import numpy, qkv: {with_qkv:.0f} ms, {with_qkv - numpy_alone:.0f} more "
          f"(median of pairs {statistics.median(b - a for a, b in pairs):.0f})")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    call(options.rounds)
    imports(options.rounds)
    if importlib.util.find_spec("torch"):
        tensors(options.rounds)
    if options.model:
        encode(options.model, options.rounds)
