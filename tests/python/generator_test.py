"""Language models: texts beside transformers' own, pieces as they are written, refusals."""

import json
import pathlib
import pickle
import shutil
import threading

import numpy
import pytest

import qkv

GOLDEN = pathlib.Path(__file__).parent.parent / "golden" / "language"
TEXTS = json.loads((GOLDEN / "gpt2_text.json").read_text())


@pytest.fixture(scope="module")
def generator():
    return qkv.Generator(GOLDEN / "gpt2")


def test_texts_are_those_of_transformers(generator):
    prompts = [each["text"] for each in TEXTS]
    found = generator.generate(prompts, max_new_tokens=24)
    assert [one.ids for one in found] == [each["greedy"] for each in TEXTS]
    assert [str(one) for one in found] == [each["text_of_greedy"] for each in TEXTS]
    assert [one.ids for one in generator.generate(prompts, max_new_tokens=12, beams=3)] == [each["beams"] for each in TEXTS]
    penalised = generator.generate(prompts, max_new_tokens=24, repetition_penalty=1.3)
    assert [one.ids for one in penalised] == [each["penalty"] for each in TEXTS]


def test_forms_of_prompts(generator):
    one = generator.generate("A cat", max_new_tokens=5)
    ids = generator.tokenizer.encode("A cat").ids
    assert generator.generate(["A cat"], max_new_tokens=5) == [one]
    assert generator.generate([ids], max_new_tokens=5) == [one]
    assert generator.generate([numpy.array(ids)], max_new_tokens=5, chunk=1, threads=3) == [one]
    assert generator.generate([]) == []
    best = generator.generate("A cat", max_new_tokens=5, beams=3, nbest=2)
    assert len(best) == 2 and best[0].score >= best[1].score
    assert (one.end, len(one.ids)) == ("length", 5)
    assert generator.generate("A cat", max_length=len(ids) + 2).ids == one.ids[:2]


def test_a_message_is_put_into_the_template(generator, tmp_path):
    chats = json.loads((GOLDEN / "chat.json").read_text())
    written = generator.generate(chats["messages"], chat=True, max_new_tokens=4)
    assert written == generator.generate(chats["known"]["chatml"]["ids"], max_new_tokens=4)
    assert "".join(generator.stream(chats["messages"][0], chat=True, max_new_tokens=4)) == written[0].text
    shutil.copytree(GOLDEN / "gpt2", tmp_path / "model")
    (tmp_path / "model" / "tokenizer_config.json").unlink()
    with pytest.raises(qkv.FormatError, match="chat_template is missing"):
        qkv.Generator(tmp_path / "model").generate("x", chat=True)


def test_draws_follow_the_seed(generator):
    drawn = [generator.generate("A cat", max_new_tokens=12, temperature=2.0, top_k=40, top_p=0.9, min_p=0.01, seed=seed).ids
             for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_stream_is_the_text(generator):
    whole = generator.generate("A cat", max_new_tokens=40).text
    pieces = list(generator.stream("A cat", max_new_tokens=40))
    assert "".join(pieces) == whole and len(pieces) > 5
    stop = whole[7:9]
    assert "".join(generator.stream("A cat", max_new_tokens=40, stop_strings=[stop])) == whole[: whole.index(stop)]
    assert generator.generate("A cat", max_new_tokens=40, stop_strings=stop).end == "stop_string"


def test_a_stream_that_is_closed_ends_its_thread(generator):
    before = threading.active_count()
    stream = generator.stream("A cat", max_new_tokens=200)
    next(stream)
    stream.close()
    assert threading.active_count() == before
    with pytest.raises(ValueError, match="prompt 1 has no tokens"):
        next(generator.stream(""))


def test_it_pickles_as_its_folder(generator):
    again = pickle.loads(pickle.dumps(generator))
    assert again.generate("x", max_new_tokens=4) == generator.generate("x", max_new_tokens=4)


@pytest.mark.parametrize(
    "error, options, message",
    [
        (TypeError, {"temperatur": 1}, "unexpected keyword"),
        (ValueError, {"temperature": 0}, "temperature is 0, must be above 0"),
        (ValueError, {"min_p": 2}, "min_p is 2, must be from 0 to 1"),
        (ValueError, {"beams": 2, "temperature": 1.0}, "sampling needs 1 beam"),
        (ValueError, {"beams": 2, "stop_strings": ["."]}, "need 1 beam"),
        (ValueError, {"beams": 2, "draft": "lookup"}, "drafts need 1 beam"),
        (ValueError, {"draft": "twice"}, 'draft must be one of "none", "lookup"'),
        (ValueError, {"max_new_tokens": 0}, "max_new_tokens is 0; it must be 1 or more"),
        (ValueError, {"max_length": -1}, "max_length is -1; it must be 1 or more"),
        (TypeError, {"session": 1}, "expected str, bytes or os.PathLike"),
        (TypeError, {"stop_strings": [1]}, r"stop_strings\[0\] must be a str"),
        (TypeError, {"max_new_tokens": 1.5}, "max_new_tokens must be a whole number"),
    ],
)
def test_what_does_not_fit_is_refused(generator, error, options, message):
    with pytest.raises(error, match=message):
        generator.generate("x", **options)


def test_sessions_and_drafts_change_nothing(generator, tmp_path):
    whole = generator.generate("A cat", max_new_tokens=40)
    assert generator.generate("A cat", max_new_tokens=40, draft="lookup") == whole
    first = generator.generate("A cat", max_new_tokens=15, session=tmp_path / "text")
    second = generator.generate("", max_new_tokens=25, session=str(tmp_path / "text"), draft="lookup")
    assert first.ids + second.ids == whole.ids and second.log_probability == whole.log_probability
    with pytest.raises(qkv.FormatError, match="is of model qkv"):
        qkv.Generator(GOLDEN / "llama").generate([[1]], session=tmp_path / "text")
    with pytest.raises(ValueError, match="a session takes 1 prompt, not 2"):
        generator.generate(["a", "b"], session=tmp_path / "text")


def test_raw_prompts_hold_their_marks(generator):
    chats = json.loads((GOLDEN / "chat.json").read_text())
    marked = f"<|im_start|>user\n{chats['messages'][0]}<|im_end|>\n<|im_start|>assistant\n"
    assert generator.generate(marked, raw=True, max_new_tokens=4) == generator.generate(chats["messages"][0], chat=True, max_new_tokens=4)
    with pytest.raises(ValueError, match="two forms of a prompt"):
        generator.generate("x", raw=True, chat=True)


# Beside what is written greedily: its tokens have rank 1, and the sum is its own log-probability.
def test_scores_are_those_of_what_was_written(generator):
    prompt = "A cat sat"
    texts = [prompt, "The cat"]
    alone, other = generator.score(texts)
    assert (alone, other) == (generator.score(prompt), generator.score(texts[1], threads=3))
    assert alone.ids == generator.tokenizer.encode(prompt).ids and len(alone.ranks) == len(alone.ids) - 1
    first = len(generator.tokenizer.encode(prompt).ids) - len(alone.ids) + 1
    one = generator.generate([alone.ids[:first]], max_new_tokens=1)[0]
    expected = one.log_probability if alone.ids[first] == one.ids[0] else None
    assert (alone.ranks[0] == 1) == (expected is not None)
    assert alone.log_probability == pytest.approx(sum(alone.log_probabilities))
    assert alone.perplexity == pytest.approx(numpy.exp(-alone.log_probability / len(alone.ranks)))
    assert alone.bits_per_byte == pytest.approx(-alone.log_probability / numpy.log(2) / alone.bytes)
    with pytest.raises(ValueError, match="text 1 has 1 token; scoring needs two"):
        generator.score("x")


def test_refusals_of_prompts_and_folders(generator):
    with pytest.raises(TypeError, match="prompts must be a str or a list, got NoneType"):
        generator.generate(None)
    with pytest.raises(TypeError, match=r"prompts\[1\] must be a str"):
        generator.generate(["x", 1])
    with pytest.raises(ValueError, match="prompt 1 has 256 tokens"):
        generator.generate([[1] * 256])
    with pytest.raises(qkv.FormatError, match="the supported language models are"):
        qkv.Generator(GOLDEN.parent / "encoders" / "roberta")
    with pytest.raises(qkv.FormatError, match="tokenizer.json is missing"):
        qkv.Generator(GOLDEN / "llama").generate("x")


def test_weights_of_heads_are_of_the_passes_that_wrote():
    generator = qkv.Generator(GOLDEN / "llama")
    prompts = [[3, 1, 4, 1], [5, 9]]
    plain = generator.generate(prompts, max_new_tokens=6)
    asked = generator.generate(prompts, max_new_tokens=6, heads=[(1, 3), (0, 0)])
    assert [each.ids for each in asked] == [each.ids for each in plain] and plain[0].weights == []
    for prompt, text in zip(prompts, asked, strict=True):
        assert [weights.shape for weights in text.weights] == [(6, len(prompt) + 5)] * 2
        for weights in text.weights:
            numpy.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
            assert all((row[len(prompt) + i :] == 0).all() for i, row in enumerate(weights))
    with pytest.raises(ValueError, match=r"there is no head 2.0; the layers are 0 to 1, the heads 0 to 3"):
        generator.generate(prompts, heads=[(2, 0)])
    with pytest.raises(ValueError, match=r"heads must be pairs \(layer, head\), got \[2\]"):
        generator.generate(prompts, heads=[2, 0])


LANGUAGE = {
    "kind": "language",
    "model": {"model_dim": 16, "heads": 2, "ff_dim": 32, "layers": 1, "positions": 32},
    "tokenizer": {"vocab": 270},
    "training": {"steps": 4, "rate": 0.01, "warmup": 1, "validate_every": 2},
}


def test_what_train_makes_writes(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LANGUAGE))
    for name in ("train", "valid"):
        (tmp_path / f"{name}.txt").write_text("one two three\nfour\n\none two\n")
    files = [tmp_path / name for name in ("config.json", "train.txt", "valid.txt", "out")]
    said = []
    assert qkv.train(*files, progress=said.append)["step"] == 4
    assert all(each["bits_per_byte"] > 0 for each in said if "validation_loss" in each)
    assert qkv.Generator(tmp_path / "out").generate("one", max_new_tokens=2)
    with pytest.raises(TypeError, match="skip_bad"):
        qkv.train(*files, skip_bad=True)
