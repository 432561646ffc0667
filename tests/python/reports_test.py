"""report(), head_view() and model_view(): weights of anybody as the page of the library, and what is refused."""

import inspect
import json

import numpy
import pytest
import qkv

TOKENS = ["[CLS]", "the", "cat", "sat", "the", "[SEP]"]


def softmax(x):
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def weights_of(layers, heads, queries, keys, causal=False, seed=1):
    logits = numpy.random.default_rng(seed).normal(size=(layers, heads, queries, keys))
    if causal:
        logits = numpy.where(numpy.tri(queries, keys), logits, -numpy.inf)
    return softmax(logits).astype("f")


def heads_of(report, attention=0):
    site = json.loads(report.json())["attentions"][attention]
    return {(head["layer"], head["head"]): head for head in site["all"]}


def test_weights_are_those_given():
    given = weights_of(2, 3, 6, 6)
    for weights in (given, list(given), tuple(layer[None] for layer in given), given.astype("f8")):
        heads = heads_of(qkv.report(weights, TOKENS))
        assert len(heads) == 6
        for (layer, head), entry in heads.items():
            numpy.testing.assert_allclose(entry["weights"], given[layer, head], atol=1e-7)
            assert entry["first"] == pytest.approx(given[layer, head][:, 0].mean(), abs=1e-6)
            assert entry["separators"] == pytest.approx(given[layer, head][:, 5].mean(), abs=1e-6)
            assert "value_norm" not in entry


def test_causal_weights_are_seen_to_be():
    given = weights_of(1, 2, 6, 6, causal=True)
    site = json.loads(qkv.report(given, TOKENS).json())["attentions"][0]
    assert site["mask"] == "causal"
    # "the" is token 1 and token 4: behind its copy is token 2.
    for entry, weights in zip(site["all"], given[0], strict=True):
        assert entry["induction"] == pytest.approx(weights[4, 2], abs=1e-6)
        assert entry["duplicate"] == pytest.approx(weights[4, 1], abs=1e-6)


def test_torch_tuples_and_triples():
    torch = pytest.importorskip("torch")
    encoder, decoder = weights_of(2, 2, 6, 6), weights_of(2, 2, 3, 3, causal=True)
    cross = weights_of(2, 2, 3, 6)
    tuples = [tuple(torch.from_numpy(layer)[None].requires_grad_() for layer in each) for each in (encoder, decoder, cross)]
    target = ["le", "chat", "dort"]
    report = qkv.report(tuples, (TOKENS, target))
    for i, given in enumerate((encoder, decoder, cross)):
        for (layer, head), entry in heads_of(report, i).items():
            numpy.testing.assert_allclose(entry["weights"], given[layer, head], atol=1e-7)
    alone = qkv.report((None, decoder, None), (TOKENS, target))
    assert [site["name"] for site in json.loads(alone.json())["attentions"]] == ["decoder"]
    half = torch.from_numpy(encoder).to(torch.bfloat16)
    assert "remarks" not in json.loads(qkv.report(half, TOKENS).json())


def test_long_texts_have_maps():
    entry = heads_of(qkv.report(weights_of(1, 1, 100, 100), [f"t{i}" for i in range(100)]))[0, 0]
    assert entry["weights"] is None and entry["map"]["levels"]


def test_rows_that_do_not_sum_to_1_are_said():
    given = weights_of(2, 1, 6, 6)
    given[1, 0, 3] /= 2
    given[1, 0, 4] = 0  # every key masked
    report = qkv.report(given, TOKENS)
    said = "Rows of weights that do not sum to 1: 1; the first, of attention, layer 1, head 0, query 3, sums to 0.5."
    assert json.loads(report.json())["remarks"] == [said]
    assert said in " ".join(report.text().split()) and said in report.html()


def test_views_have_the_arguments_of_bertviz():
    head = "attention tokens sentence_b_start prettify_tokens layer heads encoder_attention decoder_attention cross_attention "
    head += "encoder_tokens decoder_tokens include_layers html_action"
    model = head.replace("layer heads", "display_mode").replace("include_layers", "include_layers include_heads")
    assert list(inspect.signature(qkv.head_view).parameters) == head.split()
    assert list(inspect.signature(qkv.model_view).parameters) == model.split()


def test_views_show_what_is_chosen():
    given = weights_of(4, 3, 6, 6)
    marked = ["\u0120the", "\u2581cat", "sat</w>", "on", "a", "mat"]
    view = qkv.head_view(given, marked, layer=2, heads=[1, 2], include_layers=[3, 2])
    assert json.loads(view.json())["sequences"][0]["tokens"] == ["the", "cat", "sat", "on", "a", "mat"]
    heads = heads_of(view)
    assert sorted(heads) == [(layer, head) for layer in (2, 3) for head in range(3)]
    numpy.testing.assert_allclose(heads[3, 1]["weights"], given[3, 1], atol=1e-7)
    assert "view=heads&show=lines&head=2.1" in view.html()
    whole = qkv.model_view(given, marked, None, False, include_heads=[2], html_action="return")
    assert json.loads(whole.json())["sequences"][0]["tokens"] == marked
    assert sorted(heads_of(whole)) == [(layer, 2) for layer in range(4)]
    assert "view=heads&scheme=dark" in whole.html() and whole.data == whole.html()
    pair = qkv.head_view(given, marked, sentence_b_start=4)
    assert [site["title"] for site in json.loads(pair.json())["attentions"]] == [
        "All tokens", "Sentence A to A", "Sentence A to B", "Sentence B to A", "Sentence B to B"]  # fmt: skip
    numpy.testing.assert_allclose(heads_of(pair, 2)[1, 2]["weights"], given[1, 2][:4, 4:], atol=1e-7)
    assert "remarks" not in json.loads(pair.json())


WEIGHTS = weights_of(2, 2, 6, 6)


def changed(layer, head, query, key, value):
    copy = WEIGHTS.copy()
    copy[layer, head, query, key] = value
    return copy


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: qkv.report(WEIGHTS, TOKENS[:5]),
         "report: attention, layer 0: weights are [2, 6, 6]; of 2 heads, 5 and 5 tokens they must be [2, 5, 5]"),
        (lambda: qkv.report([WEIGHTS[0], WEIGHTS[1][:1]], TOKENS),
         "report: attention, layer 1: weights are [1, 6, 6]; of 2 heads, 6 and 6 tokens they must be [2, 6, 6]"),
        (lambda: qkv.report(WEIGHTS[0], TOKENS),
         "report: attention, layer 0: weights are [6, 6]; they must be [heads, queries, keys]"),
        (lambda: qkv.report(changed(1, 0, 2, 3, numpy.nan), TOKENS),
         "report: attention, layer 1, head 0: the weight of query 2 on key 3 is not a number"),
        (lambda: qkv.report(changed(0, 1, 5, 0, -0.5), TOKENS),
         "report: attention, layer 0, head 1: the weight of query 5 on key 0 is -0.5; weights are 0 or more"),
        (lambda: qkv.report(numpy.repeat(WEIGHTS[:, None], 2, 1), TOKENS),
         "report: attention, layer 0: weights of 2 sequences; give one of them, layer[i:i+1]"),
        (lambda: qkv.report([], TOKENS), "report: attention has no layers"),
        (lambda: qkv.report(WEIGHTS, []), "report: there are no tokens tokens"),
        (lambda: qkv.report(WEIGHTS, (TOKENS, TOKENS)),
         "report: with tokens of encoder and decoder, weights are (encoder, decoder, cross attentions)"),
        (lambda: qkv.report((None, None, None), (TOKENS, TOKENS)), "report: there are no weights"),
        (lambda: qkv.head_view(WEIGHTS), "head_view and model_view: attention needs tokens"),
        (lambda: qkv.head_view(WEIGHTS, TOKENS, encoder_tokens=TOKENS),
         "head_view and model_view: attention does not go with encoder, decoder or cross attention"),
        (lambda: qkv.head_view(cross_attention=WEIGHTS, encoder_tokens=TOKENS),
         "head_view and model_view: cross_attention needs decoder_tokens"),
        (lambda: qkv.head_view(WEIGHTS, TOKENS, layer=2), "head_view: layer is 2; the layers are 0 to 1"),
        (lambda: qkv.head_view(WEIGHTS, TOKENS, heads=[2]), "head_view: there is no head 2; the heads are 0 to 1"),
        (lambda: qkv.head_view(WEIGHTS, TOKENS, 6), "head_view and model_view: sentence_b_start is 6; it must be 1 to 5"),
        (lambda: qkv.model_view(WEIGHTS, TOKENS, include_layers=[0, 2]),
         "head_view and model_view: include_layers is [0, 2]; the layers are 0 to 1"),
        (lambda: qkv.model_view(WEIGHTS, TOKENS, display_mode="blue"),
         'model_view: display_mode must be "light" or "dark", got \'blue\''),
        (lambda: qkv.head_view(WEIGHTS, TOKENS, html_action="show"), 'html_action must be "view" or "return", got \'show\''),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value) == message


def test_explain_of_a_generator():
    generator = qkv.Generator("tests/golden/language/gpt2")
    found = json.loads(qkv.explain(generator, "The cat sat").json())
    ids = generator.tokenizer.encode("The cat sat").ids
    assert found["sequences"][0]["ids"] == list(ids)
    [next_id] = generator.generate([list(ids)], max_new_tokens=1, greedy=True)[0].ids
    assert found["continuation"]["written"][-1]["id"] == next_id


def test_at_most_32_public_names():
    assert len([name for name in qkv.__all__ if name != "__version__"]) <= 32
