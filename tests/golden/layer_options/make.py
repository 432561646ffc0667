"""Makes layer_options.safetensors: the decoders of transformers 5.23 whose layers have the options that torch's lack.

    python make.py        (needs torch 2.15, transformers 5.23 and safetensors)

Every case NAME (llama, qwen2, gemma2, gptj: two layers each, float64, random weights) holds the input NAME.x, NAME.out after the
final norm, causal, and the parameters NAME.weights.PARAMETER under our names.
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers import Gemma2Config, Gemma2Model, GPTJConfig, GPTJModel, LlamaConfig, LlamaModel, Qwen2Config, Qwen2Model

torch.manual_seed(20261123)
tensors = {}
shape = {"vocab_size": 9, "hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 32, "attn_implementation": "eager"}


def put(name, part, weight):
    tensors[f"{name}.weights.{part}"] = weight.detach().clone().contiguous()


def run(name, model, norms, one_plus=0.0):
    """Norms: pairs of our name and theirs, of each layer; `one_plus` is added to their weights."""
    model = model.double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    with torch.no_grad():
        out = model(inputs_embeds=torch.randn(1, 9, 16, dtype=torch.float64), output_hidden_states=True)
    tensors[f"{name}.x"], tensors[f"{name}.out"] = out.hidden_states[0][0].clone(), out.last_hidden_state[0].clone()
    state = {k: v for k, v in model.state_dict().items()}
    gptj = name == "gptj"
    for i in range(2):
        ours, theirs = f"layers.{i}.", f"h.{i}." if gptj else f"layers.{i}."
        attention = theirs + ("attn." if gptj else "self_attn.")
        roles = [attention + role for role in ("q_proj", "k_proj", "v_proj")]
        put(name, ours + "self_attn.in_proj_weight", torch.cat([state[r + ".weight"] for r in roles]))
        if roles[0] + ".bias" in state:
            put(name, ours + "self_attn.in_proj_bias", torch.cat([state[r + ".bias"] for r in roles]))
        last = "out_proj" if gptj else "o_proj"
        put(name, ours + "self_attn.out_proj.weight", state[attention + last + ".weight"])
        for to, source in (("linear1", "mlp.fc_in"), ("linear2", "mlp.fc_out")) if gptj else (
                ("linear1", "mlp.gate_proj"), ("linear2", "mlp.down_proj"), ("linear3", "mlp.up_proj")):
            for kind in ("weight", "bias"):
                if f"{theirs}{source}.{kind}" in state:
                    put(name, f"{ours}{to}.{kind}", state[f"{theirs}{source}.{kind}"])
        for to, source in norms:
            put(name, f"{ours}{to}.weight", state[f"{theirs}{source}.weight"] + one_plus)
            if f"{theirs}{source}.bias" in state:
                put(name, f"{ours}{to}.bias", state[f"{theirs}{source}.bias"])
    final = "ln_f" if gptj else "norm"
    put(name, "norm.weight", state[final + ".weight"] + one_plus)
    if final + ".bias" in state:
        put(name, "norm.bias", state[final + ".bias"])


pre = [("norm1", "input_layernorm"), ("norm2", "post_attention_layernorm")]
run("llama", LlamaModel(LlamaConfig(**shape, rms_norm_eps=1e-5)), pre)
run("qwen2", Qwen2Model(Qwen2Config(**shape, rms_norm_eps=1e-5)), pre)
run("gemma2", Gemma2Model(Gemma2Config(**shape, head_dim=6, query_pre_attn_scalar=5, sliding_window=3, rms_norm_eps=1e-5,
                                       attn_logit_softcapping=2.0, hidden_activation="gelu_pytorch_tanh",
                                       layer_types=["sliding_attention", "full_attention"])),
    [("norm1", "input_layernorm"), ("norm1.after", "post_attention_layernorm"), ("norm2", "pre_feedforward_layernorm"),
     ("norm2.after", "post_feedforward_layernorm")], one_plus=1.0)
run("gptj", GPTJModel(GPTJConfig(vocab_size=9, n_embd=16, n_inner=20, n_layer=2, n_head=4, rotary_dim=4, n_positions=32,
                                 attn_implementation="eager")), [("norm1", "ln_1")])
save_file(tensors, pathlib.Path(__file__).with_name("layer_options.safetensors"))
