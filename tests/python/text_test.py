"""qkv.text beside sentence-transformers and transformers (golden/rank, fill, tags, answers)."""

import json
import pickle

import golden
import numpy
import pytest
import qkv

GOLDEN = golden.ROOT / "tests" / "golden"


def expected(name):
    return json.loads((GOLDEN / name / "expected.json").read_text())


class Identity:
    """Stands for torch.nn.Identity, which is known by its name."""


def test_rank_as_cross_encoder():
    reranker = qkv.text.Reranker(GOLDEN / "rank", threads=2)
    for row in expected("rank"):
        pairs = [[row["query"], text] for text in row["texts"]]
        scores = reranker.predict(pairs)
        assert scores.dtype == numpy.float32
        numpy.testing.assert_allclose(scores, row["sigmoid"], atol=1e-5)
        numpy.testing.assert_allclose(reranker.predict(pairs, activation_fn=Identity()), row["identity"], atol=1e-5)
        assert reranker.predict(pairs[0]) == scores[0]
        ranked = reranker.rank(row["query"], row["texts"], return_documents=True)
        assert [found["corpus_id"] for found in ranked] == row["order"]
        assert ranked[0]["text"] == row["texts"][row["order"][0]] and ranked[0]["score"] == scores.max()
        assert reranker.rank(row["query"], row["texts"], top_k=2) == [
            {"corpus_id": i, "score": scores[i]} for i in row["order"][:2]
        ]
    assert reranker.predict([]).shape == (0,)
    assert pickle.loads(pickle.dumps(reranker)).predict(("a", "cat")) == reranker.predict(("a", "cat"))
    assert reranker.tokenizer.id_of("cat") == 7


@pytest.mark.parametrize(
    "options",
    [{"prompt": "a"}, {"prompt_name": "a"}, {"apply_softmax": True}, {"device": "cuda"}, {"batch_size": 0},
     {"activation_fn": len}],
)  # fmt: skip
def test_rank_refuses_by_name(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        qkv.text.Reranker(GOLDEN / "rank").predict([["a", "b"]], **options)
    with pytest.raises(ValueError, match="pair of texts"):
        qkv.text.Reranker(GOLDEN / "rank").predict([["a", "b"], ["a"]])


def test_what_is_no_text_is_refused_by_name():
    ranker, classifier = qkv.text.Reranker(GOLDEN / "rank"), qkv.text.Classifier(GOLDEN / "rank")
    with pytest.raises(TypeError, match="inputs must be a pair of texts or a list of pairs, got int"):
        ranker.predict(3)
    with pytest.raises(ValueError, match=r"inputs\[0\] must be a pair of texts"):
        ranker.predict([3])
    with pytest.raises(TypeError, match="documents must be a str or a list, got int"):
        ranker.rank("a", 3)
    with pytest.raises(TypeError, match="texts must be a str or a list, got NoneType"):
        classifier.classify(None)


def test_pairs_that_are_done_are_shown(capfd):
    reranker, pairs = qkv.text.Reranker(GOLDEN / "rank"), [["who", "a cat sat"], ["who", "the dog"], ["a", "cat"]]
    scores = reranker.predict(pairs)
    assert capfd.readouterr() == ("", "")
    assert (reranker.predict(pairs, batch_size=2, show_progress_bar=True) == scores).all()
    assert capfd.readouterr() == ("", "\r66 % of 3 pairs\r100 % of 3 pairs\n")


def test_classify():
    classifier = qkv.text.Classifier(GOLDEN / "rank")
    texts = ["The cat sat on the mat.", "A dog ran."]
    found = classifier.classify(texts)
    assert [classifier.classify(text) for text in texts] == found
    assert classifier.classify(texts, top_k=None) == found and found[0][0].label == "LABEL_0"
    with pytest.raises(ValueError, match="top is 0"):
        classifier.classify("a", top_k=0)


def test_fill():
    model = qkv.text.FillMask(GOLDEN / "fill", weights="bf16")
    model = qkv.text.FillMask(GOLDEN / "fill")
    for row in expected("fill"):
        for found, said in zip(model.fill(row["text"]), row["masks"], strict=True):
            assert [each.label for each in found] == [each["token_str"] for each in said]
            numpy.testing.assert_allclose([each.probability for each in found], [each["score"] for each in said], atol=1e-5)


def test_tag():
    tagger = qkv.text.Tagger(GOLDEN / "tags")
    rows = [row for row in expected("tags") if row["kind"] == "bert"]
    for strategy in ("none", "simple", "first", "average", "max"):
        chosen = [row for row in rows if row["strategy"] == strategy]
        for found, row in zip(tagger.tag([row["text"] for row in chosen], strategy), chosen, strict=True):
            said = row["found"]
            assert [(f.label, f.word, f.start, f.end) for f in found] == [(s["label"], s["word"], s["start"], s["end"]) for s in said]
            assert tagger.tag(row["text"], strategy) == found
    with pytest.raises(ValueError, match="aggregation_strategy must be"):
        tagger.tag("a", "last")
    with pytest.raises(TypeError):
        tagger.tag([1])


def test_answer():
    answerer = qkv.text.QuestionAnswerer(GOLDEN / "answers")
    for row in expected("answers"):
        if row["kind"] == "bert":
            found = answerer.answer(row["question"], row["context"], **row["arguments"])
            assert [(a.text, a.start, a.end) for a in found] == [(s["answer"], s["start"], s["end"]) for s in row["answers"]]
    with pytest.raises(ValueError, match="max_seq_len is 99"):
        answerer.answer("who", "a cat", max_seq_len=99)


def test_explain_beside_torch():
    """Outputs of golden/explain/judged.json, whose folders are those that others are tested with."""
    models = {"fill": qkv.text.FillMask, "rank": qkv.text.Reranker, "answers": qkv.text.QuestionAnswerer, "bert": qkv.text.Tagger}
    cases = {case["name"]: case for case in json.loads((GOLDEN / "explain" / "judged.json").read_text())}
    for name, model in models.items():
        found = model(GOLDEN / ("tags" if name == "bert" else name)).explain(*cases[name]["texts"])
        reports = found if isinstance(found, list) else [found]
        assert len(reports) == len(cases[name]["outputs"])
        for report, output in zip(reports, cases[name]["outputs"]):
            page = json.loads(report.json())
            measures = {one["measure"]: one["values"] for one in page["keys"][0]["measures"]}
            for measure in ("gradient", "knock_out"):
                numpy.testing.assert_allclose(measures[measure], output[measure], atol=1e-4, rtol=1e-4)
            said = page["score"] if name == "rank" else page["log_probability"]
            assert said == pytest.approx(output["value"], abs=1e-4)
            assert str(report).splitlines()[0].endswith(page["tokens"][page["token"]]) and "came from" in report.html()


def test_pairs_are_classified():
    classifier = qkv.text.Classifier(GOLDEN / "rank")
    reranker = qkv.text.Reranker(GOLDEN / "rank")
    pair = ("Who sat?", "The cat sat.")
    first, second = classifier.classify([pair, "The cat sat."])
    assert first == classifier.classify([pair])[0] and second == classifier.classify("The cat sat.")
    assert first[0].probability == pytest.approx(float(reranker.predict(pair)), abs=1e-6)
    assert json.loads(classifier.explain(pair, "LABEL_0").json())["words"]["all"] == ["who", "sat", "?", "the", "cat", "sat", "."]
    with pytest.raises(ValueError, match="no label"):
        classifier.explain("cat", "LABEL_1")
