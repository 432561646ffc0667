"""Makes multi_head_attention.safetensors: torch 2.15's torch.nn.MultiheadAttention with all its options.

    python make.py        (needs torch 2.15 and safetensors)

Cases whose name begins with two_stage have their projections as our scheme of that name writes them: a shared matrix, then one
for each head, whose product torch is given.

Every case NAME holds its parameters as NAME.weights.PARAMETER, NAME.query and, if they differ from it, NAME.key and
NAME.value; perhaps NAME.attn_mask or NAME.key_padding_mask in torch's words (true = hidden, a float is added);
NAME.out_f64, NAME.weights_f64 (per head) and NAME.mean_weights_f64, computed in float64 from the same float32 numbers, and
NAME.out, computed in float32. Cases with rows that see no key have NAME.nan_out_f64, NAME.nan_weights_f64 and
NAME.nan_mean_weights_f64 instead of weights: what torch gives where weights are asked for. Batch first. The constructor's arguments stand in the metadata.
"""

import pathlib

import torch
from safetensors.torch import save_file

generator = torch.Generator().manual_seed(20261121)
tensors, metadata = {}, {}


def normal(*shape):
    return torch.randn(shape, generator=generator)


def hidden(*shape, share=0.4):
    """A mask in torch's words that leaves key 0 to everyone."""
    mask = torch.rand(shape, generator=generator) < share
    mask[..., 0] = False
    return mask


def run(layer, inputs, masks, dtype, **arguments):
    cast = lambda x: x if x is None or x.dtype == torch.bool else x.to(dtype)
    with torch.no_grad():
        return layer.to(dtype)(*map(cast, inputs), attn_mask=cast(masks[0]), key_padding_mask=cast(masks[1]), **arguments)


def case(name, config, query, key=None, value=None, attn_mask=None, key_padding_mask=None, rows_without_keys=False):
    layer = torch.nn.MultiheadAttention(batch_first=True, **config).eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(0.5 * normal(*parameter.shape))
    parameters = {k: v.clone() for k, v in layer.state_dict().items()}
    tensors.update({f"{name}.weights.{k}": v for k, v in parameters.items()})
    given = dict(query=query, key=key, value=value, attn_mask=attn_mask, key_padding_mask=key_padding_mask)
    tensors.update({f"{name}.{k}": v for k, v in given.items() if v is not None})
    metadata[name] = " ".join(f"{k}={int(v)}" for k, v in config.items())
    key = query if key is None else key
    inputs, masks = (query, key, key if value is None else value), (attn_mask, key_padding_mask)
    tensors[f"{name}.out"] = run(layer, inputs, masks, torch.float32, need_weights=False)[0].contiguous()
    tensors[f"{name}.out_f64"] = run(layer, inputs, masks, torch.float64, need_weights=False)[0].contiguous()
    if rows_without_keys:  # with weights asked for, torch gives NaN there
        out, weights = run(layer, inputs, masks, torch.float64, average_attn_weights=False)
        tensors[f"{name}.nan_out_f64"], tensors[f"{name}.nan_weights_f64"] = out.contiguous(), weights.contiguous()
        tensors[f"{name}.nan_mean_weights_f64"] = run(layer, inputs, masks, torch.float64)[1].contiguous()
        return
    out, weights = run(layer, inputs, masks, torch.float64, average_attn_weights=False)
    assert torch.allclose(out, tensors[f"{name}.out_f64"], atol=1e-12)
    tensors[f"{name}.weights_f64"] = weights.contiguous()
    mean = run(layer, inputs, masks, torch.float64, average_attn_weights=True)[1]
    tensors[f"{name}.mean_weights_f64"] = mean.contiguous()


def two_stage(name, config, query, key=None, value=None):
    """torch is given the products: y = weight (shared_weight x + shared_bias) + bias."""
    width, heads = config["embed_dim"], config["num_heads"]
    sizes = dict(query=width, key=config.get("kdim", width), value=config.get("vdim", width))
    own, matrices, biases = {}, {}, []
    for role, size in sizes.items():
        weight, bias = 0.5 * normal(heads, width // heads, width), 0.5 * normal(heads, width // heads)
        shared_weight, shared_bias = 0.5 * normal(width, size), 0.5 * normal(width)
        own.update({f"{role}.weight": weight, f"{role}.bias": bias})
        own.update({f"{role}.shared_weight": shared_weight, f"{role}.shared_bias": shared_bias})
        stage = weight.double().reshape(width, width)
        matrices[role] = stage @ shared_weight.double()
        biases.append(stage @ shared_bias.double() + bias.double().reshape(width))
    layer = torch.nn.MultiheadAttention(batch_first=True, **config).eval().double()
    with torch.no_grad():
        if layer.in_proj_weight is None:
            for role, matrix in matrices.items():
                getattr(layer, f"{role[0]}_proj_weight").copy_(matrix)
        else:
            layer.in_proj_weight.copy_(torch.cat(list(matrices.values())))
        layer.in_proj_bias.copy_(torch.cat(biases))
        for parameter in layer.out_proj.parameters():
            parameter.copy_(0.5 * normal(*parameter.shape))
    own.update({f"out_proj.{k}": v.float() for k, v in layer.out_proj.state_dict().items()})
    tensors.update({f"{name}.weights.{k}": v for k, v in own.items()})
    given = dict(query=query, key=key, value=value)
    tensors.update({f"{name}.{k}": v for k, v in given.items() if v is not None})
    metadata[name] = " ".join(f"{k}={int(v)}" for k, v in config.items())
    key = query if key is None else key
    inputs = (query, key, key if value is None else value)
    out, weights = run(layer, inputs, (None, None), torch.float64, average_attn_weights=False)
    tensors[f"{name}.out_f64"], tensors[f"{name}.weights_f64"] = out.contiguous(), weights.contiguous()
    tensors[f"{name}.mean_weights_f64"] = run(layer, inputs, (None, None), torch.float64)[1].contiguous()
    tensors[f"{name}.out"] = run(layer, inputs, (None, None), torch.float32)[0].contiguous()


small = dict(embed_dim=12, num_heads=3)
case("document", dict(embed_dim=6, num_heads=2), normal(2, 4, 6))
case("self", small, normal(2, 7, 12))
case("unbatched", small, normal(7, 12))
case("no_bias", dict(small, bias=False), normal(2, 5, 12))
case("cross", small, normal(2, 5, 12), normal(2, 9, 12))
case("three_inputs", small, normal(2, 5, 12), normal(2, 9, 12), normal(2, 9, 12))
case("other_sizes", dict(small, kdim=5, vdim=9), normal(2, 4, 12), normal(2, 6, 5), normal(2, 6, 9))
case("other_sizes_no_bias", dict(small, kdim=5, bias=False), normal(2, 4, 12), normal(2, 6, 5), normal(2, 6, 12))
case("bias_kv", dict(small, add_bias_kv=True), normal(2, 5, 12))
case("zero_attention", dict(small, add_zero_attn=True), normal(2, 5, 12))
case("bias_kv_zero_attention", dict(small, add_bias_kv=True, add_zero_attn=True), normal(2, 5, 12), normal(2, 4, 12))
case("other_sizes_bias_kv", dict(small, kdim=5, vdim=9, add_bias_kv=True), normal(2, 4, 12), normal(2, 6, 5), normal(2, 6, 9))
case("causal", small, normal(2, 6, 12), attn_mask=torch.ones(6, 6, dtype=torch.bool).triu(1))
case("mask", small, normal(2, 6, 12), normal(2, 8, 12), attn_mask=hidden(6, 8))
case("mask_per_head", small, normal(2, 6, 12), normal(2, 8, 12), attn_mask=hidden(6, 6, 8))
case("float_mask", small, normal(2, 6, 12), normal(2, 8, 12), attn_mask=normal(6, 8))
case("float_mask_per_head", small, normal(2, 6, 12), normal(2, 8, 12), attn_mask=normal(6, 6, 8))
case("padding", small, normal(2, 6, 12), key_padding_mask=torch.tensor([[False] * 6, [False] * 3 + [True] * 3]))
case("float_padding", small, normal(2, 6, 12), key_padding_mask=normal(2, 6))
case("unbatched_padding", small, normal(6, 12), key_padding_mask=hidden(6))
case("mask_padding", small, normal(2, 6, 12), attn_mask=hidden(6, 6), key_padding_mask=hidden(2, 6))
case("extras_mask_padding", dict(small, add_bias_kv=True, add_zero_attn=True), normal(2, 6, 12),
     attn_mask=hidden(6, 6), key_padding_mask=hidden(2, 6))
case("extras_float_masks", dict(small, add_bias_kv=True, add_zero_attn=True), normal(2, 6, 12),
     attn_mask=normal(6, 6, 6), key_padding_mask=normal(2, 6))
everything = torch.ones(2, 6, dtype=torch.bool)
everything[0] = False
case("extras_alone", dict(small, add_bias_kv=True), normal(2, 6, 12), key_padding_mask=everything)
case("rows_without_keys", small, normal(2, 6, 12), key_padding_mask=everything.clone(), rows_without_keys=True)
case("one_head", dict(embed_dim=5, num_heads=1), normal(1, 3, 5))
case("one_number_a_head", dict(embed_dim=4, num_heads=4), normal(3, 2, 4))
two_stage("two_stage", small, normal(2, 5, 12), normal(2, 7, 12), normal(2, 7, 12))
two_stage("two_stage_other_sizes", dict(small, kdim=5, vdim=9), normal(2, 4, 12), normal(2, 6, 5), normal(2, 6, 9))

assert torch.__version__.startswith("2.15"), torch.__version__
save_file(tensors, pathlib.Path(__file__).parent / "multi_head_attention.safetensors", metadata)
