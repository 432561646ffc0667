"""qkv.sentence_transformers.load beside SentenceTransformer on the same folder."""

import pickle
from pathlib import Path

import numpy
import pytest

torch = pytest.importorskip("torch")
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


def models(pair):
    """Theirs, and both of ours."""
    theirs, ours = pair
    return theirs, (ours, qkv.Embedder(ours[0].embedder.folder))


def close(found, expected):
    numpy.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_queries_and_documents(pair):
    theirs, both = models(pair)
    for model in both:
        for method in ("encode_query", "encode_document"):
            for options in ({}, {"prompt": "x "}, {"prompt": ""}, {"prompt_name": "long"}, {"normalize_embeddings": True}):
                close(getattr(model, method)(TEXTS, **options), getattr(theirs, method)(TEXTS, **options))
        with pytest.raises(ValueError, match="title"):
            model.encode_query(TEXTS, prompt_name="title")


def test_token_embeddings(pair):
    theirs, both = models(pair)
    for model in both:
        for options in ({}, {"prompt": ""}, {"prompt_name": "query", "batch_size": 7}):
            options["output_value"] = "token_embeddings"
            found, expected = model.encode(TEXTS, **options), theirs.encode(TEXTS, **options)
            for mine, each in zip(found, expected, strict=True):
                close(mine, each)
            close(model.encode("one text", **options), theirs.encode("one text", **options))
        with pytest.raises(ValueError, match="output_value"):
            both[1].encode(TEXTS, output_value="tokens")
    assert all(isinstance(each, torch.Tensor) for each in both[0].encode(TEXTS, output_value="token_embeddings"))


def test_the_longest_text_can_be_set(pair):
    theirs, both = models(pair)
    before = theirs.max_seq_length
    for length in (12, 17, 30):  # with room for the prompt, whose tokens theirs counts once
        for model in (theirs, *both):
            model.max_seq_length = length
            assert model.max_seq_length == length
            close(model.encode(TEXTS), theirs.encode(TEXTS))
            assert pickle.loads(pickle.dumps(model)).max_seq_length == length
    for model in (theirs, *both):
        model.max_seq_length = before
    for model in both:
        for wrong in (0, -1, 10**6):
            with pytest.raises(ValueError, match="max_length"):
                model.max_seq_length = wrong
        assert model.max_seq_length == before


def test_the_tokenizer(pair):
    theirs, (ours, plain) = models(pair)
    assert ours.tokenizer(TEXTS, padding=True, truncation=True) == theirs.tokenizer(TEXTS, padding=True, truncation=True)
    for given in (TEXTS, TEXTS[3]):
        expected, found = theirs.tokenizer(given, truncation=True), plain.tokenizer(given, max_length=20)
        assert {name: found[name] for name in expected} == dict(expected)


def test_similarity_gives_what_was_asked_for(pair):
    theirs, (_, plain) = models(pair)
    vectors = theirs.encode(TEXTS[:5])
    tensors = torch.from_numpy(vectors)
    for method in ("similarity", "similarity_pairwise"):
        expected = getattr(theirs, method)(vectors, vectors)
        for given in (tensors, list(tensors)):
            found = getattr(plain, method)(given, given)
            assert isinstance(found, torch.Tensor)
            torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
        assert isinstance(getattr(plain, method)(vectors, vectors), numpy.ndarray)


def test_threads_and_types(pair, monkeypatch):
    _, (ours, _) = models(pair)
    seen = []
    encode = qkv.Embedder.encode
    monkeypatch.setattr(qkv.Embedder, "encode", lambda *a, threads=None, **k: seen.append(threads) or encode(*a, **k))
    before = torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        ours.encode(TEXTS)
    torch.set_num_threads(before)
    assert seen[0] == 1 and seen[-1] == 2
    assert ours.float().to("cpu") is ours
    for change in (ours.half, ours.double, ours.bfloat16, lambda: ours.to("meta")):
        with pytest.raises(TypeError, match="computes in float32 on the CPU, not in"):
            change()


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
