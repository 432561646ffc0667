"""docs/benchmarks.md on standard output, from the files that the programs of this folder wrote: report.py FILE..."""

import json
import sys
import textwrap
from math import exp, log
from pathlib import Path

from report_commands import COMMANDS, lost, lost_by_commands, plural

OURS = "qkv"
SECTIONS = {
    "models": "Shapes of well-known models, f32. GFLOP/s; a causal mask halves the operations.",
    "backward": "The same shapes: gradients of q, k and v. GFLOP/s, counting 2.5 times forward's operations.",
    "training": "The same shapes, forward and backward. GFLOP/s, counting 3.5 times forward's operations.",
    "training variants": "Two of them with 16-bit numbers in memory, and with dropout of 0.1.",
    "random": "Random shapes, f32, as a check against tuning to the six models. GFLOP/s.",
    "masks": "f32. A quarter of the keys hidden: at the ends of sequences (`Mask::lengths`; padded), or scattered "
    "(`Mask::boolean`). All but the query's own and 128 keys before it (`Mask::window`), or all but its document's of 512 "
    "(`Mask::documents`). GFLOP/s, counting only pairs of query and key that may attend.",
    "half types": "16-bit numbers in memory. GFLOP/s. Reduced: qkv multiplies in bf16, too, as OpenVINO does for bf16, and "
    "torch on processors with AMX.",
    "decode": 'One query, grouped heads. GB/s of keys and values; "read" is a plain sum over the same arrays.',
}

INTRODUCTION = """# Benchmarks

Written by `bench/peers/run`, which compares qkv with other libraries on one machine: attention, and the commands that
embed, translate and train. A ratio above 1 means that qkv is faster. Only the last chapter was measured elsewhere;
its rows say where.

For attention the libraries alternate every 30 ms, on several threads after a rest, on the same numbers; the best run of all rounds
counts.

- Shapes are (batch, heads, length, head size); "8 on 2" are grouped heads, "512 x 64" are queries x keys.
- With one thread all run on one processor, and its processor time counts if it is below wall time, which excludes
  other programs. With two threads wall time counts.
- Arrays are laid out beforehand as each library prefers; compilation and first runs are not timed.
- torch: `scaled_dot_product_attention`, with `enable_gqa` and a boolean mask where needed; backward by
  `torch.autograd.grad`; the other libraries do not take part. ONNX Runtime: the operator Attention of opset 23.
  OpenVINO: `ScaledDotProductAttention`, the heads of a group given as queries, products in f32 for f16. JAX: `jit` of
  `dot_product_attention`. FlexAttention: `flex_attention` of torch, compiled, with a precomputed block mask; only for
  masks.
- "of peak" is qkv's share of the multiply-add peak of the same cores in f32. "error" is the largest difference from
  attention in f64, of qkv and the worst of the others; libraries that are wrong beyond rounding are left out.
"""

# The last chapter of the page, of other programs and machines: written by hand, and kept.
ELSEWHERE = "## Layers and whole models\n"


def geometric_mean(numbers):
    return exp(sum(map(log, numbers)) / len(numbers))


def peers_of(case):
    return {name: speed for name, speed in case["speeds"].items() if name != OURS}


def to_fastest(case):
    return case["speeds"][OURS] / max(peers_of(case).values())


def table(report, section, cases):
    names = [OURS, *(name for name in report["versions"] if any(name in case["speeds"] for case in cases))]
    decode = section == "decode"
    last = ["of read", "read"] if decode else ["of peak"]
    yield "| case | shape | " + " | ".join(names + last) + " | to fastest | to torch | error |"
    yield "| --- " * (len(names) + len(last) + 5) + "|"
    for case in cases:
        ours, peers = case["speeds"][OURS], peers_of(case)
        cells = [case["name"], case["shape"]]
        cells += [f"{case['speeds'][name]:.1f}" if name in case["speeds"] else "-" for name in names]
        cells += [f"{ours / case['read']:.2f}", f"{case['read']:.1f}"] if decode else [f"{ours / report['peak']:.2f}"]
        cells += [f"{to_fastest(case):.2f}", f"{ours / peers['torch']:.2f}" if "torch" in peers else "-"]
        cells.append(f"{case['errors'][OURS]:.0e}, {max(case['errors'][name] for name in peers):.0e}")
        yield "| " + " | ".join(cells) + " |"


def summary(report, title, cases):
    fastest = [to_fastest(case) for case in cases]
    torch = [case["speeds"][OURS] / case["speeds"]["torch"] for case in cases if "torch" in case["speeds"]]
    line = f"| {title} | {geometric_mean(fastest):.2f} | {min(fastest):.2f} | {geometric_mean(torch):.2f} |"
    if title.startswith("decode"):
        return f"{line} - |"
    return f"{line} {geometric_mean([case['speeds'][OURS] / report['peak'] for case in cases]):.2f} |"


def write(reports, commands):
    first = reports[0]
    yield INTRODUCTION
    yield "## The machine"
    yield ""
    yield f"{first['processor']}, {plural(first['processors'], 'processor')}, {first['date']};"
    yield ", ".join(f"{name} {version}" for name, version in first["versions"].items()) + "."
    if first["busy"] > 0.2:
        yield ""
        yield (
            f"Other programs kept {first['busy']:.1f} processors busy at the start: with one thread the "
            "last digits are noise, with two nothing but the sign of a large difference counts."
        )
    yield ""
    yield "| threads | multiply-add peak, f32 | reading memory | torch's plain matrix product |"
    yield "| --- | --- | --- | --- |"
    for report in reports:
        numbers = [f"{report['peak']:.0f} GFLOP/s", f"{report['bandwidth']:.1f} GB/s"]
        numbers.append(f"{report['torch_matmul']:.0f} GFLOP/s")
        yield f"| {report['threads']} | " + " | ".join(numbers) + " |"
    yield ""
    yield (
        "Where torch's plain product is far below the peak, its libraries do not use this processor's widest "
        "vectors, or the processor cannot sustain its peak while reading memory."
    )

    yield ""
    yield "## In short"
    yield ""
    yield "| geometric means | to the fastest of each row | worst row | to torch | of peak |"
    yield "| --- | --- | --- | --- | --- |"
    behind, skipped = list(lost_by_commands(commands)), {}
    for report in reports:
        for section in SECTIONS:
            cases = [case for case in report["cases"] if case["section"] == section]
            threads = plural(report["threads"], "thread")
            yield summary(report, f"{section}, {threads}", cases)
            for case in cases:
                behind += lost(f"{case['name']} {case['shape']}, {threads}", case["speeds"], OURS)
                for name, reason in case["skipped"].items():
                    skipped.setdefault((name, reason), []).append(f"{case['name']}, {threads}")

    yield ""
    yield "## What lost"
    yield ""
    for _, line in sorted(behind):
        yield f"- {line}"
    if not behind:
        yield "Nothing in this run."

    for report in reports:
        yield ""
        yield f"## {plural(report['threads'], 'thread').capitalize()}"
        for section, explanation in SECTIONS.items():
            yield ""
            yield f"**{section.capitalize()}.** {explanation}"
            yield ""
            yield from table(report, section, [case for case in report["cases"] if case["section"] == section])

    yield ""
    yield "## What did not run"
    yield ""
    for (name, reason), cases in skipped.items():
        yield f"- {name}: {'; '.join(cases)}: `{reason}`"
    if not skipped:
        yield "Everything ran."


def wrapped(page):
    """The page with its paragraphs and list entries in lines of at most 100 columns."""
    paragraph = []
    for line in [*page.split("\n"), ""]:
        follows = line and not line.startswith(("#", "|", "- "))
        if paragraph and not follows:
            rest = "  " if paragraph[0].startswith("- ") else ""
            yield textwrap.fill(
                " ".join(part.strip() for part in paragraph),
                100,
                subsequent_indent=rest,
                break_long_words=False,
                break_on_hyphens=False,
            )
            paragraph = []
        if follows or line.startswith("- "):
            paragraph.append(line)
        else:
            yield line


def main():
    files = []
    for path in sys.argv[1:]:
        with open(path) as file:
            files.append(json.load(file))
    commands = [file for file in files if "race" in file]
    pages = [write([file for file in files if "race" not in file], commands)]
    pages += [page([file for file in commands if file["race"] == name]) for name, page in COMMANDS.items()]
    pages = ["\n".join(page) for page in pages]
    page = Path(__file__).parents[2] / "docs/benchmarks.md"
    kept = page.read_text().partition(ELSEWHERE)[2]
    print("\n".join(wrapped("\n\n".join(pages))).rstrip(), ELSEWHERE + kept, sep="\n\n", end="")


main()
