"""Python beside its peers, as ratios of processor time, the two sides of each in turns:

    python bench/peers/python_peers.py [--model FOLDER] [--program PATH] [--rounds N] [--wheel FILE]

- encode(): 64 texts of 5 to 120 words, Embedder beside SentenceTransformer on torch, ONNX Runtime with fused operators and
  OpenVINO, each at its best batch, and beside the program; 1 and 2 threads (needs sentence-transformers; onnxruntime with
  onnx, and openvino, if they are to take part; FOLDER: models/get-minilm prints it)
- a call of attention() on one query and key: Python beside C++ (compiled here against build/release), in microseconds
- the same of qkv.torch.attention(), without and with gradients, beside torch's own and an autograd.Function that computes
  nothing (needs torch)
- import numpy, qkv beside import numpy, in milliseconds
- with FILE, nothing but the program inside this wheel beside the released one, whole runs less their start: attention,
  its gradients, translation; and whether both write the same bytes (needs nanobind-backend)
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


class Exported:
    """The model in ONNX on another engine, as sentence-transformers' backend of its name runs it: batches sorted by length."""

    def __init__(self, folder, threads):
        from transformers import AutoTokenizer

        self.tokenizer, self.run = AutoTokenizer.from_pretrained(folder), self.open(export(folder), threads)

    def encode(self, given, batch_size):
        import numpy

        order = sorted(range(len(given)), key=lambda i: -len(given[i]))
        vectors = numpy.empty((len(given), 384), "f4")
        for begin in range(0, len(order), batch_size):
            chosen = order[begin : begin + batch_size]
            texts_of = [given[i] for i in chosen]
            tokens = self.tokenizer(texts_of, padding=True, truncation=True, max_length=256, return_tensors="np")
            ids, mask = tokens["input_ids"].astype("i8"), tokens["attention_mask"].astype("i8")
            pooled = (self.run(ids, mask) * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            vectors[chosen] = pooled / numpy.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors


class OnnxRuntime(Exported):
    def open(self, model, threads):
        import onnxruntime
        from onnxruntime.transformers.optimizer import optimize_model

        fused = str(Path(model).with_name("fused.onnx"))
        optimize_model(model, "bert", num_heads=12, hidden_size=384, opt_level=0).save_model_to_file(fused)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(fused, options, providers=["CPUExecutionProvider"])
        return lambda ids, mask: session.run(None, {"ids": ids, "mask": mask})[0]


class OpenVino(Exported):
    def open(self, model, threads):
        import openvino

        hints = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        compiled = openvino.Core().compile_model(model, "CPU", hints)
        return lambda ids, mask: compiled([ids, mask])[0]


def export(folder, kept={}):  # noqa: B006
    """The ONNX file of a model, made once."""
    import torch
    from transformers import AutoModel

    if not kept:
        kept["model"] = AutoModel.from_pretrained(folder).eval()
        kept["work"] = tempfile.TemporaryDirectory()

        class Hidden(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model = kept["model"]

            def forward(self, ids, mask):
                return self.model(input_ids=ids, attention_mask=mask).last_hidden_state

        example, names = torch.ones(2, 7, dtype=torch.long), ["ids", "mask", "hidden"]
        torch.onnx.export(
            Hidden(), (example, example), kept["work"].name + "/model.onnx", input_names=names[:2], output_names=names[2:],
            dynamic_axes={name: {0: "batch", 1: "tokens"} for name in names}, dynamo=False, opset_version=17,
        )  # fmt: skip
    return kept["work"].name + "/model.onnx"


def program(path, folder, threads):
    """A function that has `qkv embed` encode texts, and the seconds of its processor that this takes."""
    command = [path, "embed", "--model", folder, "--threads", str(threads)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def seconds():
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def run(given):
        process.stdin.write(("\n".join(given) + "\n").encode())
        process.stdin.flush()
        for _ in given:
            process.stdout.readline()

    return run, seconds


def encode(folder, path, rounds):
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import qkv
    import torch
    from sentence_transformers import SentenceTransformer

    ours, given = qkv.Embedder(folder), texts()
    peers = {"sentence-transformers": lambda _: SentenceTransformer(folder, device="cpu")}
    if importlib.util.find_spec("onnxruntime"):
        peers["ONNX Runtime"] = lambda threads: OnnxRuntime(folder, threads)
    if importlib.util.find_spec("openvino"):
        peers["OpenVINO"] = lambda threads: OpenVino(folder, threads)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for name, make in peers.items():
            peer = make(threads)
            difference = abs(ours.encode(given) - peer.encode(given, batch_size=8)).max()
            batches = (4, 8, 16, 32, 64)
            sides = [lambda batch=batch: peer.encode(given, batch_size=batch) for batch in batches]
            mine, *theirs = best(rounds, lambda: ours.encode(given, threads=threads), *sides)
            at, least = min(zip(batches, theirs), key=lambda pair: pair[1])
            print(f"encode, {threads} threads: {least / mine:.2f} times {name} at its best batch, {at} ({mine:.3f} s, {least:.3f} s); "
                  f"largest difference {difference:.0e}", flush=True)  # fmt: skip
        run, seconds = program(path, folder, threads)
        run(given)
        alone, begin = [], seconds()
        repeat = 8  # the clock of another process ticks 100 times a second
        for _ in range(rounds):
            for _ in range(repeat):
                run(given)
            alone.append((seconds() - begin) / repeat)
            begin = seconds()
        (mine,) = best(rounds * repeat, lambda: ours.encode(given, threads=threads))
        print(f"encode, {threads} threads: {min(alone) / mine:.2f} times the program, which also prints ({min(alone):.3f} s)")


def call(rounds):
    import numpy
    import qkv

    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "call.cc", Path(folder) / "call"
        source.write_text(CALL)
        needed = ["-lhwy", "-lfmt", "-lutf8proc", "-pthread"]  # by libqkv.a
        flags = ["-std=c++20", "-O2", f"-I{ROOT}/include", f"-L{ROOT}/build/release", f"-Wl,-rpath,{ROOT}/build/release"]
        subprocess.run(["g++", *flags, str(source), "-lqkv", *needed, "-o", str(program)], check=True)
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


def wheel(file, path, rounds):
    import numpy

    with tempfile.TemporaryDirectory() as folder:
        place, written = Path(folder), Path(folder) / "written"
        written.mkdir()
        subprocess.run([sys.executable, "-m", "zipfile", "-e", file, place / "unpacked"], check=True)
        draw = numpy.random.default_rng(1)
        for name in ("query", "key", "value", "grad-out"):
            numpy.save(place / f"{name}.npy", draw.standard_normal((1, 12, 4096, 64), "f4"))
        arrays = [part for name in ("query", "key", "value") for part in (f"--{name}", place / f"{name}.npy")]
        gradients = [part for name in ("query", "key", "value") for part in (f"--grad-{name}", written / f"grad-{name}.npy")]
        lines = "\n".join(f"{each.capitalize()}." for each in texts()) + "\n"
        model = Path(path).resolve().parents[1] / "share/qkv/models/en-es"
        jobs = {
            "attend": ["attend", *arrays, "--out", written / "out.npy"],
            "attend with gradients": ["attend", *arrays, "--out", written / "out.npy", "--grad-out", place / "grad-out.npy", *gradients],
            "translate": ["translate", "--model", model],
        }  # fmt: skip
        commands = ([path], [sys.executable, "-m", "qkv"])
        environment = os.environ | {"PYTHONPATH": str(place / "unpacked"), "QKV_THREADS": "1"}

        def run(command, arguments, given=""):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run([*command, *arguments], input=given.encode(), capture_output=True, check=True, env=environment)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            results = [done.stdout, *(file.read_bytes() for file in sorted(written.iterdir()))]
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, results

        start = [min(run(command, ["--version"])[0] for _ in range(rounds)) for command in commands]
        for name, arguments in jobs.items():
            least, results = [float("inf")] * 2, [None] * 2
            for _ in range(rounds):
                for side, command in enumerate(commands):
                    seconds, results[side] = run(command, arguments, lines if name == "translate" else "")
                    least[side] = min(least[side], seconds - start[side])
            same = "the same" if results[0] == results[1] else "different"
            print(f"{name}: the wheel at {least[0] / least[1]:.2f} of the program's speed ({least[1]:.2f} s, {least[0]:.2f} s), "
                  f"{same} bytes", flush=True)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--program", default=str(ROOT / "build/release/bin/qkv"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--wheel")
    options = parser.parse_args()
    if options.wheel:
        sys.exit(wheel(options.wheel, options.program, options.rounds))
    call(options.rounds)
    imports(options.rounds)
    if importlib.util.find_spec("torch"):
        tensors(options.rounds)
    if options.model:
        encode(options.model, options.program, options.rounds)
