"""The binding under random objects, types, shapes and strides: the right answer, or an exception that says why not.

    python tests/python/fuzz_test.py [SEED] [SECONDS]
"""

import sys
import time

import ml_dtypes
import numpy
import qkv

TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 4e-3, "bfloat16": 3e-2}
REFUSALS = (TypeError, ValueError, MemoryError, BufferError)


class Draw:
    """What a case is made of, from one seed."""

    def __init__(self, seed):
        self.random = numpy.random.default_rng(seed)

    def one(self, *choices):
        return choices[self.random.integers(len(choices))]

    def chance(self, p):
        return self.random.random() < p

    def strided(self, shape, dtype):
        """An array of this shape whose memory lies anyhow, but for the last stride."""
        order = list(range(len(shape) - 1))
        if self.chance(0.3):
            self.random.shuffle(order)
        order.append(len(shape) - 1)
        wide = [2 * shape[i] if self.chance(0.3) else shape[i] for i in order]
        values = self.random.standard_normal(wide).astype(dtype)
        cut = tuple(
            slice(None) if wide[place] == shape[i] else slice(0, shape[i]) if place == len(order) - 1 else slice(None, None, 2)
            for place, i in enumerate(order)
        )
        values = values[cut].transpose(numpy.argsort(order))
        for axis in range(len(shape) - 1):
            if self.chance(0.1):
                values = numpy.flip(values, axis)
            if shape[axis] > 1 and self.chance(0.1):
                values = numpy.broadcast_to(numpy.take(values, [0], axis), shape)
        return values

    def nonsense(self, array):
        """Something that is not what was asked for, or nearly."""
        makers = [
            lambda: None,
            lambda: "text",
            lambda: [1.0],
            lambda: object(),
            lambda: 3,
            lambda: float("nan"),
            lambda: array.astype("i8"),
            lambda: array.astype("c16"),
            lambda: array.astype(">f8"),
            lambda: array.astype("O"),
            lambda: array.astype("?"),
            lambda: array[..., ::-1],
            lambda: array[..., :0],
            lambda: array[None],
            lambda: array.reshape(-1),
            lambda: numpy.array(1.0, "f4"),
            lambda: numpy.zeros((1,) * int(self.random.integers(1, 33)), "f4"),
            lambda: numpy.zeros((0, 0, 0), "f4"),
            lambda: numpy.broadcast_to(numpy.zeros(1, "f4"), (2, 3, 1 << 33)),
            lambda: numpy.ma.masked_array(array),
            lambda: qkv.Mask.causal(),
            lambda: b"bytes",
            lambda: {"a": 1},
            lambda: type(array),
        ]
        return makers[self.random.integers(len(makers))]()


def softmax_product(query, key, value, visible, added, scale, soft_cap):
    """In double precision, with whole matrices."""
    query, key, value = (numpy.asarray(x, "f8") for x in (query, key, value))
    if query.ndim > 2:
        key, value = (numpy.repeat(x, query.shape[-3] // x.shape[-3], axis=-3) for x in (key, value))
    logits = (query @ key.swapaxes(-1, -2)) * (1 / numpy.sqrt(query.shape[-1]) if scale is None else scale)
    if soft_cap:
        logits = soft_cap * numpy.tanh(logits / soft_cap)
    logits = numpy.where(visible, logits + added, -numpy.inf)
    largest = logits.max(-1, keepdims=True, initial=-numpy.inf)
    weights = numpy.exp(logits - numpy.where(numpy.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    with numpy.errstate(divide="ignore"):
        lse = (numpy.log(total) + numpy.where(numpy.isinf(largest), 0, largest))[..., 0]
    return weights / numpy.where(total == 0, 1, total) @ value, lse


def rules(draw, batch, heads, q_len, k_len, dtype):
    """Keywords, and what they say of each pair: visible, and added."""
    keywords, visible, added = {}, numpy.ones((q_len, k_len), bool), numpy.zeros((q_len, k_len))
    positions, keys = numpy.arange(q_len)[:, None], numpy.arange(k_len)[None]
    parts, lengths, shift = [], numpy.full((batch, 1, 1, 1), k_len), 0
    if draw.chance(0.2):
        lengths = draw.random.integers(0, k_len + 1, lengths.shape)
        parts.append(qkv.Mask.lengths(lengths.flatten()))
        visible = visible & (keys < lengths)
    if draw.chance(0.2):
        ids = [draw.random.integers(0, 3, (batch, length)) for length in (q_len, k_len)]
        parts.append(qkv.Mask.documents(*ids))
        visible = visible & (ids[0][:, None, :, None] == ids[1][:, None, None])
    if draw.chance(0.3):
        align = draw.one("top-left", "bottom-right")
        shift = 0 if align == "top-left" else lengths - q_len
        parts.append(qkv.Mask.causal(align))
        visible = visible & (keys <= positions + shift)
        if draw.chance(0.4):
            left = int(draw.random.integers(0, 5))
            parts.append(qkv.Mask.window(left, -1, align))
            visible = visible & (keys >= positions + shift - left)
    if draw.chance(0.3):
        shape = [draw.one(1, size) for size in (batch, heads, q_len, k_len)][draw.one(0, 2, 3) :]
        array = draw.random.random(shape) < 0.7
        parts.append(qkv.Mask.boolean(array))
        visible = visible & array
    if parts:
        mask = parts[0]
        for part in parts[1:]:
            mask = mask & part
        keywords["mask"] = mask
    if draw.chance(0.3):
        of = "f8" if dtype == "float64" else "f4"
        array = draw.strided([draw.one(1, heads), q_len, k_len], of)
        keywords["bias"] = qkv.Bias.view(array)
        added = added + array
    if draw.chance(0.2):
        slopes = draw.random.standard_normal(heads).astype("f4")
        alibi = qkv.Bias.alibi(slopes)
        keywords["bias"] = keywords["bias"] + alibi if "bias" in keywords else alibi
        added = added - slopes[:, None, None] * numpy.abs(positions + shift - keys)
    for name, values in (("scale", (0.5, 1, -0.25, 0)), ("soft_cap", (2.0, 5)), ("threads", (1, 2, 3))):
        if draw.chance(0.3):
            keywords[name] = draw.one(*values)
    return keywords, visible, added


def check(seed):
    """One case. True if it was computed, False if it was refused; AssertionError where the answer is wrong."""
    draw = Draw(seed)
    dtype = draw.one("float32", "float32", "float64", "float16", "bfloat16")
    of = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    batch, kv_heads, group = draw.one(1, 2, 3), draw.one(1, 2), draw.one(1, 1, 3)
    q_len, k_len = draw.one(0, 1, 2, 5, 17, 64), draw.one(0, 1, 2, 5, 17, 64)
    head_dim, value_dim = draw.one(1, 3, 8, 33), draw.one(1, 4, 8, 17)
    heads = kv_heads * group
    query = draw.strided((batch, heads, q_len, head_dim), of)
    key = draw.strided((batch, kv_heads, k_len, head_dim), of)
    value = draw.strided((batch, kv_heads, k_len, value_dim), of)
    keywords, visible, added = rules(draw, batch, heads, q_len, k_len, dtype)
    if draw.chance(0.3):
        keywords["return_lse"] = True
    if draw.chance(0.2):
        keywords["out"] = numpy.full((batch, heads, q_len, value_dim), numpy.nan).astype(of)
    given = [query, key, value]
    spoilt = draw.chance(0.3)
    if spoilt:
        place = draw.one(0, 1, 2, "mask", "bias", "scale", "out", "return_lse", "sinks", "offsets_query", "block_table", "seed", "no_such")
        wrong = draw.nonsense(query)
        if isinstance(place, int):
            given[place] = wrong
        else:
            keywords[place] = wrong
    try:
        found = qkv.attention(*given, **keywords)
    except REFUSALS as refusal:
        assert spoilt, (seed, refusal)
        assert str(refusal), seed
        return False
    if spoilt and any(x is not y for x, y in zip(given, (query, key, value))):
        return True  # computed: what was put in its place fits too
    if spoilt and place not in ("scale", "seed"):
        return True
    scale = keywords.get("scale")
    out, lse = softmax_product(query, key, value, visible, added, scale, keywords.get("soft_cap", 0))
    got = found if not isinstance(found, tuple) else found[0]
    assert type(got) is numpy.ndarray and got.dtype == query.dtype and got.shape == out.shape, seed
    assert got is keywords.get("out", got), seed
    error = numpy.abs(got.astype("f8") - out).max(initial=0)
    assert error <= TOLERANCE[dtype] * max(1, numpy.abs(out).max(initial=0)), (seed, dtype, error)
    if isinstance(found, tuple):
        numpy.testing.assert_allclose(found[1], lse, atol=1e-4, rtol=1e-4, err_msg=str(seed))
    return True


# The first two act on the whole process; compare() takes any text for a folder, and then trains for hours.
LEFT_OUT = ("set_threads", "select_target", "compare")
FUNCTIONS = [name for name in qkv.__all__ if callable(getattr(qkv, name)) and name not in LEFT_OUT]


def throw(seed):
    """Any function on anything: it gives something, or says what is wrong. True if it gave something."""
    draw = Draw(seed)
    function = getattr(qkv, draw.one(*FUNCTIONS))
    array = draw.strided((2, 2, 5, 4), draw.one("f4", "f8", "i4", "i8", "?"))
    given = [array if draw.chance(0.5) else draw.nonsense(array) for _ in range(draw.one(1, 1, 2, 3, 4, 5, 6))]
    keyword = draw.one({}, {"mask": qkv.Mask.causal()}, {"return_lse": draw.nonsense(array)}, {"out": array}, {"seed": 1})
    try:
        function(*given, **keyword)
    except (*REFUSALS, OSError) as refusal:
        assert str(refusal), seed
        return False
    return True


def test_anything_thrown_at_any_function():
    assert 0 < sum(throw(seed) for seed in range(3000)) < 3000


def test_random_calls():
    computed = sum(check(seed) for seed in range(1500))
    assert 900 < computed < 1500  # most are right, and some are refused


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    end = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 60)
    begin, computed = seed, 0
    while time.monotonic() < end:
        computed += check(seed)
        throw(seed)
        seed += 1
    print(f"{seed - begin} calls, {computed} computed, {seed - begin - computed} refused")
