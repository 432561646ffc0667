"""Writing beside transformers, llama.cpp and mistral.rs, in turns: one token after the other, 512 tokens of a prompt, 16 lines together,
guesses, and the time from the start of the program to its first token.

    python bench/peers/generate_peers.py FOLDER [--gguf FILE] [--llama FOLDER] [--packed FOLDER] [--mistral]
        [--threads 1] [--seconds 200] [--program build/release/bin/qkv]
    python bench/peers/generate_peers.py --make-gpt2 FOLDER    makes a GPT-2 of 124 million random weights there, in bf16

FOLDER is one of Hugging Face, which qkv and transformers open; --gguf is the same model in 4 bits for q4 and llama.cpp, the
one of npm's node-llama-cpp, of which --llama has the node_modules, a copy of generate_llama.mjs beside them. Needs qkv, torch
and transformers; --mistral needs mistralrs, too, which takes texts: a word a token. Every engine writes as many tokens, greedily, whatever would end a text. Times are the best of the rounds that
begin within --seconds. A plain read is torch's sum, or product with themselves, of as many bytes as the weights of the layers and the output
have, on as many threads. The peak is that of `qkv bench`, and only products with weights count as work.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import torch
import transformers

import qkv

SHORT = [i * i % 997 + 40 for i in range(8)]
LONG = [i * i % 997 + 40 for i in range(512)]
LINES = [[(i + 3 * line) * i % 997 + 40 for i in range(8)] for line in range(16)]
LINE_TOKENS, TOKENS = 8, 48
STORAGES = {"f32": {}, "bf16": {"weights": "bf16"}, "reduced": {"precision": "reduced"}}
GAINS = [("one by one", "together"), ("repeating", "repeating, guessed"), ("other", "other, guessed")]
BYTES = {"f32": 4, "bf16": 2, "reduced": 2, "q4": 0.625}


def make_gpt2(folder):
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    model.to(torch.bfloat16).save_pretrained(folder)


class Ours:
    def __init__(self, path, storage, threads):
        self.generator, self.threads = qkv.Generator(path, **storage), threads

    def write(self, prompts, count, **options):
        return self.generator.generate(prompts, max_new_tokens=count, greedy=True, threads=self.threads, **options)

    def drafted(self, prompt, count):
        return self.write([prompt], count, draft="lookup")


class Transformers:
    def __init__(self, folder, dtype):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()

    def write(self, prompts, count, **options):
        ids = torch.tensor(prompts)
        with torch.inference_mode():
            all_ids = self.model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                min_new_tokens=count,
                max_new_tokens=count,
                do_sample=False,
                pad_token_id=0,
                **options,
            )
        return all_ids[:, ids.shape[1] :].tolist()

    def drafted(self, prompt, count):
        return self.write([prompt], count, prompt_lookup_num_tokens=7)


class Mistral:
    """mistral.rs, without its cache of prefixes, which would skip a prompt that it has read."""

    def __init__(self, kind, **options):
        import mistralrs

        self.runner = mistralrs.Runner(getattr(mistralrs.Which, kind)(**options), max_seqs=1, prefix_cache_n=0)
        self.request = mistralrs.CompletionRequest

    def write(self, prompts, count):
        text = " one" * len(prompts[0])
        request = self.request(text, "default", max_tokens=count, temperature=0, ignore_eos=True)
        usage = self.runner.send_completion_request(request).usage
        if (usage.prompt_tokens, usage.completion_tokens) != (len(prompts[0]), count):
            raise ValueError(f"mistral.rs read {usage.prompt_tokens} tokens and wrote {usage.completion_tokens}")


def mistrals(options):
    """mistral.rs on so many threads, which it asks for when it is imported."""
    os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    from mistralrs import Architecture, ModelDType

    plain = {"model_id": options.folder, "arch": Architecture.Llama}
    engines = {f"mistral.rs {name}": Mistral("Plain", **plain, dtype=dtype)
               for name, dtype in (("f32", ModelDType.F32), ("bf16", ModelDType.BF16))}
    if options.gguf:
        folder, file = os.path.split(options.gguf)
        engines["mistral.rs q4"] = Mistral("GGUF", quantized_model_id=folder, quantized_filename=file)
    return engines


def cases(repeating):
    """By name: what an engine does."""
    return {
        "first": lambda engine: engine.write([SHORT], 1),
        "decode": lambda engine: engine.write([SHORT], 1 + TOKENS),
        "prefill": lambda engine: engine.write([LONG], 1),
        "together": lambda engine: engine.write(LINES, LINE_TOKENS),
        "one by one": lambda engine: [engine.write([line], LINE_TOKENS) for line in LINES],
        "repeating": lambda engine: engine.write([repeating], TOKENS),
        "repeating, guessed": lambda engine: engine.drafted(repeating, TOKENS),
        "other": lambda engine: engine.write([LONG[:64]], TOKENS),
        "other, guessed": lambda engine: engine.drafted(LONG[:64], TOKENS),
    }


def seconds(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def first_token(program, folder, storage, threads):
    """From the start of the program to the first byte of its text."""
    command = [program, "generate", "--model", folder, "--greedy", "--threads", str(threads), "--max-new-tokens", "1"]
    command += [*storage, "The"]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.read(1)
        return time.perf_counter() - begin


def peak(program, threads, precision):
    """Of multiply-adds on so many threads, per second."""
    command = [program, "bench", "attention", "--q-len", "256", "--k-len", "256", "--json", "--threads", str(threads)]
    command += ["--dtype", "bf16", "--precision", "reduced"] if precision else []
    return 1e9 / 2 * json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["peak_gflops"]


def without_ends(folder, to):
    """The same folder, whose model never ends a text."""
    for file in pathlib.Path(folder).iterdir():
        if file.name != "generation_config.json":
            (to / file.name).symlink_to(file.resolve())
    (to / "generation_config.json").write_text("{}")
    return str(to)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--make-gpt2", action="store_true")
    parser.add_argument("--program", default="build/release/bin/qkv")
    parser.add_argument("--gguf")
    parser.add_argument("--llama")
    parser.add_argument("--mistral", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=200)
    parser.add_argument("--packed", help="a folder after `qkv pack --weights bf16`, for the time to its first token")
    options = parser.parse_args()
    if options.make_gpt2:
        return make_gpt2(options.folder)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as endless:
        folder = without_ends(options.folder, pathlib.Path(endless))
        engines = {f"qkv {name}": Ours(folder, storage, options.threads) for name, storage in STORAGES.items()}
        if options.gguf:
            engines["qkv q4"] = Ours(options.gguf, {"weights": "q4"}, options.threads)
        engines["transformers f32"] = Transformers(folder, torch.float32)
        engines["transformers bf16"] = Transformers(folder, torch.bfloat16)
        mistral = mistrals(options) if options.mistral else {}
    # The tables of positions and embeddings are not multiplied by; an output that is tied to the latter is.
    model = engines["transformers f32"].model
    matrices = sum(p.numel() for name, p in model.named_parameters() if p.dim() == 2 and "wpe" not in name)
    output = model.get_output_embeddings().weight.numel()
    if model.get_output_embeddings().weight is not model.get_input_embeddings().weight:
        matrices -= output
    words = torch.ones(matrices // 2, dtype=torch.int64)  # written: memory that was not is read from one page
    numbers = words.view(torch.float32)
    best, read = {name: {} for name in engines}, float("inf")
    llama = {}
    repeating = LONG[:24] * 4
    end = time.perf_counter() + options.seconds
    while time.perf_counter() < end:
        for case, work in cases(repeating).items():
            for name, engine in engines.items():
                best[name][case] = min(best[name].get(case, float("inf")), seconds(lambda: work(engine)))
            read = min(read, seconds(lambda: torch.sum(words)), seconds(lambda: torch.dot(numbers, numbers)))
        for name, engine in mistral.items():
            own = best.setdefault(name, {})
            for case in ("first", "decode", "prefill"):
                own[case] = min(own.get(case, float("inf")), seconds(lambda: cases(repeating)[case](engine)))
        if options.llama and options.gguf:
            script = pathlib.Path(options.llama) / "generate_llama.mjs"
            command = ["node", script, os.path.abspath(options.gguf), str(options.threads)]
            command += [json.dumps(SHORT), json.dumps(LONG)]
            found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            llama = {case: min(value, llama.get(case, value)) for case, value in found.items()}
    rate = 4 * matrices / read
    peaks = {False: peak(options.program, options.threads, False), True: peak(options.program, options.threads, True)}
    print(f"{options.threads} threads, {matrices / 1e6:.1f} million weights multiplied by, plain read {rate / 1e9:.1f} GB/s, "
          f"peak {peaks[False] / 1e9:.0f} and, in tiles, {peaks[True] / 1e9:.0f} * 10^9 multiply-adds a second")
    print("| engine | ms a token | of a plain read | 512 tokens, ms | of the peak | 16 lines together | repeating, guessed |"
          " other, guessed |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, found in best.items():
        storage = name.split()[1]
        token = (found["decode"] - found["first"]) / TOKENS
        share = BYTES[storage] * matrices / rate / token
        work = (matrices - output) * len(LONG) + output
        of_peak = work / found["prefill"] / peaks[name == "qkv reduced"]
        gains = [f"{found[plain] / found[faster]:.2f}" if plain in found else "-" for plain, faster in GAINS]
        print(f"| {name} | {1e3 * token:.2f} | {share:.2f} | {1e3 * found['prefill']:.0f} | {of_peak:.2f} | {' | '.join(gains)} |")
    if llama:
        token = 1e-3 * llama["decode"] / TOKENS
        share = BYTES["q4"] * matrices / rate / token
        print(f"| llama.cpp Q4_1 | {1e3 * token:.2f} | {share:.2f} | {llama['prefill']:.0f} | - | - | - | - |")
    if options.packed:
        times = [first_token(options.program, options.packed, ["--weights", "bf16"], options.threads) for _ in range(20)]
        print(f"start to first token, packed in bf16: {1e3 * min(times):.0f} ms")


main()
