"""qkv.torch.attention under torch.func beside torch's own mathematics: vmap, Jacobians, Hessians, gradients of samples."""

import pytest

torch = pytest.importorskip("torch")

import qkv.torch  # noqa: E402
from torch_test import draw, expected, triple  # noqa: E402


def of_samples(call, *dims, **options):
    """The same for each sample, which has no batch; the formula wants one."""
    return torch.vmap(lambda *given: call(*(x[None] for x in given))[0], in_dims=dims, **options)


def squares(call):
    return lambda *given: call(*given).square().sum()


VISIBLE = torch.arange(6) <= torch.arange(5)[:, None] + 1
TRANSFORMATIONS = {
    "jvp": lambda f, q, k, v, b: torch.func.jvp(lambda q, k: f(q, k, v), (q, k), (q.flip(0), k.cos())),
    "vmap": lambda f, q, k, v, b: of_samples(f, 0, None, 1, out_dims=2)(q, k[0], v.transpose(0, 1)),
    "vmap of vmap": lambda f, q, k, v, b: torch.vmap(of_samples(f, 0, 0, 0), in_dims=(1, None, None))(q[:, None], k, v),
    "vmap of masks": lambda f, q, k, v, b: of_samples(f, 0, 0, 0, 0)(q, k, v, torch.cat([b, b.sin()])),
    "vmap of masks without heads": lambda f, q, k, v, b: torch.vmap(f, in_dims=(None, None, None, 0))(q, k, v, b[0]),
    "vmap of a bias": lambda f, q, k, v, b: torch.vmap(f, in_dims=(None, None, None, 0))(q, k, v, torch.stack([b, b.sin()])),
    "gradients": lambda f, q, k, v, b: torch.func.grad(squares(f), (0, 1, 2, 3))(q, k, v, b),
    "gradients of samples": lambda f, q, k, v, b: torch.vmap(
        torch.func.grad(lambda *given: squares(f)(*(x[None] for x in given)), (0, 1, 2)), in_dims=(0, 0, None)
    )(q, k, v[0]),
    "gradients of a shared bias": lambda f, q, k, v, b: torch.vmap(
        torch.func.grad(lambda q, k, v, b: squares(f)(q[None], k[None], v[None], b), (0, 3)), in_dims=(0, 0, 0, None)
    )(q, k, v, b),
    "gradient of vmap": lambda f, q, k, v, b: torch.func.grad(squares(of_samples(f, 0, 0, 0)), (0, 1))(q, k, v),
    "jacrev": lambda f, q, k, v, b: torch.func.jacrev(f, (0, 1, 2, 3))(q, k, v, b),
    "jacfwd": lambda f, q, k, v, b: torch.func.jacfwd(f, (0, 1, 2))(q, k, v),
    "hessian": lambda f, q, k, v, b: torch.func.hessian(squares(f), (0, 1, 2))(q[:1], k[:1], v[:1]),
    "hessian beside a bias": lambda f, q, k, v, b: torch.func.hessian(squares(f), (0, 2))(q[:1], k[:1], v[:1], b),
    "jacrev of jacrev": lambda f, q, k, v, b: torch.func.jacrev(torch.func.jacrev(squares(f)), 1)(q[:1], k[:1], v[:1]),
    "jacrev of jacfwd": lambda f, q, k, v, b: torch.func.jacrev(torch.func.jacfwd(squares(f), 1))(q[:1], k[:1], v[:1]),
}


@pytest.mark.filterwarnings("ignore:.*performance")
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("name", TRANSFORMATIONS)
def test_transformations_of_torch_func(name, mask):
    torch.manual_seed(0)
    given = (*triple(grad=False), torch.randn(1, 4, 5, 6, dtype=torch.float64))
    visible = {"mask": VISIBLE if mask else qkv.Mask.causal("bottom-right")}

    def ours(q, k, v, bias=None):
        return qkv.torch.attention(q, k, v, bias=bias, **visible)

    def theirs(q, k, v, bias=0.0):
        return expected(q, k, v, VISIBLE, bias)[0]

    transformed = TRANSFORMATIONS[name]
    torch.testing.assert_close(transformed(ours, *given), transformed(theirs, *given))


def test_vmap_gives_the_bits_of_each_call():
    query, key, value = triple(torch.float32, grad=False)
    call = lambda *given: qkv.torch.attention(*given, mask=qkv.Mask.window(2, 1), return_lse=True)  # noqa: E731
    for one, other in zip(torch.vmap(call)(query, key, value), call(query, key, value)):
        assert torch.equal(one, other)
    drops = lambda x: qkv.torch.attention(x, x, x, dropout=0.5)  # noqa: E731
    twice = query[:1].expand(2, -1, -1, -1)
    same, different = (torch.vmap(drops, randomness=how)(twice) for how in ("same", "different"))
    assert torch.equal(same[0], same[1]) and not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(drops)(twice)


def test_values_that_are_made_of_transformed_tensors():
    """A mask, a bias or a score of a tensor that has no numbers of its own, as of one that has."""
    query, key, value = triple(grad=False)
    lengths, slopes = torch.tensor([[6, 3], [1, 4]]), torch.rand(2, 4, dtype=torch.float64)

    def ours(lengths, slopes):
        mask = qkv.Mask.lengths(lengths) & qkv.Mask.window(3, -1)
        return qkv.torch.attention(query, key, value, mask=mask, bias=qkv.Bias.alibi(slopes))

    each = torch.stack([ours(*given) for given in zip(lengths, slopes)])
    assert torch.equal(torch.vmap(ours)(lengths, slopes), each)
    grown = slopes[0].clone().requires_grad_()
    (wanted,) = torch.autograd.grad(ours(lengths[0], grown).square().sum(), grown)
    found = torch.func.grad(lambda slopes: ours(lengths[0], slopes).square().sum())(slopes[0])
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:.*performance")
@pytest.mark.parametrize("kind", [torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer])
def test_gradients_of_samples_through_replaced_layers(kind):
    torch.manual_seed(0)
    is_layer = kind is torch.nn.TransformerEncoderLayer
    layer = kind(8, 2, **({"dim_feedforward": 16} if is_layer else {}), dropout=0.0, batch_first=True).double()
    rows, padded = draw(3, 5, 8, grad=False), torch.arange(5) >= torch.tensor([[5], [4], [2]])

    def loss(parameters, rows, padded):
        if is_layer:
            out = torch.func.functional_call(layer, parameters, (rows[None],), {"src_key_padding_mask": padded[None]})
        else:
            out, _ = torch.func.functional_call(layer, parameters, (rows[None],) * 3, {"key_padding_mask": padded[None]})
        return out.square().masked_fill(padded[None, :, None], 0).sum()

    results = []
    for _ in range(2):
        parameters = dict(layer.named_parameters())
        results.append(torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(parameters, rows, padded))
        qkv.torch.replace(layer)
    torch.testing.assert_close(results[1], results[0])


def test_derivatives_that_torch_func_does_not_get():
    query, key, value = triple(grad=False)
    query, key, value = query[:1, :2, :2], key[:1, :1], value[:1, :1]
    call = lambda q: qkv.torch.attention(q, key, value).pow(3).sum()  # noqa: E731
    func = torch.func
    twice = lambda q: func.grad(lambda q: func.grad(call)(q).sum())(q).sum()  # noqa: E731
    for third in (func.grad(twice), func.jacrev(func.hessian(call))):
        with pytest.raises(NotImplementedError, match="no third derivatives"):
            third(query)
    moved = query.clone().requires_grad_()
    (first,) = torch.autograd.grad(call(moved), moved, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), moved, create_graph=True)
    with pytest.raises(NotImplementedError, match="no third derivatives"):
        second.sum().backward()
    for twice in (func.jacfwd(func.jacfwd(call)), lambda q: func.jvp(lambda q: func.jvp(call, (q,), (q,))[1], (q,), (q,))):
        with pytest.raises(NotImplementedError, match="no forward mode of forward mode"):
            twice(query)
