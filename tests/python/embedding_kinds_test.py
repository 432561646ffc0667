"""Embedder on folders of SparseEncoder, MultiVectorEncoder and cut vectors, beside sentence-transformers (golden/embeddings)."""

import json
import pickle
import shutil
from pathlib import Path

import numpy
import pytest
import qkv
import qkv.batches

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "embeddings" / "expected.json").read_text())
TEXTS = EXPECTED["texts"]
CASES = {case["name"]: case for case in EXPECTED["cases"] if "dense/config.json" not in case["files"]}


def folder_of(case, folder):
    for file in ("config.json", "tokenizer.json"):
        shutil.copy(GOLDEN / "fill" / file, folder)
    shutil.copy(GOLDEN / "embeddings" / "model.safetensors", folder)
    for name, content in case["files"].items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture
def model(case, tmp_path):
    return qkv.Embedder(folder_of(case, tmp_path))


def close(found, expected):
    numpy.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def dense(vectors):
    rows = numpy.zeros((len(vectors), 18), "f")
    for row, vector in zip(rows, vectors, strict=True):
        row[vector.indices] = vector.values
    return rows


def test_agrees_with_sentence_transformers(case, model):
    assert model.kind == case["kind"]
    for call in case["calls"]:
        encode = {"text": model.encode, "query": model.encode_query, "document": model.encode_document}[call["role"]]
        prompt = {"prompt": ""} if call["prompt"] == "" else {"prompt_name": call["prompt"]}
        if case["kind"] == "tokens":
            found = encode(TEXTS, **prompt)
            for mine, each in zip(found, call["rows"], strict=True):
                close(mine, each)
            close(encode(TEXTS[1], **prompt), call["rows"][1])
            continue
        cut = {"truncate_dim": call["dimensions"]}
        if case["kind"] == "sparse":
            close(dense(encode(TEXTS, **prompt, **cut)), call["rows"])
            close(dense([encode(TEXTS[1], **prompt, **cut)]), call["rows"][1:2])
        else:
            close(encode(TEXTS, **prompt, **cut, normalize_embeddings=call["normalize"]), call["rows"])


def test_similarities(case, model):
    if case["kind"] == "tokens":
        queries, documents = model.encode_query(TEXTS), model.encode_document(TEXTS)
        assert model.similarity_fn_name == "maxsim"
        numpy.testing.assert_allclose(model.similarity(queries, documents), case["maxsim"], rtol=1e-5)
        close(model.similarity_pairwise(queries, documents), numpy.diag(case["maxsim"]))
        close(model.similarity(queries[1], documents), case["maxsim"][1:2])
    if case["kind"] == "sparse":
        vectors = model.encode(TEXTS)
        numpy.testing.assert_allclose(model.similarity(vectors, vectors), case["similarity"], rtol=1e-5)
        close(model.similarity_pairwise(vectors, vectors), numpy.diag(case["similarity"]))
        close(model.similarity(vectors[1], vectors), case["similarity"][1:2])
        for mine, theirs in zip(model.decode(vectors, top_k=3), case["words"], strict=True):
            assert [word for word, _ in mine] == [word for word, _ in theirs]
            close([weight for _, weight in mine], [weight for _, weight in theirs])


def test_tensors_of_torch(case, model):
    torch = pytest.importorskip("torch")
    found, plain = model.encode(TEXTS, convert_to_tensor=True), model.encode(TEXTS)
    if case["kind"] == "sparse":
        assert found.is_sparse and (found.to_dense().numpy() == dense(plain)).all()
        close(model.similarity(found, found), case["similarity"])
    elif case["kind"] == "tokens":
        assert all(isinstance(each, torch.Tensor) and (each.numpy() == rows).all() for each, rows in zip(found, plain, strict=True))
    else:
        assert (found.numpy() == plain).all()


def test_the_dimensions_can_be_set(tmp_path):
    folder = folder_of(CASES["vector, not of length 1"], tmp_path)
    whole, cut = qkv.Embedder(folder), qkv.Embedder(folder, truncate_dim=5)
    assert (cut.encode(TEXTS) == whole.encode(TEXTS)[:, :5]).all()
    assert (whole.encode(TEXTS, truncate_dim=5) == cut.encode(TEXTS)).all()
    assert cut.encode(TEXTS, truncate_dim=3).shape == (4, 3)
    assert (whole.get_embedding_dimension(), cut.get_embedding_dimension()) == (12, 5)
    assert cut.fingerprint() != whole.fingerprint() == qkv.Embedder(folder, truncate_dim=12).fingerprint()
    assert pickle.loads(pickle.dumps(cut)).truncate_dim == 5
    with pytest.raises(ValueError, match="truncate_dim"):
        whole.encode(TEXTS, truncate_dim=0)


def test_what_a_kind_cannot_give_is_refused(case, model):
    if case["kind"] == "tokens":
        for wrong in ({"truncate_dim": 3}, {"normalize_embeddings": True}):
            with pytest.raises(ValueError, match="per token"):
                model.encode(TEXTS, **wrong)
    if case["kind"] == "sparse":
        with pytest.raises(ValueError, match="per token"):
            model.encode(TEXTS, output_value="token_embeddings")
    if case["kind"] != "vector":
        with pytest.raises(ValueError, match=case["kind"]):
            qkv.batches.Embed(model.folder)({"text": TEXTS})
    with pytest.raises(ValueError, match="zebra"):
        model.encode(TEXTS, prompt_name="zebra")
    assert model.prompts["query"] == ("who " if "config_sentence_transformers.json" in case["files"] else "")
