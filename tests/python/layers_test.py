"""Layers beside torch's: the numbers of tests/golden, in double precision and in float32."""

import pickle

import golden
import numpy
import pytest
import qkv

CLOSE = {"float64": {"rtol": 1e-10, "atol": 1e-11}, "float32": {"rtol": 2e-5, "atol": 2e-5}}


def loaded(layer, tensors):
    layer.load_state_dict(tensors)
    assert layer.state_dict().keys() == tensors.keys()
    return layer


def close(got, want, dtype="float64"):
    assert got.dtype == dtype
    numpy.testing.assert_allclose(got, want, **CLOSE[dtype])


HEADS, HEADS_CONFIGS = golden.read("multi_head_attention/multi_head_attention.safetensors")


def heads_case(name, dtype):
    """The layer of a case, and its inputs."""
    said = dict(part.split("=") for part in HEADS_CONFIGS[name].split())
    config = {
        "model_dim": int(said["embed_dim"]),
        "heads": int(said["num_heads"]),
        "key_input_dim": int(said.get("kdim", 0)),
        "value_input_dim": int(said.get("vdim", 0)),
        "bias": said.get("bias") != "0",
        "bias_kv": said.get("add_bias_kv") == "1",
        "zero_attention": said.get("add_zero_attn") == "1",
    }
    layer = loaded(qkv.layers.MultiHeadAttention(dtype=dtype, **config), golden.under(HEADS, f"{name}.weights."))
    query = HEADS[f"{name}.query"].astype(dtype)
    key = HEADS.get(f"{name}.key", HEADS[f"{name}.query"]).astype(dtype)
    value = HEADS.get(f"{name}.value", key).astype(dtype)
    return layer, (query, key, value)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["self", "cross", "other_sizes", "no_bias", "bias_kv", "zero_attention", "mask", "padding"])
def test_multi_head_attention(name, dtype):
    layer, inputs = heads_case(name, dtype)
    mask = None
    if f"{name}.attn_mask" in HEADS:
        mask = qkv.Mask.boolean(~HEADS[f"{name}.attn_mask"])
    if f"{name}.key_padding_mask" in HEADS:
        mask = qkv.Mask.boolean(~HEADS[f"{name}.key_padding_mask"][:, None, None])
    out, weights = layer(*inputs, mask=mask, need_weights=True)
    close(out, HEADS[f"{name}.out_f64"], dtype)
    close(weights, HEADS[f"{name}.mean_weights_f64"], dtype)
    _, weights = layer(*inputs, mask=mask, need_weights=True, average_weights=False)
    close(weights, HEADS[f"{name}.weights_f64"], dtype)


STACKS, _ = golden.read("transformer/transformer.safetensors")


@pytest.mark.parametrize("name", ["pre", "post"])
def test_transformer(name):
    case = golden.under(STACKS, f"{name}.")
    config = {"model_dim": 8, "heads": 2, "ff_dim": 12, "encoder_layers": 2, "decoder_layers": 2, "norm_order": name}
    model = qkv.layers.Transformer(activation="gelu" if name == "pre" else "relu", dtype="float64", **config)
    loaded(model, golden.under(case, "weights."))
    source, target = case["source"].astype("f8"), case["target"].astype("f8")
    mask = qkv.Mask.lengths(case["source_lengths"])
    out, saved = model(source, target, source_mask=mask, memory_mask=mask, save=True)
    close(out, case["out_f64"])
    want = golden.under(case, "gradients.")
    grad_source, grad_target = model.backward(saved, case["grad_out"].astype("f8"))
    close(grad_source, want.pop("source"))
    close(grad_target, want.pop("target"))
    got = model.gradients()
    assert got.keys() == want.keys()
    for key, value in want.items():
        close(got[key], value)
    model.backward(saved, case["grad_out"].astype("f8"))
    close(model.gradients()["encoder.norm.weight"], 2 * want["encoder.norm.weight"])  # added up
    model.zero_grad()
    assert not any(value.any() for value in model.gradients().values())


def test_encoder_and_decoder_are_the_parts_of_a_transformer():
    case = golden.under(STACKS, "post.")
    config = {"model_dim": 8, "heads": 2, "ff_dim": 12, "layers": 2, "dtype": "float64"}
    encoder = loaded(qkv.layers.Encoder(**config), golden.under(case, "weights.encoder."))
    decoder = loaded(qkv.layers.Decoder(**config), golden.under(case, "weights.decoder."))
    source, target = case["source"].astype("f8"), case["target"].astype("f8")
    mask = qkv.Mask.lengths(case["source_lengths"])
    memory, kept = encoder(source, mask=mask, save=True)
    out, saved = decoder(target, memory, memory_mask=mask, save=True)
    close(out, case["out_f64"])
    grad_target, grad_memory = decoder.backward(saved, case["grad_out"].astype("f8"))
    close(grad_target, case["gradients.target"])
    close(encoder.backward(kept, grad_memory)[0], case["gradients.source"])
    close(encoder.gradients()["layers.0.linear1.weight"], case["gradients.encoder.layers.0.linear1.weight"])


def test_ragged_rows_are_the_padded_ones_without_padding():
    encoder = qkv.layers.Encoder(model_dim=8, heads=2, ff_dim=12, layers=1, dtype="float64", seed=3)
    x = numpy.random.default_rng(1).standard_normal((2, 5, 8))
    padded = encoder(x, mask=qkv.Mask.lengths(numpy.array([5, 3])))
    rows = numpy.concatenate([x[0], x[1, :3]])
    ragged = encoder(rows, offsets=numpy.array([0, 5, 8], "i4"))
    close(ragged, numpy.concatenate([padded[0], padded[1, :3]]))


RECURRENT, _ = golden.read("recurrent/recurrent.safetensors")


@pytest.mark.parametrize("name", sorted({key.split(".")[0] for key in RECURRENT}))
def test_recurrent(name):
    case = golden.under(RECURRENT, f"{name}.")
    two = name.endswith("_2")
    config = {"input_size": 3, "hidden": 5, "layers": 2 if two else 1, "directions": 2 if two else 1, "bias": two}
    kind = {"rnn": qkv.lab.Rnn, "lstm": qkv.lab.Lstm, "gru": qkv.lab.Gru}[name.split("_")[0]]
    if kind is qkv.lab.Rnn:
        config["activation"] = name.split("_")[1]
    layer = loaded(kind(dtype="float64", **config), golden.under(case, "weights."))
    offsets = numpy.concatenate([[0], numpy.cumsum(case["lengths"])]).astype("i4")
    initial = {"hidden": case["h"]} | ({"cell": case["c"]} if "c" in case else {})
    results, saved = layer(case["x"], offsets=offsets, save=True, **initial)
    parts = ["out", "h_n", "c_n"][: len(results)]
    assert len(parts) == (3 if kind is qkv.lab.Lstm else 2)
    for got, part in zip(results, parts):
        close(got, case[part])
    gradients = layer.backward(saved, tuple(case[f"grad_{part}"] for part in parts))
    for got, part in zip(gradients, ["x", "h", "c"], strict=False):
        close(got, case[f"grad_{part}"])
    assert len(gradients) == len(parts)
    for key, got in layer.gradients().items():
        close(got, case[f"gradients.{key}"])


CONVOLUTION, _ = golden.read("convolution/convolution.safetensors")


@pytest.mark.parametrize(
    "name, layer",
    [
        ("conv1d.plain", qkv.lab.Conv1d(in_channels=5, out_channels=7, kernel=3, dilation=2, bias=False)),
        ("conv1d.causal", qkv.lab.Conv1d(in_channels=4, out_channels=6, kernel=3, dilation=4, causal=True)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_convolution(name, layer):
    case = golden.under(CONVOLUTION, f"{name}.")
    loaded(layer, {key: case[key] for key in ("weight", "bias") if key in case})
    out, saved = layer(case["x"], save=True)
    close(out, case["out"], "float32")
    close(layer.backward(saved, case["grad_out"])[0], case["grad_x"], "float32")
    for key, got in layer.gradients().items():
        numpy.testing.assert_allclose(got, case[f"grad_{key}"], rtol=1e-4, atol=1e-4)


def test_patch_embedding_by_hand():
    layer = qkv.layers.PatchEmbedding(dim=5, patch=(2, 3), grid=(2, 2), channels=1, dtype="float64", seed=4)
    draw = numpy.random.default_rng(1)
    state = {key: draw.standard_normal(value.shape) for key, value in layer.state_dict().items()}
    loaded(layer, state)
    assert {key: value.shape for key, value in state.items()} == {
        "projection.weight": (5, 6), "projection.bias": (5,), "class_token": (5,), "positions.weight": (5, 5),
    }  # fmt: skip
    pictures = draw.standard_normal((2, 4, 7, 1))  # the last column is in no patch
    patches = pictures[:, :, :6, 0].reshape(2, 2, 2, 2, 3).transpose(0, 1, 3, 2, 4).reshape(2, 4, 6)
    rows = patches @ state["projection.weight"].T + state["projection.bias"]
    want = numpy.concatenate([numpy.broadcast_to(state["class_token"], (2, 1, 5)), rows], 1) + state["positions.weight"]
    out, saved = layer(pictures, save=True)
    close(out, want)
    grad_out = draw.standard_normal(out.shape)
    assert layer.backward(saved, grad_out) == ()
    gradients = layer.gradients()
    close(gradients["projection.weight"], numpy.einsum("bpd,bpe->de", grad_out[:, 1:], patches))
    close(gradients["projection.bias"], grad_out[:, 1:].sum((0, 1)))
    close(gradients["class_token"], grad_out[:, 0].sum(0))
    close(gradients["positions.weight"], grad_out.sum(0))


# torch's convolution over patches, and its interpolation of positions to a grid of 4 x 3.
def test_patch_embedding_beside_torch():
    torch = pytest.importorskip("torch")
    layer = qkv.layers.PatchEmbedding(dim=6, patch=4, grid=(2, 5), dtype="float64", seed=2)
    layer.load_state_dict({key: value + 0.1 for key, value in layer.state_dict().items()})
    state = {key: torch.tensor(value, requires_grad=True) for key, value in layer.state_dict().items()}
    pictures = torch.randn(2, 16, 12, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    filters = state["projection.weight"].reshape(6, 3, 4, 4)
    rows = torch.nn.functional.conv2d(pictures.permute(0, 3, 1, 2), filters, state["projection.bias"], stride=4)
    learnt = state["positions.weight"][1:].reshape(1, 2, 5, 6).permute(0, 3, 1, 2)
    moved = torch.nn.functional.interpolate(learnt, size=(4, 3), mode="bicubic", align_corners=False)
    first = (state["class_token"] + state["positions.weight"][0]).expand(2, 1, 6)
    want = torch.cat([first, (rows + moved).flatten(2).transpose(1, 2)], 1)
    out, saved = layer(pictures, save=True)
    torch.testing.assert_close(out, want.detach(), rtol=1e-10, atol=1e-10)
    grad_out = torch.randn(want.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    want.backward(grad_out)
    layer.backward(saved, grad_out)
    for key, got in layer.gradients().items():
        close(got, state[key].grad.numpy())


LAYERS = [
    qkv.layers.MultiHeadAttention(model_dim=4, heads=2),
    qkv.layers.Encoder(model_dim=4, heads=2, ff_dim=8, layers=1),
    qkv.lab.Lstm(input_size=4, hidden=3),
    qkv.lab.Conv1d(in_channels=4, out_channels=2, kernel=3),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_layers_pickle_as_config_and_parameters(layer):
    again = pickle.loads(pickle.dumps(layer))
    assert type(again) is type(layer)
    for key, value in layer.state_dict().items():
        assert (again.state_dict()[key] == value).all()
    x = numpy.ones((1, 3, 4), "f4")
    first, second = layer(x), again(x)
    assert (numpy.asarray(first[0]) == numpy.asarray(second[0])).all()


def test_state_dict_is_a_copy():
    layer = qkv.lab.Conv1d(in_channels=2, out_channels=2)
    before = layer.state_dict()["bias"].copy()
    layer.state_dict()["bias"][:] = 7
    assert (layer.state_dict()["bias"] == before).all()


def test_weights_depend_on_the_seed():
    make = lambda seed: qkv.lab.Conv1d(in_channels=2, out_channels=2, seed=seed).state_dict()["weight"]
    assert (make(1) == make(1)).all() and (make(1) != make(2)).any()


def test_dropout_needs_a_seed_and_training():
    encoder = qkv.layers.Encoder(model_dim=4, heads=2, ff_dim=8, layers=1)
    x = numpy.ones((1, 3, 4), "f4")
    with pytest.raises(ValueError, match="dropout needs a seed"):
        encoder(x, dropout=0.5, save=True)
    with pytest.raises(ValueError, match="dropout is for training"):
        encoder(x, dropout=0.5, seed=1)
    (first, _), (second, _), (other, _) = (encoder(x, dropout=0.5, seed=s, save=True) for s in (1, 1, 2))
    assert (first == second).all() and (first != other).any()


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: qkv.layers.MultiHeadAttention(model_dim=7, heads=2), ValueError, "heads"),
        (lambda: qkv.layers.MultiHeadAttention(dim=8), TypeError, "unexpected keyword argument 'dim'"),
        (lambda: qkv.layers.MultiHeadAttention(model_dim="8"), TypeError, "model_dim must be a whole number, got str"),
        (lambda: qkv.layers.MultiHeadAttention(8), TypeError, "incompatible"),
        (lambda: qkv.layers.MultiHeadAttention(model_dim=8, dtype="float16"), ValueError, "float32"),
        (lambda: qkv.layers.Encoder(model_dim=8, ff_dim=8, norm_order="middle"), ValueError, '"post", "pre"'),
        (lambda: qkv.layers.PatchEmbedding(dim=4, patch=(1, 2, 3), grid=2), ValueError, "height, width"),
        (lambda: LAYERS[3](numpy.ones((1, 4, 4), "f4"), training=True), TypeError, "Conv1d() got an unexpected keyword"),
        (lambda: qkv.layers.PatchEmbedding(dim=4, patch=4, grid=2)(numpy.ones((1, 3, 8, 3), "f4")), ValueError, "patch"),
        (lambda: LAYERS[0].load_state_dict({}), ValueError, "is missing"),
        (lambda: LAYERS[0].load_state_dict(None), TypeError, "state must be a dict"),
        (lambda: LAYERS[0].load_state_dict({**LAYERS[0].state_dict(), "x": numpy.zeros(1)}), ValueError, "x is no parameter"),
        (lambda: LAYERS[3].load_state_dict({"weight": numpy.zeros(1), "bias": numpy.zeros(2)}), ValueError, "must be [2, 4, 3]"),
        (lambda: LAYERS[0](None), TypeError, "query must be an array"),
        (lambda: LAYERS[0](numpy.zeros((1, 3, 4))), ValueError, "f32"),
        (lambda: LAYERS[1](numpy.zeros((3, 4), "f4"), offsets=numpy.array([0, 9], "i4")), ValueError, "offsets"),
        (lambda: LAYERS[1](numpy.zeros((3, 4), "f4"), offsets=numpy.array([0, 3])), TypeError, "offsets must be int32"),
        (lambda: LAYERS[1].backward(3, numpy.zeros(1)), TypeError, "incompatible"),
        (lambda: LAYERS[1].backward(LAYERS[0](numpy.zeros((1, 3, 4), "f4"), save=True)[1], None), ValueError, "another layer"),
    ],
)
def test_what_does_not_fit(call, error, says):
    with pytest.raises(error) as caught:
        call()
    assert says in str(caught.value)


MODULES = {
    "heads": (lambda: qkv.layers.MultiHeadAttention(model_dim=8, heads=2, dtype="float64"), 1),
    "encoder": (lambda: qkv.layers.Encoder(model_dim=8, heads=2, ff_dim=6, layers=2, dtype="float64"), 1),
    "transformer": (lambda: qkv.layers.Transformer(model_dim=8, heads=2, ff_dim=6, encoder_layers=1, decoder_layers=1, dtype="float64"), 2),
    "lstm": (lambda: qkv.lab.Lstm(input_size=8, hidden=3, dtype="float64"), 1),
    "convolution": (lambda: qkv.lab.Conv1d(in_channels=8, out_channels=3, kernel=2, dtype="float64"), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", MODULES)
def test_gradcheck_of_layers(name):
    torch = pytest.importorskip("torch")
    import qkv.torch

    make, count = MODULES[name]
    layer = qkv.torch.Layer(make())
    inputs = [torch.randn(1, 3, 8, dtype=torch.float64, requires_grad=True) for _ in range(count)]
    names = [name for name, _ in layer.named_parameters()]
    assert names == list(make().state_dict())

    def call(*given):
        results = torch.func.functional_call(layer, dict(zip(names, given[count:])), given[:count])
        return results if isinstance(results, torch.Tensor) else results[:1]

    assert torch.autograd.gradcheck(call, (*inputs, *layer.parameters()), atol=1e-6)


def test_layers_train_as_those_of_torch():
    """The same parameters, data and optimizer: the same parameters after three steps."""
    torch = pytest.importorskip("torch")
    import qkv.torch

    torch.manual_seed(0)
    theirs = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    theirs = torch.nn.TransformerEncoder(theirs, 1, enable_nested_tensor=False).double()
    ours = qkv.torch.Layer(qkv.layers.Encoder(model_dim=8, heads=2, ff_dim=16, layers=1, final_norm=False, dtype="float64"))
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    for model in (theirs, ours):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
    for name, parameter in theirs.named_parameters():
        torch.testing.assert_close(ours.get_parameter(name), parameter)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x))
    out = ours(x)
    with torch.no_grad():
        ours.get_parameter("layers.0.linear1.weight").add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
