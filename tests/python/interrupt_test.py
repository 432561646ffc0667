"""Ctrl-C ends long calls of every kind, whatever they are doing, and what comes after is as if there had been none."""

import os
import signal
import threading
import time
from contextlib import contextmanager

import golden
import numpy
import pytest
import qkv
import tiny_training

ROOT = golden.ROOT
ROBERTA, GPT2 = (ROOT / "tests" / "golden" / name for name in ("encoders/roberta", "language/gpt2"))
DIGITS, EN_ES = ROOT / "models" / "digits", ROOT / "models" / "en-es"


@contextmanager
def interrupts():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background process ignores it
    with pytest.raises(KeyboardInterrupt):
        yield
    signal.signal(signal.SIGINT, before)


def zeros(*shape):
    return numpy.zeros(shape, "f4")


def attention():
    x = zeros(8, 16384, 64)
    return lambda: qkv.attention(x, x, x, threads=1)


def lstm():
    layer = qkv.lab.Lstm(input_size=8, hidden=1024)
    return lambda: layer(zeros(1, 6000, 8), threads=1)


def convolution():
    layer = qkv.lab.Conv1d(in_channels=256, out_channels=256, kernel=15)
    return lambda: layer(zeros(1, 65536, 256), threads=1)


def convolution_backward():
    layer, x = qkv.lab.Conv1d(in_channels=64, out_channels=64, kernel=3), zeros(1, 1 << 17, 64)
    out, saved = layer(x, save=True)

    def backward():
        for _ in range(1000):
            layer.backward(saved, out)

    return backward


def encoder():
    layer = qkv.layers.Encoder(model_dim=512, heads=8, ff_dim=2048, layers=6)
    return lambda: layer(zeros(32, 512, 512), threads=1)


def vit():
    model = qkv.pictures.Vit(DIGITS)
    pictures = zeros(20000, *model.picture_size, 3)
    return lambda: model(pictures)


def embedder():
    model = qkv.Embedder(ROBERTA)
    return lambda: model.encode(["one text of some words, and another"] * 300_000, batch_size=300_000)


def translator():
    model = qkv.Translator(EN_ES)
    return lambda: model.translate(["How many sentences is it, and what do they say?"] * 20_000, beams=8)


def generator():
    model = qkv.Generator(GPT2)
    return lambda: model.generate(["A cat"] * 5000, max_new_tokens=200)


def stream():
    model = qkv.Generator(GPT2)
    return lambda: list(model.stream("A cat", max_new_tokens=200))


@pytest.mark.parametrize(
    "work", [attention, lstm, convolution, convolution_backward, encoder, vit, embedder, translator, generator, stream]
)
def test_long_calls(work):
    call, count = work(), threading.active_count()
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    with interrupts():
        timer.start()
        while True:  # a fast machine may end the first one before the signal comes
            call()
    timer.join()
    for _ in range(1000):  # where the signal comes while a thread is awaited, it ends by itself
        if threading.active_count() == count:
            break
        time.sleep(0.01)
    assert threading.active_count() == count
    x = zeros(2, 3, 4)
    assert (qkv.attention(x + 1, x, x + 1) == 1).all()


def test_training_goes_on_from_where_it_was(tmp_path):
    files = tiny_training.write(tmp_path, steps=400, warmup=1, log_every=1, validate_every=100)
    whole = qkv.train(*files, tmp_path / "whole")

    def interrupt(progress):
        if progress.get("step") == 7:
            os.kill(os.getpid(), signal.SIGINT)

    with interrupts():
        qkv.train(*files, tmp_path / "parts", progress=interrupt)
    steps = [int(path.name.removeprefix("step-")) for path in (tmp_path / "parts" / "checkpoints").glob("step-*")]
    assert 7 <= max(steps) < 400
    assert qkv.train(*files, tmp_path / "parts") == whole
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]
