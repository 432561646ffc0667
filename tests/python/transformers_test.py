"""attn_implementation="qkv" beside transformers' own "eager": outputs, gradients, weights, caches, padding, packing."""

import copy

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import qkv.transformers  # noqa: E402
import tiny_models  # noqa: E402

qkv.transformers.register()

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=60)
DECODER = dict(SMALL, max_position_embeddings=64, pad_token_id=0)
GROUPED = dict(DECODER, num_key_value_heads=2, head_dim=8)


CONFIGS = {
    "bert": ("Bert", dict(SMALL, max_position_embeddings=64)),
    "vit": ("ViT", dict(SMALL, image_size=32, patch_size=8)),
    "gpt2": ("GPT2", dict(n_embd=32, n_layer=2, n_head=4, vocab_size=60, n_positions=64)),
    "llama": ("Llama", GROUPED),
    "mistral": ("Mistral", dict(GROUPED, sliding_window=4)),
    "gemma2": ("Gemma2", dict(GROUPED, sliding_window=4, attn_logit_softcapping=2.0, query_pre_attn_scalar=8)),
    "gpt_oss": ("GptOss", dict(GROUPED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1)),
    "t5": ("T5", dict(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=60, decoder_start_token_id=0)),
    "marian": ("Marian", dict(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=60, max_position_embeddings=64, pad_token_id=0,
        decoder_start_token_id=0,
    )),
}  # fmt: skip


def config_of(name):
    kind, options = CONFIGS[name]
    return getattr(transformers, f"{kind}Config")(**options)


CLASSES = {"bert": "BertModel", "vit": "ViTModel", "t5": "T5ForConditionalGeneration", "marian": "MarianMTModel"}
CAUSAL = ["gpt2", "llama", "mistral", "gemma2", "gpt_oss"]
MODELS = ["bert", "vit", "t5", "marian", *CAUSAL]


def pair_of(name, dropout=0.0):
    """The same random model with both implementations."""
    torch.manual_seed(0)
    config = config_of(name)
    for key in ("attention_dropout", "attention_probs_dropout_prob", "attn_pdrop", "hidden_dropout_prob", "resid_pdrop",
                "embd_pdrop", "dropout", "dropout_rate", "activation_dropout"):  # fmt: skip
        if hasattr(config, key):
            setattr(config, key, dropout)
    make = getattr(transformers, CLASSES.get(name, "AutoModelForCausalLM"))
    make = make._from_config if name in CLASSES else make.from_config
    models = [make(copy.deepcopy(config), attn_implementation=each).eval() for each in ("eager", "qkv")]
    eager, ours = models
    with torch.no_grad():
        for parameter in eager.parameters():  # logits of some size, sinks and tables that are not 0
            parameter.add_(0.15 * torch.randn(parameter.shape))
    ours.load_state_dict(eager.state_dict())
    assert ours.config._attn_implementation == "qkv" and eager.config._attn_implementation == "eager"
    return eager, ours


def inputs_of(name, padding=None):
    torch.manual_seed(1)
    if name == "vit":
        return {"pixel_values": torch.randn(2, 3, 32, 32)}, torch.ones(2, 17, dtype=torch.bool)
    ids = torch.randint(1, 60, (2, 12))
    visible = torch.ones(2, 12, dtype=torch.long)
    if padding == "left":
        visible[1, :5] = 0
    if padding == "right":
        visible[1, 7:] = 0
    inputs = {"input_ids": ids, "attention_mask": visible}
    if name in ("t5", "marian"):
        inputs["decoder_input_ids"] = torch.randint(1, 60, (2, 9))
        return inputs, torch.ones(2, 9, dtype=torch.bool)
    return inputs, visible.bool()


def first(output):
    return output.logits if "logits" in output else output.last_hidden_state


def close(a, b, tolerance):
    scale = max(1.0, float(b.abs().max()))
    assert float((a - b).abs().max()) <= tolerance * scale


@pytest.mark.parametrize(
    "name, padding", [(name, side) for name in MODELS for side in (None, "left", "right") if name != "vit" or not side]
)
def test_outputs_and_gradients(name, padding):
    eager, ours = pair_of(name)
    inputs, real = inputs_of(name, padding)
    results = []
    for model in (eager, ours):
        out = first(model(**inputs))[real]
        (out * torch.linspace(-1, 1, out.shape[-1])).sum().backward()
        results.append(out.detach())
    close(results[1], results[0], 1e-5)
    for (parameter_name, parameter), other in zip(eager.named_parameters(), ours.parameters()):
        if parameter.grad is None:
            assert other.grad is None, parameter_name
        else:
            close(other.grad, parameter.grad, 1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_weights_of_the_fused_pass(name):
    eager, ours = pair_of(name)
    inputs, _ = inputs_of(name)
    with torch.no_grad():
        expected, found = eager(**inputs, output_attentions=True), ours(**inputs, output_attentions=True)
    kinds = ("encoder_attentions", "decoder_attentions", "cross_attentions") if name in ("t5", "marian") else ("attentions",)
    for kind in kinds:
        assert len(found[kind]) == 2
        for ours_, theirs in zip(found[kind], expected[kind]):
            close(ours_, theirs, 1e-5)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", CAUSAL)
def test_generation_with_a_cache(name, cache):
    eager, ours = pair_of(name)
    inputs, _ = inputs_of(name, "left")
    options = dict(max_new_tokens=8, do_sample=False, output_logits=True, return_dict_in_generate=True, pad_token_id=0)
    if cache == "static":
        options |= dict(cache_implementation="static", disable_compile=True)
    expected, found = eager.generate(**inputs, **options), ours.generate(**inputs, **options)
    assert torch.equal(found.sequences, expected.sequences)
    for ours_, theirs in zip(found.logits, expected.logits):
        close(ours_, theirs, 1e-5)


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_generation_of_encoder_decoders(name):
    eager, ours = pair_of(name)
    inputs, _ = inputs_of(name, "right")
    del inputs["decoder_input_ids"]
    options = dict(max_new_tokens=6, num_beams=2, do_sample=False)
    assert torch.equal(ours.generate(**inputs, **options), eager.generate(**inputs, **options))


@pytest.mark.parametrize("name", ["llama", "mistral", "gpt_oss"])
def test_packed_rows(name):
    eager, ours = pair_of(name)
    ids = torch.randint(1, 60, (1, 11))
    positions = torch.cat([torch.arange(n) for n in (5, 4, 2)])[None]
    with torch.no_grad():
        expected = first(eager(input_ids=ids, position_ids=positions, use_cache=False))
        found = first(ours(input_ids=ids, position_ids=positions, use_cache=False))
        alone = first(ours(input_ids=ids[:, 5:9], use_cache=False))
        starts = torch.tensor([0, 5, 9, 11], dtype=torch.int32)
        named = first(
            ours(
                input_ids=ids, position_ids=positions, use_cache=False, cu_seq_lens_q=starts, cu_seq_lens_k=starts,
                max_length_q=5, max_length_k=5,
            )
        )  # fmt: skip
    close(found, expected, 1e-5)
    close(named[:, 5:9], alone, 1e-5)
    if name != "gpt_oss":  # which takes no note of positions that start anew: its rows see each other, in eager as well
        close(found[:, 5:9], alone, 1e-5)


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_masks_of_four_dimensions(name):
    eager, ours = pair_of(name)
    ids, _ = inputs_of(name)[0]["input_ids"], None
    visible = torch.rand(2, 1, 12, 12) < 0.6
    visible |= torch.eye(12, dtype=torch.bool)
    added = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
    with torch.no_grad():
        expected = first(eager(input_ids=ids, attention_mask=added))
        close(first(ours(input_ids=ids, attention_mask=added)), expected, 1e-5)
        close(first(ours(input_ids=ids, attention_mask=visible)), expected, 1e-5)


def test_sliding_window_without_a_mask():
    """The rule by hand: a query sees itself and the sliding_window - 1 keys before it."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 9, 8).unbind(0)
    module = torch.nn.Module()
    i, j = torch.arange(9)[:, None], torch.arange(9)[None]
    for causal, seen in ((True, (j <= i) & (j > i - 4)), (False, (j - i).abs() < 4)):
        out, _ = qkv.transformers.attention_forward(module, query, key, value, None, is_causal=causal, sliding_window=4)
        expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        close(out, expected.transpose(1, 2), 1e-6)
    out, _ = qkv.transformers.attention_forward(module, query[:, :, -1:], key, value, None, sliding_window=4)
    close(out, torch.nn.functional.scaled_dot_product_attention(query[:, :, -1:], key[:, :, -4:], value[:, :, -4:]).transpose(1, 2), 1e-6)


def test_dropout_follows_the_generator_of_torch():
    _, ours = pair_of("bert", dropout=0.0)
    for layer in ours.encoder.layer:
        layer.attention.self.dropout.p = 0.5
    ours.train()
    inputs, _ = inputs_of("bert")
    runs = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        runs.append(first(ours(**inputs)))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


def test_compiles_as_one_graph():
    _, ours = pair_of("llama")
    inputs, _ = inputs_of("llama", "left")
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    close(first(compiled(**inputs, use_cache=False)), first(ours(**inputs, use_cache=False)), 1e-6)
    first(compiled(**inputs, use_cache=False)).sum().backward()


@pytest.mark.parametrize("kind", ["EuroBertModel", "DeepseekV3ForCausalLM", "T5GemmaForConditionalGeneration"])
def test_models_of_mixed_types_under_autocast(kind):
    """They hand over queries of float32 beside keys or values of bfloat16."""
    kind = getattr(transformers, kind)
    results, gradients = [], []
    for implementation in ("eager", "qkv"):
        torch.manual_seed(0)
        model = kind._from_config(tiny_models.tiny_config(kind.config_class, "full"), attn_implementation=implementation)
        inputs = tiny_models.inputs_of(model.eval())
        real = inputs.get("decoder_attention_mask", inputs["attention_mask"]).bool()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            out = first(model(**inputs))[real]
        out.float().square().mean().backward()
        results.append(out.detach().float())
        gradients.append(torch.cat([x.grad.flatten() for x in model.parameters() if x.grad is not None]))
    close(results[1], results[0], 5e-2)  # 2^-8 a rounding, over two layers
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.99


def test_an_unknown_argument_is_refused_by_name():
    x = torch.randn(1, 1, 3, 4)
    with pytest.raises(ValueError, match="block_indices"):
        qkv.transformers.attention_forward(torch.nn.Module(), x, x, x, None, block_indices=torch.zeros(1))
    qkv.transformers.attention_forward(torch.nn.Module(), x, x, x, None, block_indices=None, use_cache=True)
    with pytest.raises(ValueError, match="cu_seq_lens_q"):
        qkv.transformers.attention_forward(torch.nn.Module(), x, x, x, None, cu_seq_lens_q=torch.tensor([0, 3]))


def test_import_registers_nothing():
    import subprocess
    import sys

    code = (
        "import qkv.transformers, transformers\n"
        "assert 'qkv' not in transformers.AttentionInterface._global_mapping\n"
        "qkv.transformers.register()\n"
        "assert 'qkv' in transformers.AttentionInterface._global_mapping\n"
        "assert 'qkv' in transformers.AttentionMaskInterface._global_mapping\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


PADDED_MPNET = dict(SMALL, hidden_size=64, vocab_size=97, initializer_range=0.3)


def own_attention_of(name):
    """Configs of models that compute attention themselves, and their classes."""
    t = transformers
    return {
        "mpnet": (t.MPNetConfig(**PADDED_MPNET), t.MPNetModel),
        "bloom": (t.BloomConfig(hidden_size=32, n_layer=1, n_head=4, vocab_size=60), t.BloomForCausalLM),
        "gptj": (t.GPTJConfig(n_embd=32, n_layer=1, n_head=4, rotary_dim=4, vocab_size=60), t.GPTJModel),
        "gpt_neo": (t.GPTNeoConfig(hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global"], 2]]), t.GPTNeoModel),
        "falcon": (t.FalconConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=4, vocab_size=60), t.FalconModel),
    }[name]


@pytest.mark.parametrize("name", ["mpnet", "bloom", "gptj", "gpt_neo", "falcon"])
def test_attention_of_its_own_is_refused_by_name(name):
    config, kind = own_attention_of(name)
    right = '"eager" or "sdpa"' if kind._supports_sdpa else '"eager"'
    refusal = f'^{kind.__name__} has attention of its own, .* use attn_implementation={right}$'
    with pytest.raises(ValueError, match=refusal):
        kind._from_config(copy.deepcopy(config), attn_implementation="qkv")
    named = copy.deepcopy(config)
    named._attn_implementation = "qkv"
    with pytest.raises(ValueError, match=refusal):
        kind(named)
    model = kind._from_config(copy.deepcopy(config), attn_implementation="eager")
    with pytest.raises(ValueError, match=refusal):
        model.set_attn_implementation(attn_implementation="qkv")
    assert model.config._attn_implementation == "eager"
    model.set_attn_implementation("eager")


def test_from_pretrained_refuses(tmp_path):
    config, kind = own_attention_of("mpnet")
    kind(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="^MPNetModel has attention of its own"):
        transformers.AutoModel.from_pretrained(tmp_path, attn_implementation="qkv")
    with pytest.raises(ValueError, match="^MPNetForMaskedLM has attention of its own"):
        transformers.MPNetForMaskedLM.from_pretrained(tmp_path, attn_implementation="qkv")
    assert transformers.AutoModel.from_pretrained(tmp_path).config._attn_implementation == "eager"


def test_subclasses_are_what_their_bases_are():
    class Own(transformers.MPNetModel):
        pass

    class Ours(transformers.BertModel):
        pass

    with pytest.raises(ValueError, match="^Own has attention of its own"):
        Own._from_config(transformers.MPNetConfig(**PADDED_MPNET), attn_implementation="qkv")
    Ours._from_config(config_of("bert"), attn_implementation="qkv").set_attn_implementation("qkv")


def composite(**implementations):
    config = transformers.GotOcr2Config(
        vision_config=dict(
            hidden_size=32, num_hidden_layers=1, num_attention_heads=4, mlp_dim=48, output_channels=16, image_size=64,
            patch_size=16, window_size=2, global_attn_indexes=[0],
        ),
        text_config=dict(model_type="qwen2", **GROUPED),
        image_token_index=59,
    )  # fmt: skip
    return transformers.GotOcr2Model._from_config(config, **implementations)


def test_parts_of_a_model_are_chosen_alone():
    """The encoder of pictures has attention of its own, the decoder of text asks for one."""
    with pytest.raises(ValueError, match="^GotOcr2Model has attention of its own"):
        composite(attn_implementation="qkv")
    with pytest.raises(ValueError, match="^GotOcr2VisionEncoder has attention of its own"):
        composite(attn_implementation={"vision_config": "qkv"})
    made = composite(attn_implementation={"text_config": "qkv"})
    assert made.language_model.config._attn_implementation == "qkv"
    assert made.vision_tower.config._attn_implementation == "eager"
    model = composite(attn_implementation="eager")
    for whole in ("qkv", {"": "qkv"}, {"vision_config": "qkv"}):
        with pytest.raises(ValueError, match="^GotOcr2[A-Za-z]* has attention of its own"):
            model.set_attn_implementation(whole)
    assert model.language_model.config._attn_implementation == "eager"
    model.set_attn_implementation({"text_config": "qkv"})
    assert model.language_model.config._attn_implementation == "qkv"
    assert model.vision_tower.config._attn_implementation == "eager"


def test_register_twice_wraps_once():
    method = transformers.PreTrainedModel.get_correct_attn_implementation
    qkv.transformers.register()
    assert transformers.PreTrainedModel.get_correct_attn_implementation is method


def test_other_implementations_are_as_they_were():
    config, kind = own_attention_of("mpnet")
    with pytest.raises(ValueError, match="MPNetModel does not support an attention implementation through"):
        kind._from_config(copy.deepcopy(config), attn_implementation="sdpa")
    with pytest.raises(ValueError, match='"nothing"` is not supported'):
        kind._from_config(copy.deepcopy(config), attn_implementation="nothing")
    assert kind(config).config._attn_implementation == "eager"
    falcon, kind = own_attention_of("falcon")
    assert kind(falcon).config._attn_implementation == "sdpa"


def test_the_last_queries_of_a_causal_module_without_a_mask():
    """Gemma 4 drops all but the last queries before its last layers, and hands over no mask."""
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 9, 8).unbind(0)
    module = torch.nn.Module()
    whole, _ = qkv.transformers.attention_forward(module, query, key, value, None)
    last, _ = qkv.transformers.attention_forward(module, query[:, :, -3:], key, value, None)
    close(last, whole[:, -3:], 1e-6)


def test_indices_are_the_keys_that_a_query_may_see():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 2, 2, 9, 8).unbind(0)
    visible = torch.ones(9, 9, dtype=torch.bool).tril().expand(2, 1, 9, 9)
    indices = torch.stack([torch.randperm(9)[:4] for _ in range(18)]).view(2, 9, 4)
    indices[..., 0] = torch.arange(9)
    chosen = torch.zeros(2, 9, 9, dtype=torch.bool).scatter(-1, indices, True)[:, None]
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=visible & chosen).transpose(1, 2)
    added = torch.where(visible, 0.0, torch.finfo(torch.float32).min)
    for mask in (visible, added, None):
        out, _ = qkv.transformers.attention_forward(torch.nn.Module(), query, key, value, mask, indices=indices)
        close(out, expected, 1e-6)
