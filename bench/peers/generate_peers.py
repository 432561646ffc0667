"""Decoding beside llama.cpp and transformers: SmolLM2-135M-Instruct from its Q4_1 file, greedily, in turns.

    python bench/peers/generate_peers.py "$(models/get-smollm2)" [--program build/release/bin/qkv] [--llama FOLDER] [--threads 1]
        [--rounds 3] [--transformers]

Each engine writes 1 and 101 tokens behind a short prompt, as a process of its own; the difference of their processor time is what
100 tokens take, without loading and without reading the prompt. The best of the rounds counts. llama.cpp is npm's node-llama-cpp, of
which FOLDER has the node_modules, a copy of generate_llama.mjs beside them; transformers, of this Python, computes in f32 with the
widened weights.
"""
import argparse
import os
import pathlib
import resource
import subprocess
import sys

PROMPT = "Once upon a time there was a king who"
TRANSFORMERS = """
import sys, torch, transformers
torch.set_num_threads(int(sys.argv[2]))
folder, name = sys.argv[1].rsplit("/", 1)
model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
ids = tokenizer(sys.argv[4], return_tensors="pt")
model.generate(**ids, min_new_tokens=int(sys.argv[3]), max_new_tokens=int(sys.argv[3]), do_sample=False)
"""


def seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--llama")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transformers", action="store_true")
    options = parser.parse_args()

    def ours(storage):
        return lambda count: [options.program, "generate", "--model", options.model, "--weights", storage, "--greedy", "--threads",
                              options.threads, "--max-new-tokens", count, PROMPT]

    engines = {f"qkv {storage}": ours(storage) for storage in ("f32", "bf16", "int8_groups", "q4")}
    if options.llama:
        script = pathlib.Path(options.llama) / "generate_llama.mjs"
        engines["llama.cpp Q4_1"] = lambda count: ["node", script, os.path.abspath(options.model), options.threads, count, PROMPT]
    if options.transformers:
        engines["transformers f32"] = lambda count: [sys.executable, "-c", TRANSFORMERS, options.model, options.threads, count, PROMPT]
    best = {name: {"1": float("inf"), "101": float("inf")} for name in engines}
    for _ in range(options.rounds):
        for name, command in engines.items():
            for count in best[name]:
                best[name][count] = min(best[name][count], seconds(command(count)))
    times = {name: one["101"] - one["1"] for name, one in best.items()}
    for name, time in times.items():
        print(f"{name:20} {time:6.2f} s for 100 tokens, {times['qkv f32'] / time:5.2f} of the speed of qkv in f32", flush=True)


main()
