"""Arrays of torch and JAX, where these are installed: read without a copy, the same kind back, and what is refused."""

import numpy
import pytest
import qkv

RANDOM = numpy.random.default_rng(2)
X = RANDOM.standard_normal((2, 3, 4)).astype("f4")


def test_torch_tensors_are_read_and_written_in_place():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    out = qkv.attention(x, x, x)
    assert type(out) is torch.Tensor and out.dtype == torch.float32
    assert (out.numpy() == qkv.attention(X, X, X)).all()
    place = torch.zeros_like(x)
    assert qkv.attention(x, x, x, out=place) is place and (place == out).all()
    turned = torch.from_numpy(X.transpose(1, 0, 2).copy()).transpose(0, 1)  # strides are followed
    assert (qkv.attention(turned, turned, turned) == out).all()
    seen = torch.tensor([[True, False, False], [True, True, False], [True, True, True]])
    assert (qkv.attention(x, x, x, mask=qkv.Mask.boolean(seen)) == qkv.attention(x, x, x, mask=qkv.Mask.causal())).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_types_of_torch(dtype):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X).to(getattr(torch, dtype))
    out = qkv.attention(x, x, x)
    assert out.dtype == x.dtype
    want = torch.nn.functional.scaled_dot_product_attention(x.double(), x.double(), x.double())
    assert (out.double() - want).abs().max() < {"bfloat16": 2e-2, "float16": 2e-3, "float64": 1e-14}[dtype]


def test_tensors_of_torch_that_are_refused():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    for wrong, says in [
        (x.clone().requires_grad_(), "requires grad"),
        (x.to_sparse(), "sparse"),
        (x.to("meta"), "another device"),
        (x.to(torch.complex64), "got Tensor"),
        (x.to(torch.int64), "got Tensor of torch.int64"),
        (torch.complex(x, x).conj().imag, "negated"),
    ]:
        with pytest.raises(TypeError, match="query") as caught:
            qkv.attention(wrong, x, x)
        assert says in str(caught.value)
    with pytest.raises(ValueError):
        qkv.attention(x, x.double(), x)


# Of query, key, value and attn_mask, as torch broadcasts them.
SHAPES = [
    ((2, 4, 5, 8), (1, 4, 6, 8), (1, 4, 6, 8), (1, 1, 5, 6)),
    ((1, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 3), (2, 1, 1, 6)),
    ((2, 4, 5, 8), (2, 1, 6, 8), (2, 4, 6, 8), (4, 1, 6)),
    ((2, 4, 5, 8), (4, 6, 8), (6, 8), (5, 6)),
    ((5, 8), (6, 8), (6, 8), (5, 6)),
    ((3, 2, 4, 5, 8), (2, 4, 6, 8), (3, 1, 4, 6, 8), (2, 1, 5, 6)),
    ((3, 2, 4, 5, 8), (3, 2, 2, 6, 8), (2, 2, 6, 8), (3, 1, 1, 1, 6)),  # fewer heads of keys
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("mask", ["none", "bool", "float32", "own"])
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-6), ("float64", 1e-14), ("bfloat16", 4e-2), ("float16", 4e-3)])
def test_scaled_dot_product_attention_beside_that_of_torch(shapes, mask, dtype, tolerance):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    inputs = [torch.randn(shape).to(kind) for shape in shapes[:3]]
    options = {"enable_gqa": shapes[0][:-2][-1:] != shapes[1][:-2][-1:] and shapes[1][:-2][-1:] == (2,)}
    if mask != "none":
        numbers = torch.randn(shapes[3])
        options["attn_mask"] = numbers > -1 if mask == "bool" else numbers.to(kind if mask == "own" else torch.float32)
    results = []
    for function in (qkv.scaled_dot_product_attention, torch.nn.functional.scaled_dot_product_attention):
        given = [x.clone().requires_grad_() for x in inputs]
        out = function(*given, **options)
        results.append([out, *torch.autograd.grad(out.float().square().sum(), given)])
    for ours, theirs in zip(*results):
        assert ours.dtype == theirs.dtype
        scale = max(1.0, float(theirs.abs().max()))
        torch.testing.assert_close(ours / scale, theirs / scale, atol=tolerance, rtol=0)
    if dtype != "bfloat16":  # the same of NumPy
        options = {name: x.numpy() if isinstance(x, torch.Tensor) else x for name, x in options.items()}
        plain = qkv.scaled_dot_product_attention(*(x.numpy() for x in inputs), **options)
        assert (plain == results[0][0].detach().numpy()).all()


@pytest.mark.parametrize("first", ["torch", "qkv"])
def test_imports_in_either_order(first):
    pytest.importorskip("torch")
    import subprocess
    import sys

    second = "qkv" if first == "torch" else "torch"
    code = f"import {first}, {second}, numpy, qkv; x = numpy.ones((1, 2, 4), 'f'); assert (qkv.attention(x, x, x) == 1).all()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arrays_of_jax():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    out, lse = qkv.attention(x, x, x, return_lse=True)
    assert isinstance(out, jax.Array) and isinstance(lse, jax.Array)
    assert (numpy.asarray(out) == qkv.attention(X, X, X)).all()
    query, key, value = (jax.numpy.asarray(RANDOM.standard_normal(X.shape).astype("f4")) for _ in range(3))
    want = jax.nn.dot_product_attention(*(each.swapaxes(0, 1)[None] for each in (query, key, value)), is_causal=True)
    seen = qkv.Mask.boolean(jax.numpy.tril(jax.numpy.ones((3, 3), bool)))
    numpy.testing.assert_allclose(qkv.attention(query, key, value, mask=seen), want[0].swapaxes(0, 1), rtol=1e-5, atol=1e-6)
    low = qkv.attention(*[x.astype(jax.numpy.bfloat16)] * 3)
    assert low.dtype == jax.numpy.bfloat16
    added = RANDOM.standard_normal((3, 3)).astype("f2")
    plain = qkv.scaled_dot_product_attention(X[None].astype("f2"), X[:1].astype("f2"), X.astype("f2"), attn_mask=added)
    given = [jax.numpy.asarray(each.astype("f2")) for each in (X[None], X[:1], X)]
    assert (qkv.scaled_dot_product_attention(*given, attn_mask=jax.numpy.asarray(added)) == plain).all()


def test_gradients_of_jax():
    jax = pytest.importorskip("jax")
    inputs = [jax.numpy.asarray(RANDOM.standard_normal((3, 4)).astype("f4")) for _ in range(3)]
    out, lse = qkv.attention(*inputs, return_lse=True)
    formula = lambda q, k, v: (jax.nn.softmax(q @ k.T / 2, -1) @ v).sum()  # noqa: E731
    ours = qkv.attention_backward(*inputs, out, lse, jax.numpy.ones_like(out))
    for gradient, want in zip((ours.query, ours.key, ours.value), jax.grad(formula, (0, 1, 2))(*inputs)):
        assert isinstance(gradient, jax.Array)
        numpy.testing.assert_allclose(gradient, want, rtol=1e-5, atol=1e-6)


def test_arrays_of_jax_that_are_refused():
    jax = pytest.importorskip("jax")
    x = jax.numpy.asarray(X)
    for traced in (jax.jit, lambda call: jax.grad(lambda x: call(x).sum())):
        with pytest.raises(TypeError, match="query is traced by JAX, .* jax.pure_callback"):
            traced(lambda x: qkv.attention(x, x, x))(x)
    called = jax.jit(lambda x: jax.pure_callback(lambda x: qkv.attention(x, x, x), x, x))
    assert (called(x) == qkv.attention(X, X, X)).all()
    before = numpy.array(x)
    with pytest.raises(ValueError, match="out is read-only"):
        qkv.attention(X, X, X, out=x)
    assert (before == numpy.asarray(x)).all()
    for wrong in (x.astype(jax.numpy.complex64), x.astype(jax.numpy.int32)):
        with pytest.raises(TypeError, match="query"):
            qkv.attention(wrong, x, x)
