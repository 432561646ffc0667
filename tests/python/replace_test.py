"""qkv.torch.replace: models of torch.nn before and after it."""

import copy

import pytest

torch = pytest.importorskip("torch")

import qkv.torch  # noqa: E402
from torch import nn  # noqa: E402


def both(model, seed=0):
    """A model and its copy on our attention."""
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    ours = copy.deepcopy(model)
    return model, ours, qkv.torch.replace(ours)


def attention_of(**options):
    return nn.MultiheadAttention(16, 4, **options)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 12, "vdim": 10}])
def test_multihead_attention(batch_first, options):
    theirs, ours, done = both(attention_of(batch_first=batch_first, **options))
    assert done.swapped == {"(the model)": "MultiheadAttention"} and not done.kept
    shapes = [(2, 5, 16), (2, 7, options.get("kdim", 16)), (2, 7, options.get("vdim", 16))]
    results = []
    for layer in (theirs, ours):
        torch.manual_seed(1)
        inputs = [torch.randn(*shape, requires_grad=True) for shape in shapes]
        given = inputs if batch_first else [x.transpose(0, 1) for x in inputs]
        hidden = torch.rand(8, 5, 7) < 0.4
        hidden[..., 0] = False
        padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
        out, weights = layer(*given, attn_mask=hidden, key_padding_mask=padding)
        heads = layer(*given, attn_mask=torch.where(hidden, -2.0, 1.0)[0], average_attn_weights=False)
        ((out**2).sum() + heads[0].sum()).backward()
        results.append([out, weights, *heads, *(x.grad for x in inputs), *(p.grad for p in layer.parameters())])
    for mine, other in zip(results[1], results[0]):
        torch.testing.assert_close(mine, other, atol=2e-5, rtol=2e-5)


def test_self_attention_without_a_batch_and_causal():
    theirs, ours, _ = both(attention_of(batch_first=True))
    x = torch.randn(6, 16)
    for mine, other in zip(ours(x, x, x), theirs(x, x, x)):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
    x = torch.randn(2, 6, 16)
    mask = nn.Transformer.generate_square_subsequent_mask(6)
    options = dict(attn_mask=mask, is_causal=True, need_weights=False)
    torch.testing.assert_close(ours(x, x, x, **options)[0], theirs(x, x, x, **options)[0], atol=1e-5, rtol=1e-5)
    with pytest.raises(RuntimeError, match="is_causal"):
        ours(x, x, x, is_causal=True)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_transformer(norm_first, training):
    model = nn.Transformer(16, 4, 2, 2, 24, dropout=0.0, norm_first=norm_first, batch_first=True)
    theirs, ours, done = both(model)
    assert done.swapped["encoder.layers.1"] == "TransformerEncoderLayer"
    assert done.swapped["decoder.layers.0.multihead_attn"] == "MultiheadAttention"
    assert list(ours.state_dict()) == list(theirs.state_dict())
    source, target = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
    padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    results = []
    for model in (theirs, ours):
        model.train(training)
        with torch.set_grad_enabled(training):  # without gradients torch's encoder takes its fast path
            results.append(
                model(source, target, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)
            )
    torch.testing.assert_close(results[1], results[0], atol=2e-5, rtol=2e-5)


def test_encoder_layers_call_our_attention(monkeypatch):
    """With the attention inside alone swapped, torch's fast path would never call it."""
    _, ours, _ = both(nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, batch_first=True), 2))
    calls = []
    monkeypatch.setattr(qkv.torch.layers, "attention", lambda *g, **o: calls.append(1) or qkv.torch.attention(*g, **o))
    padding = torch.tensor([[False] * 7, [False] * 4 + [True] * 3])
    with torch.no_grad():
        ours.eval()(torch.randn(2, 7, 16), src_key_padding_mask=padding)
    assert len(calls) == 2


def test_what_is_kept_is_said():
    class Own(nn.MultiheadAttention):
        pass

    model = nn.ModuleDict(
        {"own": Own(8, 2), "extra": nn.MultiheadAttention(8, 2, add_bias_kv=True), "plain": nn.MultiheadAttention(8, 2)}
    )
    done = qkv.torch.replace(model)
    assert set(done.kept) == {"own", "extra"} and set(done.swapped) == {"plain"}
    assert "bias_k" in done.kept["extra"] and "Own" in done.kept["own"] and type(model["own"]) is Own
    assert str(done).count("\n") == 2
    again = qkv.torch.replace(model)
    assert not again.swapped and "already" in again.kept["plain"]
    assert "nothing" in str(qkv.torch.replace(nn.Linear(2, 2)))


def test_weights_move_between_both():
    theirs, ours, _ = both(nn.TransformerEncoderLayer(16, 4, batch_first=True))
    ours.load_state_dict(theirs.state_dict())
    fresh = nn.TransformerEncoderLayer(16, 4, batch_first=True)
    fresh.load_state_dict(ours.state_dict())
    x = torch.randn(2, 5, 16)
    torch.testing.assert_close(fresh.eval()(x), ours.eval()(x), atol=1e-5, rtol=1e-5)


def outcome(model, *inputs, **options):
    """What a model gives, or the kind of its refusal."""
    try:
        return model(*inputs, **options)[0]
    except (AssertionError, RuntimeError) as error:
        return type(error)


TYPES = [torch.bool, torch.int64, torch.uint8, torch.float32, torch.float64, torch.bfloat16]


@pytest.mark.parametrize("mask", TYPES)
@pytest.mark.parametrize("query", [torch.float32, torch.float64])
@pytest.mark.parametrize("need_weights", [False, True])
def test_types_of_masks_are_those_of_torch(query, mask, need_weights):
    theirs, ours, _ = both(attention_of(batch_first=True).to(query))
    x = torch.randn(2, 7, 16, dtype=query)
    padding = torch.tensor([[0] * 7, [0] * 4 + [1] * 3]).to(mask)
    hidden = torch.triu(torch.ones(7, 7), 1).to(mask)
    for options in ({"key_padding_mask": padding}, {"attn_mask": hidden}, {"key_padding_mask": padding, "attn_mask": hidden}):
        expected, found = (outcome(each, x, x, x, need_weights=need_weights, **options) for each in (theirs, ours))
        if isinstance(expected, type):
            assert found is expected
        else:
            torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("mask", TYPES)
def test_types_of_masks_in_an_encoder_layer(mask):
    theirs, ours, _ = both(nn.TransformerEncoderLayer(16, 4, dropout=0.0, batch_first=True))
    x = torch.randn(2, 7, 16)
    padding = torch.tensor([[0] * 7, [0] * 4 + [1] * 3]).to(mask)
    expected, found = (outcome(each, x, src_key_padding_mask=padding) for each in (theirs, ours))
    if isinstance(expected, type):
        assert found is expected
    else:
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)


def test_a_refused_mask_is_named():
    _, ours, _ = both(attention_of(batch_first=True))
    x = torch.randn(2, 7, 16)
    with pytest.raises(AssertionError, match="bool and floating types of key_padding_mask are supported, got torch.int64"):
        ours(x, x, x, key_padding_mask=torch.zeros(2, 7, dtype=torch.long))
    with pytest.raises(AssertionError, match="attn_mask"):
        causal = torch.ones(7, 7, dtype=torch.long).triu(1)
        ours(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)
    with pytest.raises(RuntimeError, match="attn_mask must be of torch.bool or torch.float32 .* got torch.float64"):
        ours(x, x, x, attn_mask=torch.zeros(7, 7, dtype=torch.float64))
