"""What cannot be honoured is refused: the exception, the argument that it names, and a process that goes on."""

import array
import os
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy
import pytest
import qkv

X = numpy.zeros((2, 3, 4), "f4")


class Foreign:
    """Says that it has __dlpack__, and gives what it was told to give."""

    def __init__(self, device, given):
        self.device, self.given = device, given

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **keywords):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


NO_ARRAYS = [
    (None, "got NoneType"),
    ([[1.0]], "got list"),
    ("text", "got str"),
    (1.0, "got float"),
    (memoryview(X), "got memoryview"),
    (array.array("f", [1, 2]), "got array"),
    (numpy, "got module"),
    (numpy.ndarray, "got type"),
    (numpy.float32(1), "got float32"),
    (X.astype(object), "got ndarray of object"),
    (X.astype("c8"), "got ndarray of complex64"),
    (X.astype(">f4"), "got ndarray of >f4"),
    (X.astype("M8[s]"), "got ndarray of datetime64"),
    (numpy.array(["a"]), "got ndarray of <U1"),
    (numpy.zeros(3, [("a", "f4")]), "got ndarray"),
    (X.astype(ml_dtypes.float8_e4m3fn), "got ndarray of float8_e4m3fn"),
    (numpy.ma.masked_array(X), "is a masked array"),
    (Foreign((1, 0), RuntimeError("broken")), "got Foreign"),
    (Foreign((1, 0), 5), "got Foreign"),
    (Foreign("nowhere", None), "got Foreign"),
    (Foreign((2, 0), BufferError("no")), "is on another device"),
]


@pytest.mark.parametrize("wrong, says", NO_ARRAYS, ids=lambda value: str(value)[:20])
@pytest.mark.parametrize("place", range(3))
def test_no_arrays(wrong, says, place):
    given = [X, X, X]
    given[place] = wrong
    with pytest.raises(TypeError, match=("query", "key", "value")[place]) as caught:
        qkv.attention(*given)
    assert says in str(caught.value)


def test_integers_and_bools_are_no_floats():
    for wrong in (X.astype("i4"), X.astype("u1"), X.astype(bool)):
        with pytest.raises(TypeError, match="query must be float32, float64, bfloat16 or float16, got ndarray of"):
            qkv.attention(wrong, wrong, wrong)


@pytest.mark.parametrize(
    "call, says",
    [
        (lambda: qkv.Mask.lengths(None), "counts must be an array"),
        (lambda: qkv.Mask.lengths(3), "counts must be an array"),
        (lambda: qkv.Mask.lengths([3.5]), "counts must be int32 or int64, got ndarray of float64"),
        (lambda: qkv.Mask.lengths(["a"]), "counts must be whole numbers or bools, in rows of one length, got list"),
        (lambda: qkv.Mask.documents([[1], [2, 3]]), "query_ids must be whole numbers or bools, in rows of one length, got list"),
        (lambda: qkv.Mask.lengths((2**70,)), "counts must be whole numbers or bools, in rows of one length, got tuple"),
        (lambda: qkv.Mask.lengths(X), "counts must be int32 or int64"),
        (lambda: qkv.Mask.boolean(X), "visible must be bool or uint8"),
        (lambda: qkv.Mask.documents(None), "query_ids must be an array"),
        (lambda: qkv.Mask.causal(True), 'align must be one of "top-left", "bottom-right", got bool'),
        (lambda: qkv.Mask.window(1.5, 0), "left must be a whole number, got float"),
        (lambda: qkv.Mask.window(True, 0), "left must be a whole number, got bool"),
        (lambda: qkv.Bias.view(None), "values must be an array"),
        (lambda: qkv.Bias.t5(X[0], 1, 2), "bidirectional must be True or False"),
        (lambda: qkv.Score.bilinear(3), "w must be an array"),
        (lambda: qkv.Mask.causal() & 3, "an operand of & must be a mask such as qkv.Mask.causal(), an array of bool, or \"causal\", got int"),
        (lambda: qkv.Mask.causal() & None, "an operand of & must be a mask"),
        (lambda: qkv.Mask.causal() & X, "an operand of & must be bool"),
        (lambda: qkv.Bias.view(X) + qkv.Mask.causal(), "an operand of + must be a bias such as qkv.Bias.alibi(slopes), or an array of floats"),
        (lambda: qkv.Bias.view(X) + [1.0], "an operand of + must be a bias"),
        (lambda: X.astype("i4") + qkv.Bias.view(X), "an operand of + must be float32"),
        (lambda: qkv.Mask.__new__(qkv.Mask) & qkv.Mask.causal(), "an operand of & must be a mask"),
        (lambda: qkv.attention(X, X, X, mask=qkv.Mask.__new__(qkv.Mask)), "mask must be a mask"),
        (lambda: qkv.attention(X, X, X, mask=qkv.Mask(("window", (1,)))), "window takes 3 arguments"),
        (lambda: qkv.Mask.causal() and qkv.Mask.window(2, 0), "a Mask is neither true nor false: combine them by &"),
        (lambda: qkv.Bias.view(X) or X, "a Bias is neither true nor false: combine them by +"),
        (lambda: not qkv.Score.bilinear(X[0]), "a Score is neither true nor false"),
        (lambda: qkv.dropout_mask(None, 0.5, 1), "shape must be whole numbers"),
        (lambda: qkv.dropout_mask("22", 0.5, 1), "shape must be whole numbers"),
        (lambda: qkv.KeyValueCache(heads=3), "incompatible"),
        (lambda: qkv.KeyValueCache(batch="1"), "batch must be a whole number, got str"),
        (lambda: qkv.attention(X, X), "incompatible"),
        (lambda: qkv.attention(X, X, X, X), "incompatible"),
        (lambda: qkv.attention(X, X, X, out=3), "out must be an array"),
        (lambda: qkv.attention(X, X, X, causal=True), "keyword argument 'causal'; mask=qkv.Mask.causal(...) is one"),
        (lambda: qkv.attention(X, X, X, window=4), "keyword argument 'window'; mask=qkv.Mask.window(...) is one"),
        (lambda: qkv.attention(X, X, X, lengths=[2]), "keyword argument 'lengths'; mask=qkv.Mask.lengths(...) is one"),
        (lambda: qkv.attention(X, X, X, cap=1.0), "unexpected keyword argument 'cap'"),
        (lambda: qkv.attention(X, X, X, weights=True), "unexpected keyword argument 'weights'"),
        (lambda: qkv.attention(X, X, X, mask=[[True]]), "mask must be a mask"),
        (lambda: qkv.attention(X, X, X, scale="1"), "scale must be a number"),
        (lambda: qkv.attention(X, X, X, scale=True), "scale must be a number"),
        (lambda: qkv.attention(X, X, X, threads=1.5), "threads must be a whole number"),
        (lambda: qkv.attention(X, X, X, return_lse=1), "return_lse must be True or False"),
        (lambda: qkv.attention(X, X, X, scale=numpy.array(0.5)), "scale must be a number, got ndarray; scale.item() is one"),
        (lambda: qkv.attention_stats(X, X, X, weights=1), "weights must be True or False"),
        (lambda: qkv.attention_stats(X, X, X, return_lse=True), "unexpected keyword argument 'return_lse'"),
        (lambda: qkv.attention(X, X, X, sinks=[0.0, 1.0]), "sinks must be an array"),
        (lambda: qkv.attention(X, X, X, score=3), "score must be"),
        (lambda: qkv.attention_backward(X, X, X, X, X, None), "grad_out must be an array"),
        (lambda: qkv.attention_jvp(X, X, X, X, X[0], tangent_key=1), "tangent_key must be an array"),
        (lambda: qkv.merge_attention(X, X, X, None), "other_log_sum_exp must be an array"),
        (lambda: qkv.set_threads("2"), "count must be a whole number"),
        (lambda: qkv.select_target(None), "name must be a str"),
        (lambda: qkv.Tokenizer(b"/nowhere"), "path must be a str, got bytes"),
        (lambda: qkv.Translator(None), "NoneType"),
        (lambda: qkv.Embedder(3), "int"),
    ],
)
def test_arguments_of_another_type(call, says):
    with pytest.raises(TypeError) as caught:
        call()
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "keywords, says",
    [
        ({"scale": float("nan")}, "scale must be finite"),
        ({"scale": float("inf")}, "scale must be finite"),
        ({"soft_cap": -1}, "soft_cap must be finite"),
        ({"dropout": 2, "seed": 1}, "p must be 0"),
        ({"dropout": 0.5, "seed": -1}, "seed must be a number from 0 to 2^64 - 1"),
        ({"dropout": 0.5, "seed": 2**64}, "seed must be a number from 0 to 2^64 - 1"),
        ({"threads": 2**70}, "at most 63 bits"),
        ({"threads": -1}, "threads"),
        ({"threads": 0}, "threads must be a number from 1, or None"),
        ({"memory_limit": 1}, "memory_limit is 1"),
        ({"dropout": 0.5}, "dropout needs a seed"),
        ({"precision": "low"}, 'must be one of "exact", "reduced", "reduced_pairs"'),
        ({"offsets_query": [0, 3], "cu_seqlens_q": [0, 3]}, "offsets_query and cu_seqlens_q are one argument"),
        ({"cu_seqlens_k": [0, 3], "offsets_key": [0, 3]}, "offsets_key and cu_seqlens_k are one argument"),
        ({"softmax_scale": 0.5, "scale": 0.5}, "scale and softmax_scale are one argument"),
        ({"empty_rows": "one"}, 'empty_rows must be one of "zero", "nan", got "one"'),
        ({"sinks": X}, "sinks must be [2]"),
        ({"offsets_query": numpy.array([0, 3])}, "packed rows need offsets"),
        ({"block_table": numpy.zeros((2, 2), "i4")}, "paged"),
        ({"out": X[:1].copy()}, "out must be [2, 3, 4]"),
        ({"out": X.astype("f8")}, "out has type f64"),
        ({"out": frozen(X)}, "out is read-only"),
        ({"out": X}, "out"),
        ({"out": X[::-1]}, "out"),
        ({"mask": qkv.Mask.boolean(numpy.ones((3, 4), bool))}, "mask"),
        ({"mask": qkv.Mask.lengths(numpy.array([1, 2, 3]))}, "lengths"),
        ({"bias": qkv.Bias.view(X.astype("f8"))}, "bias"),
        ({"mask": "casual"}, 'mask must be a mask such as qkv.Mask.causal(), an array of bool, or "causal", got "casual"'),
        ({"top_keys": 0}, "top_keys needs a number from 1"),
        ({"block_weights": (0, 1)}, "block_weights needs two numbers from 1"),
        ({"score": "cosine"}, 'score must be one of "scaled_dot", "dot"'),
    ],
)
def test_values_that_do_not_fit(keywords, says):
    with pytest.raises(ValueError) as caught:
        call = qkv.attention_stats if "top_keys" in keywords or "block_weights" in keywords else qkv.attention
        call(X, X, X, **keywords)
    assert says in str(caught.value)


def test_shapes_types_and_strides_that_do_not_fit():
    for query, key, says in [
        (X, X[..., :3], "head_dim"),
        (X, X.astype("f8"), "one type"),
        (numpy.array(1, "f4"), X, "rank"),
        (numpy.zeros((1,) * 16, "f4"), X, "rank"),
        (numpy.zeros((1,) * 17, "f4"), X, "16"),
        (X[..., ::-1], X, "query has stride -1"),
        (numpy.zeros((2, 3, 8), "f4")[..., ::2], X, "query has stride 2"),
        (X, numpy.asfortranarray(X), "key has stride 6 in its last dimension; it must be 1, as in numpy.ascontiguousarray(key)"),
        (numpy.frombuffer(bytes(97), "u1")[1:].view("f4").reshape(2, 3, 4), X, "query does not begin at a multiple"),
    ]:
        with pytest.raises(ValueError) as caught:
            qkv.attention(query, key, X)
        assert says in str(caught.value)


def test_an_out_that_overlaps_keeps_what_it_holds():
    whole = numpy.arange(4 * 3 * 4, dtype="f4").reshape(4, 3, 4)
    before = whole.copy()
    with pytest.raises(ValueError, match="out"):
        qkv.attention(whole[:2], X, X, out=whole[1:3])
    assert (whole == before).all()
    assert (qkv.attention(whole[:2], X, X, out=whole[2:]) == 0).all() and (whole[:2] == before[:2]).all()


def test_more_than_there_is_memory_for():
    wide = numpy.broadcast_to(X[:1, :1, :1], (1 << 20, 1 << 10, 1))
    key, value = X[:1, :1, :1], numpy.zeros((1, 1, 1 << 10), "f4")
    with pytest.raises(MemoryError):
        qkv.attention(wide, key, value)
    with pytest.raises(MemoryError):
        qkv.attention_stats(X, X, X, top_keys=10**15)
    # What does not fit together either is refused for that.
    with pytest.raises(ValueError, match="value"):
        qkv.attention(wide, key, X[:1])
    with pytest.raises(ValueError, match="key"):
        qkv.attention_stats(wide, X, X, top_keys=10**4)
    with pytest.raises(ValueError, match="too many elements"):
        qkv.dropout_mask((1 << 40,) * 3, 0.5, seed=1)
    assert (qkv.attention(X, X, X) == 0).all()


def test_a_process_that_may_have_little_memory_goes_on(tmp_path):
    code = """
        import numpy, qkv, resource
        x = numpy.ones((1, 4, 8), "f4")
        qkv.attention(x, x, x, threads=1)
        size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), resource.RLIM_INFINITY))
        wide = numpy.broadcast_to(x[:, :1], (1, 1 << 22, 8))
        try:
            qkv.attention(wide, x, x, threads=1)
        except MemoryError:
            assert (qkv.attention(x, x, x, threads=1) == 1).all()
            print("goes on")
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert found.stdout == "goes on\n", found.stderr


def test_files(tmp_path):
    for kind in (qkv.Tokenizer, qkv.Translator, qkv.Embedder):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            kind(tmp_path / "nowhere")
    with pytest.raises(IsADirectoryError):
        qkv.Tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(qkv.FormatError, match="tokenizer.json"):
        qkv.Tokenizer(tmp_path / "tokenizer.json")
    assert issubclass(qkv.FormatError, ValueError)
    if os.geteuid() != 0:
        (tmp_path / "tokenizer.json").chmod(0)
        with pytest.raises(PermissionError):
            qkv.Tokenizer(tmp_path / "tokenizer.json")
