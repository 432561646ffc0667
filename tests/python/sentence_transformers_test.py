"""qkv.sentence_transformers.load beside SentenceTransformer on the same folder."""

import pickle
from pathlib import Path

import numpy
import pytest

pytest.importorskip("torch")
sentence_transformers = pytest.importorskip("sentence_transformers")

import qkv.sentence_transformers  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402
from sentence_transformers.sentence_transformer import modules  # noqa: E402

ENCODER = str(Path(__file__).resolve().parents[1] / "golden" / "encoders" / "roberta")
TEXTS = [f"Text {i} {'word ' * (i % 9)}." for i in range(50)]


KINDS = ["mean", "cls", "normal", "default prompt", "mean without prompt", "cls without prompt"]


@pytest.fixture(scope="module", params=KINDS)
def pair(request, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("model") / request.param)
    transformer = modules.Transformer(ENCODER, max_seq_length=20)
    kind, included = request.param[:4].strip(), "without" not in request.param
    pooling = modules.Pooling(
        transformer.get_embedding_dimension(), kind if kind in ("cls", "mean") else "mean", include_prompt=included
    )
    parts = [transformer, pooling, *([modules.Normalize()] if request.param == "normal" else [])]
    prompts = {"query": "find: ", "long": "one two three four five six seven eight nine ten " * 2}
    default = "query" if "prompt" in request.param else None
    SentenceTransformer(
        modules=parts, device="cpu", prompts=prompts, default_prompt_name=default, similarity_fn_name="dot"
    ).save(folder)
    return SentenceTransformer(folder, device="cpu"), qkv.sentence_transformers.load(folder)


@pytest.mark.parametrize("weights, least", [("bf16", 0.9999), ("int8", 0.995)])
def test_weights_in_fewer_bits(weights, least):
    whole, ours = qkv.sentence_transformers.load(ENCODER), qkv.sentence_transformers.load(ENCODER, weights=weights)
    full, found = (model.encode(TEXTS, normalize_embeddings=True) for model in (whole, ours))
    assert (found != full).any() and (found * full).sum(axis=1).min() >= least
    assert (ours.encode(TEXTS) == qkv.Embedder(ENCODER, weights=weights).encode(TEXTS)).all()
    assert (pickle.loads(pickle.dumps(ours)).encode(TEXTS) == ours.encode(TEXTS)).all()
    with pytest.raises(ValueError, match="weights must be one of"):
        qkv.sentence_transformers.load(ENCODER, weights="int4")


def test_encode_and_similarity(pair):
    theirs, ours = pair
    assert isinstance(ours, SentenceTransformer)
    plain = qkv.Embedder(ours[0].embedder.folder)
    for options in (
        {}, {"prompt_name": "query"}, {"prompt_name": "long"}, {"prompt_name": "document"}, {"prompt": ""}, {"prompt": "x "},
        {"prompt": "x ", "prompt_name": "query"}, {"normalize_embeddings": True, "batch_size": 7},
    ):  # fmt: skip
        expected = theirs.encode(TEXTS, **options)
        for model in (ours, plain):
            numpy.testing.assert_allclose(model.encode(TEXTS, **options), expected, atol=1e-5, rtol=1e-5)
    assert ours.encode("one").shape == theirs.encode("one").shape
    found, expected = ours.encode(TEXTS), theirs.encode(TEXTS)
    assert ours.similarity_fn_name == "dot"
    numpy.testing.assert_allclose(ours.similarity(found, found), theirs.similarity(expected, expected), atol=1e-4, rtol=1e-4)


def test_the_same_bits_for_any_batch(pair):
    _, ours = pair
    whole = ours.encode(TEXTS)
    for size in (1, 7, 50):
        assert (ours.encode(TEXTS[::-1], batch_size=size)[::-1] == whole).all()


def test_what_belongs_to_a_model(pair, tmp_path):
    theirs, ours = pair
    assert ours.get_embedding_dimension() == theirs.get_embedding_dimension()
    assert ours.max_seq_length == theirs.max_seq_length
    assert (pickle.loads(pickle.dumps(ours)).encode(TEXTS) == ours.encode(TEXTS)).all()
    with pytest.raises(NotImplementedError, match="copy the folder"):
        ours.save(str(tmp_path / "saved"))
    ours.train()
    with pytest.raises(RuntimeError, match="no gradients"):
        ours(ours.preprocess(TEXTS))
    ours.eval()
