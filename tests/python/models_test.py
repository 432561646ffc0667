"""Translator and Tokenizer from the shipped folder, Embedder from a golden one; the program inside the extension."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import qkv

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models" / "en-es"
ROBERTA = ROOT / "tests" / "golden" / "encoders" / "roberta"
WEIGHTS = 'weights must be one of "f32", "bf16", "int8", "int8_groups", "q8", "q4", got "int4"'


@pytest.fixture(scope="module")
def translator():
    return qkv.Translator(MODEL)


def test_translate(translator):
    assert str(translator.translate("You are welcome.")) == "De nada."
    texts = ["You are welcome.", "", "Good morning."]
    one_by_one = [translator.translate(text) for text in texts]
    assert translator.translate(texts) == one_by_one
    assert list(translator.translate_iter(iter(texts))) == one_by_one
    done = []
    assert translator.translate(texts, progress=lambda n, of: done.append((n, of))) == one_by_one
    assert done[-1] == (3, 3)
    assert len(translator.translate("Good morning.", beams=3, nbest=2)) == 2


def test_translate_says_what_the_program_says(translator):
    program = [sys.executable, "-m", "qkv", "translate", "--model", str(MODEL)]
    printed = subprocess.run(program, input="Good morning.\nWhere is it?\n", capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == [str(t) for t in translator.translate(["Good morning.", "Where is it?"])]


def test_generate_gives_the_ids_of_translate(translator):
    ids = translator.tokenizer.encode("Good morning.").ids
    assert translator.generate([ids])[0][0].ids == translator.translate("Good morning.").ids
    with pytest.raises(ValueError):
        translator.generate([[]])
    with pytest.raises(TypeError, match="sources"):
        translator.generate("text")


def test_texts_that_are_no_str(translator):
    with pytest.raises(TypeError, match=r"texts\[1\] must be a str, got int"):
        translator.translate(["a", 2])
    with pytest.raises(TypeError, match=r"texts\[1\]"):
        list(translator.translate_iter(["a", None]))
    with pytest.raises(TypeError, match="unexpected keyword"):
        list(translator.translate_iter(["a"], beam=2))


def test_tokenizer_reads_back_what_it_wrote():
    tokenizer = qkv.Tokenizer(MODEL / "tokenizer.json")
    text = "\u00bfQu\u00e9? It's here."
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert tokenizer.token_of(encoding.ids[0]) == encoding.tokens[0] and tokenizer.id_of("no such token") is None
    assert pickle.loads(pickle.dumps(tokenizer)).encode(text) == encoding
    assert max(end for _, end in encoding.offsets) == len(text)  # characters, not bytes
    with pytest.raises(ValueError):
        tokenizer.decode([tokenizer.vocab()])


def test_pickles_as_folder_and_options(translator):
    again = pickle.loads(pickle.dumps(qkv.Translator(MODEL, weights="bf16", precision="reduced", threads=2)))
    assert again.weights == "bf16" and again.precision == "reduced" and again.threads == 2


def test_program_prints_its_version_and_exit_codes():
    run = lambda *words: subprocess.run([sys.executable, "-m", "qkv", *words], capture_output=True, text=True)
    assert run("--version").stdout == f"qkv {qkv.__version__}\n"
    assert run("--nonsense").returncode == 2


MINILM = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "qkv" / "all-MiniLM-L6-v2"


@pytest.mark.parametrize(
    "options", [{}, {"weights": "bf16"}, {"weights": "int8"}, {"weights": "int8_groups"}, {"precision": "reduced"}]
)
def test_encode_does_not_depend_on_the_batch(options):
    embedder = qkv.Embedder(ROBERTA, **options)
    texts = [f"Text {'word ' * (i % 9)}{i}." for i in range(20)]
    whole = embedder.encode(texts)
    assert whole.shape == (20, embedder.get_sentence_embedding_dimension()) and whole.dtype == numpy.float32
    assert (numpy.stack([embedder.encode(text) for text in texts]) == whole).all()
    assert (embedder.encode(texts[::-1], threads=2) == whole[::-1]).all()
    assert (embedder.transform(texts) == whole).all() and (pickle.loads(pickle.dumps(embedder)).encode(texts) == whole).all()
    numpy.testing.assert_allclose(numpy.diag(embedder.similarity(whole, whole)), 1, atol=1e-6)
    assert (qkv.Embedder(ROBERTA).encode(texts) != whole).any() == bool(options)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: qkv.Embedder(ROBERTA, weights="int4"), ValueError, WEIGHTS),
        (lambda: qkv.Translator(MODEL, weights="int4"), ValueError, WEIGHTS),
        (lambda: qkv.Embedder(ROBERTA, precision="low"), ValueError, "precision must be"),
        (lambda: qkv.Embedder(ROBERTA, weights="int8", precision="reduced"), ValueError, "precision: reduced rounds weights to bf16"),
        (lambda: qkv.Embedder(ROBERTA).encode(["a"], precision="int8"), ValueError, "precision"),
        (lambda: qkv.Embedder(ROBERTA).encode([1]), TypeError, r"sentences\[0\] must be a str, got int"),
        (lambda: qkv.Embedder(ROBERTA).encode(3), TypeError, "sentences must be a str or a list of str, got int"),
    ],
)
def test_what_does_not_fit(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize("kind", ["roberta", "mpnet", "xlm_roberta"])
def test_embedder_beside_transformers(kind):
    encoders = ROOT / "tests" / "golden" / "encoders"
    want = json.loads((encoders / f"{kind}_embed.json").read_text())
    embedder = qkv.Embedder(encoders / kind)
    numpy.testing.assert_allclose(embedder.encode(want["texts"]), want["embeddings"], atol=2e-6)
    tokenizer = qkv.Tokenizer(encoders / kind / "tokenizer.json")
    assert [tokenizer.encode(text).ids for text in want["texts"]] == want["ids"]
    assert json.loads(qkv.explain(embedder, "the cat").json())["kind"] == "heads"
    with pytest.raises(ValueError, match="tokens"):  # of which none is left out in silence
        qkv.explain(embedder, "the cat " * 500)


def test_what_is_done_is_shown(capfd):
    """As sentence-transformers does, on standard error, and only where it is asked for."""
    embedder = qkv.Embedder(ROBERTA)
    texts, done = ["a"] * 70, []
    for output in ("sentence_embedding", "token_embeddings"):
        embedder.encode(texts, output_value=output)
        assert capfd.readouterr() == ("", "")
        done.clear()
        embedder.encode(texts, output_value=output, show_progress_bar=True, progress=lambda n, of: done.append((n, of)))
        out, err = capfd.readouterr()
        assert out == "" and err.endswith("\r100 % of 70 texts\n") and err.count("\n") == 1 and done[-1] == (70, 70)


def test_embedder_in_a_pipeline_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = ["a cat", "a dog", "a horse", "one car", "one train", "one ship"]
    pipeline = make_pipeline(qkv.Embedder(MINILM), LogisticRegression()).fit(texts, [0, 0, 0, 1, 1, 1])
    assert pipeline.predict(["a cow", "one bus"]).tolist() == [0, 1]
    again = sklearn.base.clone(qkv.Embedder(MINILM, threads=2, max_seq_length=500))
    assert again.get_params() == {
        "folder": MINILM,
        "weights": "f32",
        "precision": "exact",
        "threads": 2,
        "max_seq_length": 500,
    }
    assert again.max_seq_length == 500
    with pytest.raises(ValueError, match="unknown"):
        again.set_params(batch=3)
