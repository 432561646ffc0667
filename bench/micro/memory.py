"""Memory of translating and training: the most that the process had at a time (maximum resident set size, by wait4), as Markdown.

    python bench/micro/memory.py [--program build/release/bin/qkv] [--model models/en-es] [--config configs/en-es.json]

Sentences and pairs are those of data/phrases.es.tsv, over and over. "Loaded" is the translation of one word; the training runs
for 10 updates.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--program", default=root / "build/release/bin/qkv")
parser.add_argument("--model", default=root / "models/en-es")
parser.add_argument("--config", default=root / "configs/en-es.json")
options = parser.parse_args()
pairs = [line.split("\t")[:2] for line in (root / "data/phrases.es.tsv").read_text().splitlines() if "\t" in line]


def peak(arguments, lines=()):
    """MiB, of the program with these lines as its input."""
    with tempfile.TemporaryFile("w+") as source:
        source.write("".join(line + "\n" for line in lines))
        source.seek(0)
        process = subprocess.Popen([options.program, *map(str, arguments)], stdin=source, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}: exit status {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss / 1024


def translation(sentences, *more):
    lines = [pairs[i % len(pairs)][0] for i in range(sentences)]
    return peak(["translate", "--model", options.model, *more], lines)


print("| translation, MiB | loaded | 100 sentences | 1,000 | 10,000 |")
print("| --- | --- | --- | --- | --- |")
for name, more in (("f32, 1 thread, 4 beams", ["--threads", 1]), ("f32, 2 threads, 4 beams", ["--threads", 2]),
                   ("f32, 1 thread, greedy", ["--threads", 1, "--beams", 1]),
                   ("bf16, 1 thread, greedy", ["--threads", 1, "--beams", 1, "--weights", "bf16"]),
                   ("int8, 1 thread, greedy", ["--threads", 1, "--beams", 1, "--weights", "int8"])):
    print(f"| {name} | " + " | ".join(f"{translation(n, *more):.0f}" for n in (1, 100, 1000, 10000)) + " |", flush=True)

config = json.loads(pathlib.Path(options.config).read_text())
config["training"].update(steps=10, validate_every=10, average=1)
print("\n| training, MiB | 1 thread | 2 threads |")
print("| --- | --- | --- |")
with tempfile.TemporaryDirectory() as folder:
    (pathlib.Path(folder) / "pairs.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs))
    for tokens in (1024, 4096):
        config["training"]["batch_tokens"] = tokens
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        found = []
        for threads in (1, 2):
            out = f"{folder}/{tokens}-{threads}"
            found.append(peak(["train", "--config", f"{folder}/config.json", "--train", f"{folder}/pairs.tsv", "--valid",
                               f"{folder}/pairs.tsv", "--tokenizer", f"{options.model}/tokenizer.json", "--out", out,
                               "--threads", threads]))
        print(f"| {tokens:,} tokens a batch | " + " | ".join(f"{value:.0f}" for value in found) + " |", flush=True)
