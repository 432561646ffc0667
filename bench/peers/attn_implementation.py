#!/usr/bin/env python3
"""bench/peers/attn_implementation.py [ROUNDS]: models of transformers end to end, attn_implementation "qkv" beside "sdpa".

On one thread; both in turn, ROUNDS times (5); the median of the ratios of processor time, sdpa by qkv: above 1 we are
faster. Needs torch, transformers and an importable qkv. Random weights in the sizes of the published models.
"""

import copy
import statistics
import sys
import time

import qkv.transformers
import torch
import transformers

torch.set_num_threads(1)
qkv.set_threads(1)
qkv.transformers.register()


def pair(config, kind):
    torch.manual_seed(0)
    make = getattr(transformers, kind)
    make = getattr(make, "from_config", None) or make._from_config
    models = {name: make(copy.deepcopy(config), attn_implementation=name) for name in ("sdpa", "qkv")}
    models["qkv"].load_state_dict(models["sdpa"].state_dict())
    return models


def race(name, models, run, rounds):
    ratios, seconds = [], {}
    for turn in range(rounds + 1):  # the first one warms up
        for kind in ("sdpa", "qkv") if turn % 2 else ("qkv", "sdpa"):
            begin = time.process_time()
            run(models[kind])
            seconds[kind] = time.process_time() - begin
        if turn:
            ratios.append(seconds["sdpa"] / seconds["qkv"])
    low, high = min(ratios), max(ratios)
    print(f"| {name} | {statistics.median(ratios):.2f} ({low:.2f} to {high:.2f}) | {seconds['qkv']:.2f} s |", flush=True)


def forward(ids):
    def run(model):
        with torch.no_grad():
            model.eval()(ids, use_cache=False)

    return run


def training(ids):
    def run(model):
        model.train().zero_grad()
        out = model(ids)
        (out.logits if "logits" in out else out.last_hidden_state).square().mean().backward()

    return run


def decoding(prompt, steps=16):
    """Tokens one at a time over a cache of `prompt` keys."""
    caches = {}

    def run(model):
        with torch.no_grad():
            if model not in caches:
                ids = torch.randint(0, 1000, (1, prompt))
                caches[model] = model.eval()(ids, use_cache=True).past_key_values
            cache = caches[model]
            for step in range(steps):
                model(torch.tensor([[step]]), past_key_values=cache, use_cache=True)
            cache.crop(-steps)

    return run


def ids_of(batch, length):
    torch.manual_seed(1)
    return torch.randint(0, 1000, (batch, length))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    only = sys.argv[2] if len(sys.argv) > 2 else ""
    gpt2 = transformers.GPT2Config(n_layer=4, n_positions=2048, vocab_size=1000)
    bert = transformers.BertConfig(num_hidden_layers=4, vocab_size=1000)
    llama = transformers.LlamaConfig(
        hidden_size=1024, num_hidden_layers=4, num_attention_heads=16, num_key_value_heads=4, intermediate_size=2816,
        vocab_size=1000, max_position_embeddings=8192,
    )  # fmt: skip
    races = (
        ("GPT-2, 1,024 tokens", gpt2, "AutoModelForCausalLM", forward(ids_of(1, 1024))),
        ("GPT-2, 2,048 tokens", gpt2, "AutoModelForCausalLM", forward(ids_of(1, 2048))),
        ("GPT-2, 1,024 tokens, training, dropout 0.1", gpt2, "AutoModelForCausalLM", training(ids_of(1, 1024))),
        ("BERT, 512 tokens, training, dropout 0.1", bert, "BertModel", training(ids_of(2, 512))),
        ("BERT, 8 x 128 tokens", bert, "BertModel", lambda model: forward_plain(model, ids_of(8, 128))),
        ("Llama, grouped heads, decoding over 4,096 keys", llama, "AutoModelForCausalLM", decoding(4096)),
    )
    print("| model | sdpa / qkv | qkv |\n| --- | --- | --- |")
    for name, config, kind, run in races:
        if only in name:
            race(name, pair(config, kind), run, rounds)


def forward_plain(model, ids):
    with torch.no_grad():
        model.eval()(ids)


if __name__ == "__main__":
    main()
