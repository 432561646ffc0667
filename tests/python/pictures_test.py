"""Vit, PictureClassifier and classify() on the shipped model and on golden folders; explain(), train() and compare()."""

import json
import pickle

import golden
import numpy
import pytest
import qkv
import tiny_training

ROOT = golden.ROOT
DIGITS = ROOT / "models" / "digits"


@pytest.mark.parametrize("name", ["vit", "dinov2"])
def test_vit_beside_transformers(name):
    case, _ = golden.read(f"vit/{name}.safetensors")
    vit = qkv.pictures.Vit(ROOT / "tests" / "golden" / "vit" / name)
    numpy.testing.assert_allclose(vit(case["pictures_0"]), case["hidden_f64_0"], atol=2e-5)
    numpy.testing.assert_allclose(vit.logits(case["pictures_0"]), case["logits_f64_0"], atol=2e-5)


def test_classify():
    classifier = qkv.pictures.PictureClassifier(DIGITS)
    seven = ROOT / "data" / "example" / "seven.png"
    found = classifier.classify(seven, top=10)
    assert found[0].label == "7" and len(found) == 10
    assert sum(each.probability for each in found) == pytest.approx(1)
    assert qkv.pictures.classify(DIGITS, [seven], top=10) == [found]
    assert pickle.loads(pickle.dumps(classifier)).classify(seven, top=10) == found
    assert pickle.loads(pickle.dumps(qkv.pictures.Vit(DIGITS))).labels == [str(digit) for digit in range(10)]
    with pytest.raises(TypeError, match="picture must be uint8"):
        classifier.classify(numpy.zeros((8, 8, 3), "f4"))
    with pytest.raises(FileNotFoundError):
        classifier.classify("nowhere.png")


def test_explain_steps():
    report = qkv.explain()
    assert "step by step" in report.title and report.title in str(report)
    assert json.loads(report.json())["version"]
    page = report.html()
    assert page.startswith("<!doctype html>") or page.startswith("<!DOCTYPE html>")
    shown = report._repr_html_()
    assert shown.startswith("<iframe ") and "<script" not in shown  # it is inside the frame's own document


def test_explain_of_arrays_shows_their_attention():
    random = numpy.random.default_rng(1)
    x, *w = (random.standard_normal(shape) for shape in ((3, 4), (4, 2), (4, 2), (4, 2)))
    found = json.loads(qkv.explain(inputs=x, w_query=w[0], w_key=w[1], w_value=w[2]).json())
    assert numpy.allclose(found["output"], qkv.attention(x @ w[0], x @ w[1], x @ w[2]))


def test_explain_a_translation(tmp_path):
    translator = qkv.Translator(ROOT / "models" / "en-es")
    report = qkv.explain(translator, "You are welcome.")
    found = json.loads(report.json())
    assert found["version"] and "De nada." in report.title
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html()
    with pytest.raises(TypeError, match="inputs is for arrays"):
        qkv.explain(translator, "text", inputs=numpy.zeros((1, 1)))
    with pytest.raises(TypeError, match="text must be a str, got NoneType"):
        qkv.explain(translator)
    with pytest.raises(TypeError, match="must be an Embedder, a Translator or a Generator, got int"):
        qkv.explain(3, "text")


@pytest.fixture
def folder(tmp_path):
    tiny_training.write(tmp_path, steps=4, warmup=1, log_every=1, validate_every=2)
    return tmp_path


def test_train(folder):
    said = []
    files = [folder / "config.json", folder / "train.tsv", folder / "valid.tsv", folder / "out"]
    result = qkv.train(*files, progress=said.append)
    assert result["step"] == 4 and any("validation_loss" in each for each in said)
    assert isinstance(str(qkv.Translator(folder / "out").translate("one two")), str)
    assert qkv.train(*files)["best_loss"] == result["best_loss"]  # nothing left to do

    class Enough(Exception):
        pass

    def refuse(progress):
        raise Enough

    with pytest.raises(Enough):
        qkv.train(*files[:3], folder / "other", progress=refuse)
    with pytest.raises(TypeError, match="progress must be callable"):
        qkv.train(*files[:3], folder / "third", progress=3)
    with pytest.raises(FileNotFoundError):
        qkv.train(folder / "nowhere", *files[1:])


def test_compare(tmp_path):
    with pytest.raises(ValueError, match="recall"):
        qkv.lab.compare(tmp_path, tasks=["no such task"])
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'task'"):
        qkv.lab.compare(tmp_path, task=["recall"])
