"""qkv.torch.whole: models of transformers on our engine, beside themselves."""

import copy
import pickle

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import qkv.torch  # noqa: E402

SMALL = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, vocab_size=60, pad_token_id=1)
ENCODERS = {
    "Bert": dict(SMALL, max_position_embeddings=32),
    "Roberta": dict(SMALL, max_position_embeddings=34),
    "XLMRoberta": dict(SMALL, max_position_embeddings=34),
    "MPNet": dict(SMALL, max_position_embeddings=34),
    "DistilBert": dict(dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=60, max_position_embeddings=32),
}


def model_of(kind, head="Model"):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**ENCODERS[kind])
    model = getattr(transformers, f"{kind}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def inputs(lengths=(12, 7, 1)):
    torch.manual_seed(1)
    ids = torch.randint(4, 60, (len(lengths), max(lengths)))
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return ids.masked_fill(mask == 0, 1), mask


@pytest.mark.parametrize("kind", ENCODERS)
def test_encoders(kind):
    theirs = model_of(kind)
    ours = qkv.torch.whole(theirs)
    ids, mask = inputs()
    with torch.no_grad():
        expected, found = theirs(ids, attention_mask=mask), ours(ids, attention_mask=mask)
        seen = mask.bool()
        torch.testing.assert_close(found.last_hidden_state[seen], expected.last_hidden_state[seen], atol=1e-5, rtol=1e-5)
        assert (found.last_hidden_state[~seen] == 0).all()
        if kind != "DistilBert":
            torch.testing.assert_close(found.pooler_output, expected.pooler_output, atol=1e-5, rtol=1e-5)
        alone = ours(ids[1:2, :7]).last_hidden_state
        assert torch.equal(alone[0], found.last_hidden_state[1, :7])  # the same bits whatever the batch


def test_types_of_tokens():
    theirs = model_of("Bert")
    ids, _ = inputs((9, 9))
    types = torch.tensor([[0] * 4 + [1] * 5] * 2)
    with torch.no_grad():
        expected = theirs(ids, token_type_ids=types).last_hidden_state
        found = qkv.torch.whole(theirs)(ids, token_type_ids=types).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_a_model_with_a_head():
    theirs = model_of("Bert", "ForSequenceClassification")
    ours = qkv.torch.whole(copy.deepcopy(theirs))
    ids, mask = inputs()
    with torch.no_grad():
        torch.testing.assert_close(
            ours(ids, attention_mask=mask).logits, theirs(ids, attention_mask=mask).logits, atol=1e-5, rtol=1e-5
        )


def marian():
    torch.manual_seed(0)
    config = transformers.MarianConfig(
        d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, vocab_size=60, max_position_embeddings=64, pad_token_id=59,
        decoder_start_token_id=59, eos_token_id=0, forced_eos_token_id=None,
    )  # fmt: skip
    theirs = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    theirs.generation_config.bad_words_ids = [[59]]  # as published models have it
    return theirs


def test_marian():
    theirs = marian()
    ours = qkv.torch.whole(theirs)
    ids, mask = inputs()
    ids = ids.masked_fill(mask == 0, 59)
    ids[torch.arange(3), mask.sum(1) - 1] = 0  # texts end with </s>
    expected = theirs.generate(ids, attention_mask=mask, num_beams=1, max_new_tokens=10, do_sample=False)
    assert torch.equal(ours.generate(ids, mask, num_beams=1, max_new_tokens=10), expected)
    assert ours.generate(ids, num_beams=3, max_new_tokens=5, num_return_sequences=2).shape[0] == 6


def test_it_pickles_and_copies_with_its_weights():
    theirs = model_of("Bert", "ForSequenceClassification")
    ours = qkv.torch.whole(copy.deepcopy(theirs))
    ids, mask = inputs()
    with torch.no_grad():
        expected = ours(ids, attention_mask=mask).logits
        for again in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours), pickle.loads(pickle.dumps(copy.deepcopy(ours)))):
            assert torch.equal(again(ids, attention_mask=mask).logits, expected)
            assert again.classifier.weight is not ours.classifier.weight
    translator = qkv.torch.whole(marian())
    expected = translator.generate(ids, mask, num_beams=1, max_new_tokens=5)
    for again in (pickle.loads(pickle.dumps(translator)), copy.deepcopy(translator)):
        assert torch.equal(again.generate(ids, mask, num_beams=1, max_new_tokens=5), expected)


@pytest.mark.parametrize("kind", ["Bert", "DistilBert"])
def test_what_belongs_to_a_model(kind):
    theirs = model_of(kind)
    ours = qkv.torch.whole(theirs)
    ids, mask = inputs()
    assert (ours.dtype, ours.device) == (theirs.dtype, theirs.device)
    with torch.no_grad():
        found, expected = (model(ids, attention_mask=mask, return_dict=False) for model in (ours, theirs))
        assert type(found) is tuple and len(found) == len(expected)
        torch.testing.assert_close(found[0][mask.bool()], expected[0][mask.bool()], atol=1e-5, rtol=1e-5)
        ours.config.return_dict = False
        assert type(ours(ids)) is tuple and "last_hidden_state" in ours(ids, return_dict=True)
    assert ours.float().to("cpu") is ours
    for change in (ours.half, ours.double, ours.bfloat16, lambda: ours.to(torch.float16), lambda: ours.to("meta")):
        with pytest.raises(TypeError, match="WholeEncoder computes in float32 on the CPU, not in"):
            change()


def test_what_is_refused():
    theirs = model_of("Bert")
    ours = qkv.torch.whole(theirs)
    ids, mask = inputs()
    with pytest.raises(ValueError, match="position_ids"):
        ours(ids, position_ids=ids)
    with pytest.raises(ValueError, match="output_attentions"):
        ours(ids, output_attentions=True)
    with pytest.raises(ValueError, match="on the right"):
        ours(ids, attention_mask=mask.flip(1))
    with pytest.raises(ValueError):
        ours(ids + 60)
    with pytest.raises(RuntimeError, match="no gradients"):
        ours.train()(ids)
    with pytest.raises(ValueError, match="no engine for Linear"):
        qkv.torch.whole(torch.nn.Linear(2, 2))
