"""Makes what transformers 5 on torch 2.15 says about small decoder-only models with random weights.

    python make.py

NAME/              a folder as save_pretrained writes it; gpt2/ has a byte-level tokenizer.json, too
NAME.safetensors   a ragged batch (ids, offsets), logits [tokens, vocab] and hidden [tokens, model_dim], the hidden states
                   behind the final norm, and greedy_N, what generate() writes behind sequence N
gpt2_text.json     texts, their ids, and what generate() makes of them
Every sequence is computed alone, so that nothing is padded. Rows of greedy_N end before a step whose two best logits are
within 1e-4 of each other.
"""

import json
import pathlib
import zlib

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, GPT2Config, GPTNeoXConfig, LlamaConfig,
                          MistralConfig, Phi3Config, PreTrainedTokenizerFast, Qwen2Config, Qwen3Config)

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

TEXTS = ["The cat sat on the mat.", "A cat was sitting on a mat", "caf\u00e9 \u4f60\u597d!", "x"]
SIZES = dict(vocab_size=40, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
             max_position_embeddings=256, bos_token_id=None, eos_token_id=None, pad_token_id=None)
GROUPED = dict(SIZES, num_key_value_heads=2)


def rope(**scaling):
    return {"rope_theta": 500.0, **scaling}


# The class, its config, and how it is saved.
CASES = {
    "gpt2": (GPT2Config, dict(vocab_size=300, n_positions=256, n_embd=16, n_layer=3, n_head=2, bos_token_id=0, eos_token_id=0),
             {}),
    "gpt2_scaled": (GPT2Config, dict(vocab_size=40, n_positions=256, n_embd=12, n_layer=2, n_head=3, n_inner=20,
                                     activation_function="relu", scale_attn_by_inverse_layer_idx=True, bos_token_id=None,
                                     eos_token_id=None), {}),
    "llama": (LlamaConfig, GROUPED, {"shard": "8KB"}),
    "llama3": (LlamaConfig, dict(GROUPED, head_dim=6, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                                 rope_parameters=rope(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                      original_max_position_embeddings=64)), {"dtype": torch.bfloat16}),
    "llama_linear": (LlamaConfig, dict(GROUPED, rope_parameters=rope(rope_type="linear", factor=3.0)), {}),
    "llama_yarn": (LlamaConfig, dict(SIZES, head_dim=8, rope_parameters=rope(rope_type="yarn", factor=4.0,
                                                                            original_max_position_embeddings=64)), {}),
    "llama_dynamic": (LlamaConfig, dict(GROUPED, max_position_embeddings=64,
                                        rope_parameters=rope(rope_type="dynamic", factor=4.0)), {}),
    "mistral": (MistralConfig, dict(GROUPED, sliding_window=5), {"dtype": torch.float16}),
    "phi3": (Phi3Config, dict(GROUPED, sliding_window=6, rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "qwen2": (Qwen2Config, GROUPED, {}),
    "qwen2_window": (Qwen2Config, dict(SIZES, num_key_value_heads=4, tie_word_embeddings=True, use_sliding_window=True,
                                       sliding_window=4, max_window_layers=1), {}),
    "qwen3": (Qwen3Config, dict(GROUPED, head_dim=6), {}),
    "gpt_neox": (GPTNeoXConfig, dict(SIZES, rope_parameters=rope(partial_rotary_factor=0.5)), {}),
    "gpt_neox_serial": (GPTNeoXConfig, dict(SIZES, hidden_size=12, num_attention_heads=3, use_parallel_residual=False,
                                            attention_bias=False, rope_parameters=rope(partial_rotary_factor=1.0)), {}),
    "gemma2": (Gemma2Config, dict(GROUPED, head_dim=6, num_hidden_layers=3, query_pre_attn_scalar=5, sliding_window=4,
                                  attn_logit_softcapping=3.0, final_logit_softcapping=4.0), {}),
    "gemma3": (Gemma3TextConfig, dict(GROUPED, head_dim=8, num_hidden_layers=3, query_pre_attn_scalar=7, sliding_window=4,
                                      layer_types=["sliding_attention", "full_attention", "sliding_attention"],
                                      rope_parameters={"sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
                                                       "full_attention": rope(rope_type="linear", factor=2.0)}), {}),
}


def randomise(model, generator):
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            scale = 3.0 if "wte" in name or "wpe" in name else 0.8 if parameter.dim() > 1 and "embed" not in name else 1.0
            own = scale * torch.randn(parameter.shape, generator=generator) * (0.35 if parameter.dim() > 1 else 0.2)
            parameter.copy_(own + (1 if parameter.dim() == 1 and "norm" in name and "bias" not in name else 0))
    model.tie_weights()
    return model.eval()


@torch.inference_mode()
def outputs(model, sequences):
    rows = [model(input_ids=ids[None], output_hidden_states=True) for ids in sequences]
    return (torch.cat([row.logits[0] for row in rows]).clone(), torch.cat([row.hidden_states[-1][0] for row in rows]).clone())


@torch.inference_mode()
def greedy(model, ids, count=200):
    out = model.generate(ids[None], attention_mask=torch.ones_like(ids[None]), do_sample=False, max_new_tokens=count,
                         eos_token_id=None, pad_token_id=0, output_scores=True, return_dict_in_generate=True)
    best = torch.stack(out.scores)[:, 0].topk(2).values
    close = ((best[:, 0] - best[:, 1]) < 1e-4).nonzero()
    end = int(close[0]) if len(close) else count
    return out.sequences[0, len(ids):len(ids) + end].int()


def byte_level(vocab):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(TEXTS * 3, trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return tokenizer


def write_texts(name, model, vocab):
    tokenizer = byte_level(vocab)
    tokenizer.save(str(here / name / "tokenizer.json"))
    fast = PreTrainedTokenizerFast(tokenizer_file=str(here / name / "tokenizer.json"))
    written = []
    for text in TEXTS:
        ids = torch.tensor(fast(text)["input_ids"])
        entry = {"text": text, "ids": ids.tolist()}
        for key, options in {"greedy": dict(max_new_tokens=24), "beams": dict(max_new_tokens=12, num_beams=3),
                             "penalty": dict(max_new_tokens=24, repetition_penalty=1.3),
                             "no_repeat": dict(max_new_tokens=24, no_repeat_ngram_size=2)}.items():
            with torch.inference_mode():
                out = model.generate(ids[None], attention_mask=torch.ones_like(ids[None]), do_sample=False, pad_token_id=0,
                                     **options)[0, len(ids):]
            entry[key] = out.tolist()
        entry["text_of_greedy"] = fast.decode(entry["greedy"], skip_special_tokens=True)
        written.append(entry)
    (here / f"{name}_text.json").write_text(json.dumps(written, indent=0) + "\n", encoding="ascii")


for name, (config_class, options, how) in CASES.items():
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    config = config_class(**options)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    randomise(model, generator)
    model.to(how.get("dtype", torch.float32)).save_pretrained(here / name, max_shard_size=how.get("shard", "1GB"))
    if name != "gpt2":
        (here / name / "generation_config.json").unlink(missing_ok=True)
    model = AutoModelForCausalLM.from_pretrained(here / name, dtype=torch.float32, attn_implementation="eager").eval()
    lengths = (5, 1, 23, 9)
    sequences = [torch.randint(config.vocab_size, (n,), generator=generator) for n in lengths]
    logits, hidden = outputs(model, sequences)
    written = {f"greedy_{i}": greedy(model, sequences[i]) for i in range(2)}
    print(name, float(logits.abs().max()), [len(x) for x in written.values()], [len(set(x.tolist())) for x in written.values()])
    save_file({"ids": torch.cat(sequences).int(), "offsets": torch.tensor([0, *lengths]).cumsum(0).int(), "logits": logits,
               "hidden": hidden, **written}, here / f"{name}.safetensors")
    if name == "gpt2":
        write_texts(name, model, config.vocab_size)
