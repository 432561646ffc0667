"""Tiny models of every class of transformers, and inputs for them: no table of models, only of the names of sizes."""

import dataclasses
import importlib
import inspect
import os

import torch
import transformers
from transformers import PreTrainedConfig, PreTrainedModel

VOCABULARY = 97
TOKENS = 12
IMAGE = 32

# The name of a size, in any config: what it becomes.
SIZES = {
    64: "hidden_size d_model n_embd embed_dim dim hidden_dim encoder_hidden_size decoder_hidden_size intermediate_size "
    "encoder_ffn_dim decoder_ffn_dim ffn_dim d_ff n_inner mlp_dim moe_intermediate_size shared_expert_intermediate_size "
    "projection_dim feed_forward_proj_dim dim_feedforward embedding_size text_hidden_size encoder_hidden_dim d_inner "
    "expert_hidden_size ffn_hidden_size shared_intermediate_size moe_shared_expert_intermediate_size intermediate_dim "
    "emb_dim expert_ffn_hidden_size out_hidden_size output_dim lru_width fusion_hidden_size "
    "classifier_proj_size decoder_intermediate_size word_embed_proj_dim projector_hidden_size".split(),
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads attention_heads "
    "decoder_num_attention_heads encoder_num_attention_heads num_experts num_local_experts n_routed_experts "
    "moe_num_experts index_n_heads num_key_value_heads_encoder "
    "mamba_n_heads linear_num_key_heads linear_num_value_heads".split(),
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_encoder_layers num_decoder_layers "
    "num_key_value_heads n_kv_heads num_experts_per_tok moe_topk moe_k depth decoder_num_hidden_layers "
    "encoder_num_hidden_layers num_blocks".split(),
    1: "n_group topk_group n_shared_experts num_codebooks num_mtp_layers num_nextn_predict_layers".split(),
    16: "hidden_size_per_layer_input entity_emb_size head_dim d_kv v_head_dim qk_nope_head_dim kv_lora_rank q_lora_rank "
    "mamba_d_state linear_key_head_dim "
    "linear_value_head_dim index_head_dim mamba_d_head attention_head_dim".split(),
    8: "qk_rope_head_dim patch_size index_topk num_queries".split(),
    128: "max_position_embeddings n_positions n_ctx max_source_positions max_target_positions context_length".split(),
    IMAGE: "image_size".split(),
    VOCABULARY: "vocab_size entity_vocab_size vocab_size_per_layer_input n_words src_vocab_size tgt_vocab_size text_vocab_size "
    "t2u_vocab_size".split(),
}
SIZE = {name: size for size, names in SIZES.items() for name in names}
WIDTHS = frozenset(name for size in (64, 16, 8) for name in SIZES[size]) - {"patch_size", "num_queries"}


def model_classes():
    """Every class of transformers that is a model, and modules that cannot be imported with the reason."""
    found, broken = [], {}
    root = os.path.join(os.path.dirname(transformers.__file__), "models")
    for folder in sorted(os.listdir(root)):
        if not os.path.isdir(os.path.join(root, folder)):
            continue
        for file in sorted(os.listdir(os.path.join(root, folder))):
            if not (file.startswith("modeling_") and file.endswith(".py")):
                continue
            name = f"transformers.models.{folder}.{file[:-3]}"
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                broken[name] = str(error)
                continue
            found += [
                each
                for each in vars(module).values()
                if inspect.isclass(each)
                and issubclass(each, PreTrainedModel)
                and each.__module__ == name
                and not each.__name__.endswith("PreTrainedModel")
            ]
    return found, broken


def defaults_of(config_class):
    for field in dataclasses.fields(config_class):
        if field.name == "image_size" and field.default is None and "list" in str(field.type):
            yield field.name, [IMAGE, IMAGE]
        elif field.default is not dataclasses.MISSING:
            yield field.name, field.default
        elif field.default_factory is not dataclasses.MISSING:
            yield field.name, field.default_factory()


MROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
VARIANTS = ("shared", "full", "deep", "wide", "original")
DEPTHS = frozenset(SIZES[2]) - {"num_key_value_heads", "n_kv_heads", "num_experts_per_tok", "moe_topk", "moe_k"}

# What no name says: values that a model asks for, or that fit each other.
GIVEN = {
    "ChameleonConfig": {"vocabulary_map": {"<image>": 90}},
    "Gemma3nTextConfig": {"num_kv_shared_layers": 0},
    "Gemma4UnifiedTextConfig": {"num_kv_shared_layers": 0},
    "Glm5NextTextConfig": {"num_key_value_heads": 4, "index_topk": 16},
    "Lfm2MoeConfig": {"layer_types": ["conv", "full_attention"]},
    "Mamba2Config": {"num_heads": 8},
    "XmodConfig": {"default_language": "en_XX"},
    "ZayaConfig": {"num_experts_per_tok": 1},
}


def tiny_config(config_class, variant="shared", **given):
    """A config with small sizes wherever a size has a name that is known.

    variant: "shared" has fewer heads of keys than of queries, "full" as many and values for sizes that are None by
    default; "deep" leaves the number of layers as it is, "wide" the widths, "original" the sizes of pictures, too.
    """
    kwargs = {}
    token = VOCABULARY
    for name, default in defaults_of(config_class):
        if isinstance(default, bool):
            if name == "use_cache":
                kwargs[name] = False
        elif name in SIZE:
            if variant in ("wide", "original") and name in WIDTHS or variant == "deep" and name in DEPTHS:
                continue
            if variant == "original" and name in ("image_size", "patch_size"):
                continue
            if isinstance(default, int):
                kwargs[name] = SIZE[name]
            elif name == "image_size" and isinstance(default, (list, tuple)):
                kwargs[name] = [IMAGE] * len(default)
            elif default is None and (variant == "full" or name in ("vocab_size", "head_dim")):
                kwargs[name] = SIZE[name]
            if variant == "full" and name in ("num_key_value_heads", "n_kv_heads") and name in kwargs:
                kwargs[name] = 4
        elif name.endswith(("_token_id", "_token_index")) and isinstance(default, int) and default >= VOCABULARY:
            token -= 1
            kwargs[name] = token
        elif name == "sliding_window" and default is None and variant == "full":
            kwargs[name] = 4
        elif name == "pad_token_id" and default is None:
            kwargs[name] = 0
        elif name == "depths" and isinstance(default, (list, tuple)):
            kwargs[name] = [1] * len(default)
        elif name in ("initializer_range", "init_std") and isinstance(default, float):
            kwargs[name] = 0.3
        elif name.endswith("layerdrop"):
            kwargs[name] = 0.0
        elif name == "rope_parameters" and variant not in ("wide", "original"):
            if "mrope_section" in (getattr(config_class, "ignore_keys_at_rope_validation", None) or ()):
                kwargs[name] = dict(MROPE)
    if "encode_proj_layers" in {field.name for field in dataclasses.fields(config_class)}:
        kwargs["encoder_layers"] = 1  # for each of those there
    for name, (kind, part) in sub_configs_of(config_class).items():
        stages = {}
        if variant != "shared" and getattr(part, "out_indices", None) and name.startswith("backbone"):
            stages["out_indices"] = list(part.out_indices)
        kwargs[name] = tiny_config(kind, variant, **stages)
    kwargs.update(GIVEN.get(config_class.__name__, {}))
    kwargs.update(given)
    config = config_class(**kwargs)
    kinds = getattr(config, "layer_types", None)
    if kinds and "num_hidden_layers" in kwargs and kwargs["num_hidden_layers"] == 2 and "num_hidden_layers" not in given:
        if not any("attention" in kind and "linear" not in kind for kind in kinds):
            return tiny_config(config_class, variant, **{**given, "num_hidden_layers": 4})
    return config


def sub_configs_of(config_class):
    """The classes of the sub-configs that there are by default, and those themselves."""
    if not config_class.sub_configs:
        return {}
    try:
        whole = config_class()
    except Exception:  # no defaults: the classes that are named
        return {name: (kind, None) for name, kind in config_class.sub_configs.items() if dataclasses.is_dataclass(kind)}
    parts = {name: (type(part), part) for name in config_class.sub_configs if (part := getattr(whole, name, None))}
    return {
        name: (kind, part)
        for name, (kind, part) in parts.items()
        if isinstance(part, PreTrainedConfig) and kind is not PreTrainedConfig
    }


def inputs_of(model, attempt=0):
    """Inputs by the names that forward takes: three texts, one without padding, one with it on the left, one on the right.

    attempt: 0 for the least that a model may want, 1 for everything that is known here, 2 and 3 for other layouts.
    """
    every = attempt > 0
    names = inspect.signature(model.forward).parameters
    config = model.config
    try:
        text = config.get_text_config()
    except ValueError:  # several
        text = config
    generator = torch.Generator().manual_seed(1)
    high = min(int(getattr(text, "vocab_size", None) or VOCABULARY), VOCABULARY) - 20
    visible = torch.ones(3, TOKENS, dtype=torch.long)
    visible[1, :5] = 0
    visible[2, 7:] = 0
    inputs = {}
    main = model.main_input_name
    if "input_ids" in names and main not in ("pixel_values", "input_values", "input_features"):
        main = "input_ids"
    if main not in names:
        main = "input_ids" if "input_ids" in names else ""

    def ids():
        drawn = torch.randint(5, max(high, 6), (3, TOKENS), generator=generator)
        if isinstance(getattr(text, "eos_token_id", None), int):
            drawn[:, -1] = text.eos_token_id
        return drawn

    if "input_ids" in names:
        inputs["input_ids"] = ids()
        if "attention_mask" in names:
            inputs["attention_mask"] = visible
    if main == "inputs_embeds" or "inputs_embeds" in names and "input_ids" not in names and main not in names:
        size = getattr(text, "hidden_size", 64)
        inputs["inputs_embeds"] = torch.randn(3, TOKENS, size, generator=generator)
        if "attention_mask" in names:
            inputs["attention_mask"] = visible
    needed = [
        name for name, each in names.items() if each.default is each.empty and each.kind == each.POSITIONAL_OR_KEYWORD
    ]
    if "grid_thw" in needed or every and "grid_thw" in names:
        rows, grid = 40, torch.tensor([[1, 4, 4], [1, 4, 6]])
        width = getattr(config, "in_channels", None) or getattr(config, "in_chans", None) or getattr(config, "num_channels", 3)
        width *= getattr(config, "temporal_patch_size", 1) * config.patch_size**2
        inputs[next(iter(names))] = torch.randn(rows, width, generator=generator)
        inputs["grid_thw"] = grid
        return inputs
    if main == "hidden_states" or "hidden_states" in needed:
        size = getattr(config, "hidden_size", None) or 64
        inputs["hidden_states"] = torch.randn(3, TOKENS, size if isinstance(size, int) else size[0], generator=generator)
    if "decoder_input_ids" in names:
        inputs["decoder_input_ids"] = ids()
        if "decoder_attention_mask" in names:
            inputs["decoder_attention_mask"] = visible
    wants_picture = "pixel_values" in names and (every or main == "pixel_values" or "pixel_values" in needed)
    if wants_picture:
        vision = getattr(config, "vision_config", None) or getattr(config, "backbone_config", None) or config
        side = getattr(vision, "image_size", None) or getattr(config, "image_size", None) or IMAGE
        side = side if isinstance(side, (tuple, list)) else (side, side)
        side = [min(each, 64) for each in side] if isinstance(getattr(config, "image_size", None), type(None)) else side
        channels = getattr(vision, "num_channels", None) or getattr(config, "num_channels", None) or 3
        shape = (3, channels, *side)
        frames = getattr(config, "num_frames", None)
        if frames and "ideo" in type(model).__name__ or getattr(config, "tubelet_size", None):
            shape = (3, frames if isinstance(frames, int) else 2, channels, *side)
        if max(side) > 256:
            raise ValueError(f"pictures of {side} pixels")
        inputs["pixel_values"] = torch.randn(shape, generator=generator)
    if main == "input_values" or every and "input_values" in names:
        if getattr(config, "audio_channels", None) or hasattr(config, "codebook_size"):  # a codec
            inputs["input_values"] = torch.randn(3, 1, 2000, generator=generator)
            return inputs
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):  # a spectrogram
            inputs["input_values"] = torch.randn(3, config.max_length, config.num_mel_bins, generator=generator)
            return inputs
        inputs["input_values"] = torch.randn(3, 2000, generator=generator)
        if "attention_mask" in names:
            inputs["attention_mask"] = torch.ones(3, 2000, dtype=torch.long)
            inputs["attention_mask"][2, 1200:] = 0
    if main == "input_features" or every and "input_features" in names:
        sizes = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim", "input_dim")
        size = next((getattr(config, name) for name in sizes if getattr(config, name, None)), 80)
        length = 2 * getattr(config, "max_source_positions", 50)
        if "hisper" in type(model).__name__ or "Qwen2Audio" in type(model).__name__:
            inputs["input_features"] = torch.randn(3, size, length, generator=generator)
        else:
            inputs["input_features"] = torch.randn(3, 64, size, generator=generator)
            mask = torch.ones(3, 64, dtype=torch.long)
            mask[2, 40:] = 0
            for name in ("input_features_mask", "attention_mask"):
                if name in names and name not in inputs:
                    inputs[name] = mask
                    break
    if "pixel_mask" in names and "pixel_values" in inputs and every:
        inputs["pixel_mask"] = torch.ones(3, *inputs["pixel_values"].shape[-2:], dtype=torch.long)
    for name in needed:  # as far as a name says what it is
        if name in inputs:
            continue
        if name == "image":
            inputs[name] = torch.randn(3, 3, config.image_size, config.image_size, generator=generator)
        elif name == "past_values":
            inputs[name] = torch.randn(3, config.context_length, getattr(config, "num_input_channels", 1), generator=generator)
        elif name in ("query_embeds", "noise_embeds", "context_hidden_states", "context"):
            inputs[name] = torch.randn(3, 6, getattr(text, "hidden_size", 64), generator=generator)
        elif name in ("encoder_hidden_states", "object_queries", "spatial_position_embeddings"):
            inputs[name] = torch.randn(3, TOKENS, getattr(text, "hidden_size", 64), generator=generator)
        elif name in ("input_features_mask", "mask", "attention_mask"):
            inputs[name] = visible
    if main == "flattened_patches":
        places = torch.arange(TOKENS).expand(3, -1)[..., None].expand(-1, -1, 2).float()
        patches = torch.randn(3, TOKENS, getattr(config, "vision_config", config).patch_embed_hidden_size, generator=generator)
        inputs[main] = torch.cat([places, patches], -1)
        inputs["attention_mask"] = visible
    if "bbox" in names and "input_ids" in names:
        inputs["bbox"] = torch.zeros(3, TOKENS, 4, dtype=torch.long)
    if attempt >= 2:  # other layouts: channels first, a channel, frames, codebooks
        if "input_features" in inputs:
            inputs["input_features"] = inputs["input_features"].transpose(1, 2).contiguous()
        if "input_values" in inputs and inputs["input_values"].dim() == 2:
            inputs["input_values"] = inputs["input_values"][:, None]
        if "pixel_values" in inputs:
            inputs["pixel_values"] = inputs["pixel_values"][:, None].expand(-1, 2, -1, -1, -1)
        books = getattr(config, "num_codebooks", None) or getattr(config, "num_channels", None)
        books = books and books + attempt - 2
        if "input_ids" in inputs and books:
            inputs["input_ids"] = inputs["input_ids"][..., None].expand(-1, -1, books)
        inputs.pop("inputs_embeds", None)
    if type(model).__name__.endswith("MultipleChoice"):
        inputs = {name: each[:, None] for name, each in inputs.items()}
    return inputs


def tensors_of(output, path=""):
    """The floating tensors of an output by their paths."""
    if isinstance(output, torch.Tensor):
        return {path: output} if output.is_floating_point() else {}
    found = {}
    if isinstance(output, dict):
        pairs = output.items()
    elif isinstance(output, (list, tuple)):
        pairs = enumerate(output)
    else:
        return {}
    for name, each in pairs:
        if name != "past_key_values":
            found |= tensors_of(each, f"{path}.{name}" if path else str(name))
    return found
