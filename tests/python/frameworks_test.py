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
    assert (qkv.attention(x, x, x, mask=qkv.boolean(seen)) == qkv.attention(x, x, x, mask=qkv.causal())).all()


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
    out = qkv.attention(x, x, x)
    assert isinstance(out, jax.Array)
    assert (numpy.asarray(out) == qkv.attention(X, X, X)).all()
    with pytest.raises(ValueError, match="out is read-only"):
        qkv.attention(X, X, X, out=x)
    low = qkv.attention(*[x.astype(jax.numpy.bfloat16)] * 3)
    assert low.dtype == jax.numpy.bfloat16
