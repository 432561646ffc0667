"""Sentence embeddings: qkv embed against transformers, ONNX Runtime and OpenVINO, in turns in one run.

    python bench/peers/embed_peers.py MODEL [--program build/release/bin/qkv] [--rounds 9] [--threads 1] [--only REGEX]
                                [--out FILE]

Needs torch 2.15, transformers, onnx, onnxruntime and openvino in the Python that runs it; models/get-minilm fetches a
MODEL. Ours is the program itself, text in and text out, with --weights f32, bf16 and int8_groups, and with --precision
reduced and reduced_pairs where the CPU has it. Theirs is the tokenizer, the
model, mean pooling and normalisation in this process, padded batches sorted by length, each of the size that was fastest
for it: transformers on torch, in f32 and as bf16; ONNX Runtime on its export with fused operators (onnxruntime.transformers) and on that
with dynamic int8 (quantize_dynamic, whole columns); OpenVINO on the export, in f32 and with the hint bf16, and on dynamic int8. Prints for 64 sentences
of 5 to 120 words the median of real tokens per second, the ratio to ours in f32, the worst and the mean cosine to
transformers, and how much an embedding changes when its text is alone; then the time of one short sentence, and from
the start of our process to its first embedding.
"""

import argparse
import random
import re
import statistics
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from side_by_side import medians, reduced_precisions, seconds, take_processors, write

BATCHES = (1, 4, 8, 16, 32)
LONGEST = 256

WORDS = """the animal street because was too tired robot must obey orders given by human beings light rain fell over an old
town while people walked home and talked about music numbers gardens their children a letter that never came strange
machines quiet rivers seven bridges morning bread winter stories who knows what tomorrow brings""".split()


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="peers whose name matches this pattern, beside ours in f32")
    parser.add_argument("--out", help="a file for report.py")
    options = parser.parse_args()
    take_processors(parser, options.threads)
    return options


OPTIONS = parse()

import numpy  # noqa: E402
import torch  # noqa: E402
from transformers import AutoModel, AutoTokenizer  # noqa: E402


def sentences(count, generator):
    lengths = [5 + round(115 * i / (count - 1)) for i in range(count)]
    generator.shuffle(lengths)
    return [" ".join(generator.choice(WORDS) for _ in range(length)) + "." for length in lengths]


class Ours:
    batch = None

    def __init__(self, options, option="--weights", word="f32"):
        command = [options.program, "embed", "--model", options.model, "--threads", str(options.threads), option, word]
        self.name = f"qkv {word.removesuffix('_groups')}"
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def embed(self, texts):
        self.process.stdin.write(("\n".join(texts) + "\n").encode())
        self.process.stdin.flush()
        return numpy.array([numpy.fromstring(self.process.stdout.readline(), sep=" ") for _ in texts])


class Peer:
    """The steps around hidden(inputs), which gives [batch, length, dim]."""

    batch = 16

    def __init__(self, name, tokenizer, hidden):
        self.name, self.tokenizer, self.hidden = name, tokenizer, hidden

    def embed(self, texts):
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        result = [None] * len(texts)
        for begin in range(0, len(order), self.batch):
            chosen = order[begin : begin + self.batch]
            inputs = self.tokenizer(
                [texts[i] for i in chosen], padding=True, truncation=True, max_length=LONGEST, return_tensors="np"
            )
            mask = inputs["attention_mask"][..., None].astype(numpy.float32)
            pooled = (self.hidden(inputs) * mask).sum(1) / mask.sum(1)
            for i, row in zip(chosen, pooled / numpy.linalg.norm(pooled, axis=1, keepdims=True)):
                result[i] = row
        return numpy.array(result)

    def choose_batch(self, texts):
        def turn(batch):
            self.batch = batch
            return min(seconds(lambda: self.embed(texts)) for _ in range(2))

        self.batch = min(BATCHES, key=turn)


def with_torch(model):
    @torch.inference_mode()
    def hidden(inputs):
        result = model(**{name: torch.from_numpy(array) for name, array in inputs.items()}).last_hidden_state
        return result.float().numpy()

    return hidden


def export(model, tokenizer, path):
    """The model as ONNX, of any batch and length."""

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.model(input_ids, attention_mask, token_type_ids).last_hidden_state

    inputs = tokenizer(["a text", "another text"], padding=True, return_tensors="pt")
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "batch", 1: "length"} for name in [*names, "hidden"]}
    torch.onnx.export(
        Hidden(), tuple(inputs[name] for name in names), path, input_names=names, output_names=["hidden"],
        dynamic_axes=axes, opset_version=17, dynamo=False,
    )  # fmt: skip


def with_onnx_runtime(path, threads):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, dict(inputs))[0]


def with_openvino(path, threads, precision="f32"):
    import openvino

    core = openvino.Core()
    settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": precision}
    compiled = core.compile_model(core.read_model(path), "CPU", settings)
    return lambda inputs: compiled(dict(inputs))[0]


def peers(options, folder):
    """Those that this Python has; what it has not is said."""
    tokenizer, model = AutoTokenizer.from_pretrained(options.model), AutoModel.from_pretrained(options.model).eval()
    yield Peer("transformers f32", tokenizer, with_torch(model))
    yield Peer("transformers bf16", tokenizer, with_torch(AutoModel.from_pretrained(options.model, dtype=torch.bfloat16).eval()))
    plain, fused, int8, plain_int8 = (str(folder / f"{n}.onnx") for n in ("plain", "fused", "int8", "plain_int8"))
    # "eager" is the attention whose operators onnxruntime.transformers knows to fuse.
    export(AutoModel.from_pretrained(options.model, attn_implementation="eager").eval(), tokenizer, plain)
    from onnx import TensorProto
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    fusions = FusionOptions("bert")
    config = model.config
    found = optimizer.optimize_model(
        plain, "bert", num_heads=config.num_attention_heads, hidden_size=config.hidden_size, optimization_options=fusions
    )
    print("fused by ONNX Runtime:", found.get_fused_operator_statistics(), file=sys.stderr)
    found.save_model_to_file(fused)
    quantize_dynamic(fused, int8, weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": TensorProto.FLOAT})
    quantize_dynamic(plain, plain_int8, weight_type=QuantType.QInt8)
    for name, make, path in (
        ("ONNX Runtime f32", with_onnx_runtime, fused),
        ("ONNX Runtime int8", with_onnx_runtime, int8),
        ("OpenVINO f32", with_openvino, plain),
        ("OpenVINO bf16", partial(with_openvino, precision="bf16"), plain),
        ("OpenVINO int8", with_openvino, plain_int8),
    ):
        try:
            peer = Peer(name, tokenizer, make(path, options.threads))
            peer.embed(["a text"])
            yield peer
        except Exception as error:  # noqa: BLE001 - each library has its own for what it cannot do
            print(f"{name}: {str(error).strip().splitlines()[0][:200]}", file=sys.stderr)


def race(options, engines, tokenizer):
    texts = sentences(64, random.Random(20261121))
    tokens = sum(len(ids) for ids in tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"])
    expected = next(each for each in engines if each.name == "transformers f32").embed(texts)
    for each in engines:
        if isinstance(each, Peer):
            each.choose_batch(texts)
    times = medians({each.name: lambda each=each: each.embed(texts) for each in engines}, options.rounds)
    print(f"{len(texts)} sentences, {tokens} tokens, {options.threads} threads\n")
    print("| | batch | tokens/s | of qkv f32 | worst cosine | mean cosine | alone |\n|" + " --- |" * 7)
    results = []
    for each in sorted(engines, key=lambda each: times[each.name]):
        rows = each.embed(texts)
        cosines = (rows * expected).sum(1) / numpy.linalg.norm(rows, axis=1) / numpy.linalg.norm(expected, axis=1)
        change = abs(numpy.concatenate([each.embed([text]) for text in texts]) - rows).max()
        print(
            f"| {each.name} | {each.batch or ''} | {tokens / times[each.name]:.0f} | "
            f"{times['qkv f32'] / times[each.name]:.2f} | {cosines.min():.5f} | {cosines.mean():.5f} | {change:.1e} |"
        )
        speed = tokens / times[each.name]
        results.append({"name": each.name, "batch": each.batch, "speed": speed, "cosine": float(cosines.min()), "alone": float(change)})
    short = ["The animal did not cross the street."]
    times = medians({each.name: lambda each=each: [each.embed(short) for _ in range(10)] for each in engines}, options.rounds)
    print("\none sentence: " + ", ".join(f"{name} {100 * time:.2f} ms" for name, time in times.items()))
    for each in results:
        each["short"] = 100 * times[each["name"]]
    write(options.out, "embedding", options, rows=results)


def first_embedding(options):
    ours = Ours(options)
    ours.embed(["Hello, world."])
    ours.process.kill()
    ours.process.wait()


def main(options):
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        engines = [Ours(options, "--weights", word) for word in ("f32", "bf16", "int8_groups")]
        engines += [Ours(options, "--precision", word) for word in reduced_precisions(options.program)]
        engines += [p for p in peers(options, Path(folder)) if p.name == "transformers f32" or re.search(options.only, p.name)]
        race(options, engines, AutoTokenizer.from_pretrained(options.model))
    starts = [seconds(lambda: first_embedding(options)) for _ in range(options.rounds)]
    print(f"start to first embedding: {1e3 * statistics.median(starts):.0f} ms (best {1e3 * min(starts):.0f})")


main(OPTIONS)
