"""Makes what transformers 5 on torch 2.15 says about how these models write 12 tokens of the third sequence of make.py.

    python explain.py

NAME_explain.safetensors   ids [13], the first 12 of which are read; attentions [layers, heads, 12, 12], as
                           output_attentions gives them; lens [layers, 12, vocab], the log-probabilities that final norm,
                           output and cap make of what each layer passes on; log_probabilities [12], of the next ids; gradients
                           [layers, heads, 12, 12], of log_probabilities[10] with respect to the attentions; and without_head
                           [layers, heads, 12], the log-probabilities if the output of that head is 0; of models without
                           windows also without_key [12, 12]: if that key is hidden (not key 0, without which token 0 sees none)
"""

import pathlib

import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
here = pathlib.Path(__file__).parent
COUNT, WRITTEN = 12, 10
# Where heads are joined, and the final norm.
PLACES = {
    "gpt2": ("transformer.h.{}.attn.c_proj", "transformer.ln_f"),
    "llama": ("model.layers.{}.self_attn.o_proj", "model.norm"),
    "mistral": ("model.layers.{}.self_attn.o_proj", "model.norm"),
    "qwen3": ("model.layers.{}.self_attn.o_proj", "model.norm"),
    "gemma2": ("model.layers.{}.self_attn.o_proj", "model.norm"),
    "gpt_neox": ("gpt_neox.layers.{}.attention.dense", "gpt_neox.final_layer_norm"),
}

for name, (joined, norm) in PLACES.items():
    model = AutoModelForCausalLM.from_pretrained(here / name, dtype=torch.float32, attn_implementation="eager").eval()
    golden = load_file(here / f"{name}.safetensors")
    ids = golden["ids"][golden["offsets"][2]:][:COUNT + 1].long()
    read, following = ids[None, :COUNT], ids[1:, None]

    def log_probabilities(**options):
        return model(input_ids=read, **options).logits[0].log_softmax(-1).gather(1, following)[:, 0]

    # What each layer passes on, before the final norm.
    passed_on = []
    layers = model.get_submodule(joined.split(".{}")[0])
    hooks = [layer.register_forward_hook(lambda _, __, out: passed_on.append(out[0] if isinstance(out, tuple) else out))
             for layer in layers]
    out = model(input_ids=read, output_attentions=True)
    for hook in hooks:
        hook.remove()
    own = out.logits[0].log_softmax(-1).gather(1, following)[:, 0]
    gradients = torch.autograd.grad(own[WRITTEN], out.attentions)
    cap = getattr(model.config, "final_logit_softcapping", None)

    def lens(rows):
        logits = model.get_output_embeddings()(model.get_submodule(norm)(rows))[0]
        return ((logits / cap).tanh() * cap if cap else logits).log_softmax(-1)

    with torch.no_grad():
        read_out = torch.stack([lens(rows) for rows in passed_on])
        assert torch.allclose(read_out[-1], out.logits[0].log_softmax(-1), atol=1e-5), name
        heads = out.attentions[0].shape[1]
        without_head = []
        for layer in range(len(layers)):
            for head in range(heads):
                def zero(module, inputs, head=head):
                    merged = inputs[0].clone()
                    size = merged.shape[-1] // heads
                    merged[..., head * size:(head + 1) * size] = 0
                    return (merged, *inputs[1:])

                hook = model.get_submodule(joined.format(layer)).register_forward_pre_hook(zero)
                without_head.append(log_probabilities())
                hook.remove()
        written = {}
        if name in ("gpt2", "llama", "qwen3"):
            rows = [torch.zeros(COUNT)]
            for key in range(1, COUNT):
                visible = torch.ones(COUNT, COUNT).tril()
                visible[:, key] = 0
                mask = torch.where(visible > 0, 0.0, torch.finfo(torch.float32).min)[None, None]
                rows.append(log_probabilities(attention_mask=mask))
            written["without_key"] = torch.stack(rows)
    save_file({"ids": ids.int(), "attentions": torch.cat(out.attentions).detach(), "lens": read_out.contiguous(),
               "log_probabilities": own.detach(), "gradients": torch.cat(gradients),
               "without_head": torch.stack(without_head).reshape(len(layers), heads, COUNT), **written},
              here / f"{name}_explain.safetensors")
