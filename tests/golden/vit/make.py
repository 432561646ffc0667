"""Makes what transformers 5 on torch 2.15 says about Vision Transformers with random weights.

    python make.py    a folder for each model, and NAME.safetensors: what it computes

NAME.safetensors holds for each size of picture i: pictures_i [batch, height, width, channels], hidden_i, the last hidden
states, and logits_i if there is a classifier, in float32, and hidden_f64_i and logits_f64_i in float64.
"""

import pathlib

import torch
from safetensors.torch import save_file
from transformers import (Dinov2Config, Dinov2ForImageClassification, Dinov2Model, ViTConfig, ViTForImageClassification,
                          ViTModel)

here = pathlib.Path(__file__).parent
assert torch.__version__.startswith("2.15"), torch.__version__

MODELS = {
    "vit": (ViTForImageClassification(ViTConfig(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, image_size=12, patch_size=4,
        num_labels=5)), [(3, 12, 12)]),
    "vit_gray": (ViTForImageClassification(ViTConfig(
        hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24, image_size=10, patch_size=5,
        num_channels=1, num_labels=2, hidden_act="relu", layer_norm_eps=1e-5)), [(2, 10, 10), (1, 15, 15)]),
    "vit_bare": (ViTModel(ViTConfig(
        hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=16, image_size=16, patch_size=8)),
        [(1, 16, 16), (2, 24, 40), (1, 8, 8)]),
    "dinov2": (Dinov2ForImageClassification(Dinov2Config(
        hidden_size=12, num_hidden_layers=2, num_attention_heads=3, mlp_ratio=2, image_size=21, patch_size=7,
        num_labels=3)), [(2, 21, 21), (1, 35, 28), (1, 9, 30)]),
    "dinov2_bare": (Dinov2Model(Dinov2Config(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, mlp_ratio=4, image_size=28, patch_size=14)),
        [(1, 28, 28), (1, 70, 42)]),
    "dinov2_relu": (Dinov2ForImageClassification(Dinov2Config(
        hidden_size=8, num_hidden_layers=3, num_attention_heads=1, mlp_ratio=3, image_size=20, patch_size=4,
        num_channels=2, num_labels=4, hidden_act="relu", layer_norm_eps=1e-3)), [(1, 20, 20), (2, 8, 12)]),
}


@torch.no_grad()
def make(name, model, sizes, generator):
    for parameter in model.parameters():
        parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    model.eval().save_pretrained(here / name)
    tensors = {}
    for i, (batch, height, width) in enumerate(sizes):
        pixels = torch.randn(batch, model.config.num_channels, height, width, generator=generator)
        tensors[f"pictures_{i}"] = pixels.permute(0, 2, 3, 1).contiguous()
        for suffix in ("", "_f64"):
            run = model.float() if suffix == "" else model.double()
            options = {"interpolate_pos_encoding": True} if name.startswith("vit") else {}
            base = getattr(run, run.base_model_prefix, run)
            values = pixels.to(next(run.parameters()).dtype)
            tensors[f"hidden{suffix}_{i}"] = base(values, **options).last_hidden_state.clone()
            if base is not run:
                tensors[f"logits{suffix}_{i}"] = run(values, **options).logits.clone()
    save_file(tensors, here / f"{name}.safetensors")


generator = torch.Generator().manual_seed(20261123)
for name, (model, sizes) in MODELS.items():
    make(name, model, sizes, generator)
