"""qkv.torch.attention beside torch's own mathematics: values, gradients, their gradients, operators, compilation."""

import itertools
import json

import pytest

torch = pytest.importorskip("torch")

import qkv.torch  # noqa: E402


def draw(*shape, dtype=torch.float64, grad=True):
    return torch.randn(shape, dtype=dtype).requires_grad_(grad)


def triple(dtype=torch.float64, grad=True, heads=4, kv_heads=2, q_len=5, k_len=6, head_dim=3, value_dim=2):
    torch.manual_seed(0)
    return (
        draw(2, heads, q_len, head_dim, dtype=dtype, grad=grad),
        draw(2, kv_heads, k_len, head_dim, dtype=dtype, grad=grad),
        draw(2, kv_heads, k_len, value_dim, dtype=dtype, grad=grad),
    )


def expected(query, key, value, visible=None, bias=0.0, scale=None, soft_cap=0.0, sinks=None):
    """The formula in torch, and the weights."""
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    logits = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if soft_cap:
        logits = soft_cap * torch.tanh(logits / soft_cap)
    logits = logits + bias
    if visible is not None:
        logits = logits.masked_fill(~visible, float("-inf"))
    if sinks is not None:
        column = sinks[None, :, None, None].expand(*logits.shape[:3], 1)
        weights = torch.cat([logits, column], -1).softmax(-1)[..., :-1]
    else:
        weights = logits.softmax(-1)
    return weights @ value, weights


def test_values_and_extras():
    query, key, value = triple()
    visible = torch.rand(2, 1, 5, 6) < 0.7
    visible[..., 0] = True
    bias, sinks = draw(1, 4, 5, 6), draw(4)
    options = {"mask": visible, "soft_cap": 1.5, "scale": 0.7, "sinks": sinks}
    stats = qkv.torch.attention_stats(query, key, value, bias=qkv.Bias.view(bias) + 2 * bias, weights=True, **options)
    out, weights, log_sum_exp = stats.out, stats.weights, stats.log_sum_exp
    theirs, their_weights = expected(query, key, value, visible, 3 * bias, 0.7, 1.5, sinks)
    torch.testing.assert_close(out, theirs)
    torch.testing.assert_close(weights, their_weights.detach())
    assert not weights.requires_grad and not log_sum_exp.requires_grad
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            out, lse = qkv.torch.attention(query, key, value, bias=3 * bias, return_lse=True, **options)
            torch.testing.assert_close(lse, log_sum_exp)
            more = qkv.torch.attention_stats(query, key, value, bias=3 * bias, weights=True, entropy=True, top_keys=1, **options)
            torch.testing.assert_close(more.weights, weights)
            torch.testing.assert_close(more.top_weights[..., 0], weights.amax(-1))
            assert more.out.requires_grad == grad and out.requires_grad == grad and not more.entropy.requires_grad


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-6), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)])
def test_types_and_strides(dtype, tolerance):
    query, key, value = triple(dtype, grad=False)
    theirs = expected(query.double(), key.double(), value.double())[0]
    rows = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key, value)]
    turned = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in (query, key, value)]
    for given in ((query, key, value), rows, turned):
        out = qkv.torch.attention(*given)
        assert out.dtype == dtype
        torch.testing.assert_close(out.double(), theirs, atol=tolerance, rtol=0)
    same = [x[..., :2] for x in rows]  # one size of heads: the output lies as the queries do
    assert qkv.torch.attention(rows[0][..., :3], rows[1], rows[1]).transpose(1, 2).is_contiguous()
    assert qkv.torch.attention(*same).shape == (2, 4, 5, 2)


def arrangements(*shape):
    """Tensors of this shape whose numbers lie in memory in ways of their own."""
    batch, heads, rows, size = shape
    yield draw(*shape)
    yield draw(batch, rows, heads, size, grad=False).transpose(1, 2)
    yield draw(batch, heads, size, rows, grad=False).transpose(-1, -2)
    yield draw(size, rows, heads, batch, grad=False).permute(3, 2, 1, 0)
    yield draw(1, heads, rows, size, grad=False).expand(shape)
    yield draw(batch, heads, rows, 1, grad=False).expand(shape)
    yield draw(batch, heads, rows, 2 * size, grad=False)[..., ::2]


@pytest.mark.parametrize("q_len, size", [(5, 4), (1, 4), (5, 1)])
def test_gradients_whatever_the_strides(q_len, size):
    torch.manual_seed(0)
    shapes = [(2, 3, q_len, size), (2, 3, 6, size), (2, 3, 6, size)]
    gradients = list(arrangements(*shapes[0]))
    for query, key, value in itertools.product(*(arrangements(*shape) for shape in shapes)):
        inputs = [x.detach().requires_grad_() for x in (query, key, value)]
        out, theirs = qkv.torch.attention(*inputs), expected(*inputs)[0]
        torch.testing.assert_close(out, theirs)
        for grad_out in gradients:
            ours = torch.autograd.grad(out, inputs, grad_out.detach(), retain_graph=True)
            torch.testing.assert_close(ours, torch.autograd.grad(theirs, inputs, grad_out.detach(), retain_graph=True))
    along = [x.detach() for x in arrangements(*shapes[0])][2]
    tangent, moved = (
        torch.func.jvp(function, tuple(x.detach() for x in (query, key, value)), (along, key.detach(), value.detach()))[1]
        for function in (qkv.torch.attention, lambda *given: expected(*given)[0])
    )
    torch.testing.assert_close(tangent, moved)


def test_heads_split_from_long_rows():
    torch.manual_seed(0)
    rows = torch.randn(1, 1100, 3, 2, 4)
    query, key, value = rows.unbind(2)
    heads = [x.transpose(1, 2) for x in (query, key, value)]
    near = [x.contiguous().requires_grad_() for x in heads]
    far = [x.detach().requires_grad_() for x in heads]
    for inputs in (near, far):
        qkv.torch.attention(*inputs, mask="causal").square().sum().backward()
    theirs = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
    torch.testing.assert_close(qkv.torch.attention(*heads, mask="causal"), theirs, atol=1e-5, rtol=1e-5)
    for one, other in zip(near, far):
        assert torch.equal(one.grad, other.grad)


@pytest.mark.parametrize("options", [{}, {"mask": qkv.Mask.causal("bottom-right")}, {"mask": qkv.Mask.window(2, 1), "scale": 0.3}])
def test_gradcheck_and_gradgradcheck(options):
    inputs = triple()
    call = lambda *given: qkv.torch.attention(*given, **options)  # noqa: E731
    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True, check_undefined_grad=True)
    assert torch.autograd.gradgradcheck(call, inputs)


def test_gradcheck_of_bias_sinks_soft_cap_and_dropout():
    query, key, value = triple()
    first, second, sinks = draw(1, 4, 5, 6), draw(6), draw(4)
    call = lambda q, k, v, a, b, s: qkv.torch.attention(  # noqa: E731
        q, k, v, bias=qkv.Bias.view(a) + b, sinks=s, soft_cap=2.0, dropout=0.3, seed=4
    )
    assert torch.autograd.gradcheck(call, (query, key, value, first, second, sinks))


@pytest.mark.parametrize("name", ["alibi", "t5", "clipped", "shaw", "swin", "additive", "concat", "bilinear"])
def test_gradcheck_of_tables_and_scores(name):
    """Which qkv.attention() itself takes, too, with the same numbers."""
    query, key, value = triple(head_dim=4, q_len=6)
    shapes = {"alibi": [(4,)], "t5": [(8, 4)], "clipped": [(5, 4)], "shaw": [(5, 4)], "swin": [(15, 4)]}
    shapes |= {"additive": [(3, 4), (3, 4), (3,)], "concat": [(3, 8), (3,)], "bilinear": [(4, 4)]}
    more = {"t5": (True, 8), "swin": (2, 3)}.get(name, ())
    keyword = "bias" if hasattr(qkv.Bias, name) else "score"
    make = getattr(qkv.Bias if keyword == "bias" else qkv.Score, name)
    call = lambda q, k, v, *parameters: qkv.torch.attention(q, k, v, **{keyword: make(*parameters, *more)})  # noqa: E731
    parameters = [draw(*shape) for shape in shapes[name]]
    assert torch.autograd.gradcheck(call, (query, key, value, *parameters))
    arrays = [x.detach().numpy() for x in (query, key, value, *parameters)]
    own = qkv.attention(*arrays[:3], **{keyword: make(*arrays[3:], *more)})
    torch.testing.assert_close(call(query, key, value, *parameters).detach(), torch.from_numpy(own), rtol=0, atol=0)


def test_options_are_those_of_arrays():
    """Masks, packed and paged rows, statistics: the numbers that qkv.attention() gives of the same memory."""
    torch.manual_seed(0)
    x, rows = torch.randn(2, 4, 6, 8), torch.randn(9, 4, 8)
    pages = torch.randn(4, 3, 2, 8)
    seen = torch.rand(6, 6) < 0.7
    ids = [[0, 0, 1, 1, 1, 2]] * 2
    calls = [
        (x, x, {"mask": qkv.Mask.causal() & qkv.Mask.window(1, 0) & qkv.Mask.documents(torch.tensor(ids))}),
        (x, x, {"mask": qkv.Mask.documents(ids) & qkv.Mask.lengths(torch.tensor([6, 3]))}),
        (x[:, :, :3], x, {"mask": qkv.Mask.causal("bottom-right") & qkv.Mask.window(2, -1)}),
        (x, x, {"mask": qkv.Mask.boolean([True, False] * 3)}),
        (x, x, {"mask": qkv.Mask.prefix([1, 3]) & qkv.Mask.dilated(2, 2, 2)}),
        (x, x, {"mask": qkv.Mask.chunks(2) & seen, "bias": qkv.Bias.alibi(torch.rand(4)), "precision": "exact"}),
        (x, x, {"mask": (qkv.Mask.causal() & seen).compiled(), "threads": 1}),
        (rows, rows, {"cu_seqlens_q": torch.tensor([0, 4, 9]), "offsets_key": [0, 4, 9], "mask": "causal"}),
        (x, pages, {"block_table": torch.tensor([[0, 1], [3, 2]], dtype=torch.int32), "mask": qkv.Mask.lengths([6, 4])}),
    ]
    for query, key, options in calls:
        theirs = qkv.attention(query, key, key, **options)
        assert torch.equal(qkv.torch.attention(query, key, key, **options), theirs)
        grown = query.clone().requires_grad_()
        ours = qkv.torch.attention(grown, key, key, **options)
        assert torch.equal(ours, theirs)
        out, lse = qkv.attention(query, key, key, return_lse=True, **options)
        if "block_table" not in options:
            (gradient,) = torch.autograd.grad(ours.sum(), grown)
            exact = qkv.attention_backward(query, key, key, out, lse, torch.ones_like(out), **options)
            assert torch.equal(gradient, exact.query)
        stats = qkv.torch.attention_stats(query, key, key, entropy=True, **options)
        assert torch.equal(stats.entropy, qkv.attention_stats(query, key, key, entropy=True, **options).entropy)
        assert torch.equal(stats.log_sum_exp, lse)


def test_only_what_wants_a_gradient_gets_one():
    for wanted in itertools.product([False, True], repeat=3):
        inputs = [x.detach().requires_grad_(want) for x, want in zip(triple(), wanted)]
        out = qkv.torch.attention(*inputs)
        assert out.requires_grad == any(wanted)
        if any(wanted):
            out.sum().backward()
        assert [x.grad is not None for x in inputs] == list(wanted)


def test_second_derivatives_that_do_not_exist_are_refused():
    query, key, value = triple()
    for options in ({"soft_cap": 2.0}, {"dropout": 0.5, "seed": 1}):
        out = qkv.torch.attention(query, key, value, **options)
        (gradient,) = torch.autograd.grad(out.sum(), query, create_graph=True)
        with pytest.raises(ValueError, match="double"):
            gradient.sum().backward()
    bias = draw(5, 6)
    out = qkv.torch.attention(query, key, value, bias=bias)
    (gradient,) = torch.autograd.grad((out**2).sum(), query, create_graph=True)
    with pytest.raises(NotImplementedError, match="bias"):
        gradient.sum().backward()
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="bias"):
        dual = torch.autograd.forward_ad.make_dual(bias.detach(), bias.detach())
        qkv.torch.attention(query, key, value, bias=dual)


def test_dropout_draws_from_the_generator_of_torch():
    query, key, value = triple(grad=False)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(qkv.torch.attention(query, key, value, dropout=0.5))
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])
    for seed in (9, 2**63 - 1, 2**63, 2**64 - 1):
        kept = torch.from_numpy(qkv.dropout_mask((2, 4, 5, 6), 0.5, seed))
        stats = qkv.torch.attention_stats(query, key, value, dropout=0.5, seed=seed, weights=True)
        torch.testing.assert_close(stats.out, (stats.weights * kept / 0.5) @ value.repeat_interleave(2, 1))


@pytest.mark.parametrize("wanted", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("compiled", [False, True])
def test_autocast_is_followed_as_torch_does(wanted, compiled):
    sdpa = torch.nn.functional.scaled_dot_product_attention
    ours = lambda *given: qkv.torch.attention(*given, mask="causal")  # noqa: E731
    call = torch.compile(ours, fullgraph=True, backend="aot_eager") if compiled else ours
    torch.compiler.reset()
    kinds = (torch.float32, torch.bfloat16) if compiled else (torch.float32, torch.bfloat16, torch.float16)
    for types in [*itertools.combinations_with_replacement(kinds, 3), (torch.float64,) * 3]:
        results = []
        for function in (call, lambda *given: sdpa(*given, is_causal=True)):
            given = triple(grad=False, heads=2, value_dim=3)
            inputs = [x.to(kind).requires_grad_() for x, kind in zip(given, types)]
            with torch.autocast("cpu", dtype=wanted):
                out = function(*inputs)
            out.sum().backward()
            results.append([out, *(x.grad for x in inputs)])
        for mine, theirs in zip(*results):
            assert mine.dtype == theirs.dtype
            torch.testing.assert_close(mine, theirs, atol=2e-2, rtol=2e-2)  # of bfloat16
    mixed = [x.to(kind) for x, kind in zip(triple(grad=False), (torch.float64, torch.float32, torch.float32))]
    with torch.autocast("cpu", dtype=wanted), pytest.raises(ValueError, match="one type"):
        call(*mixed)


def test_meta_tensors_have_shapes():
    query, key, value = (x.to("meta") for x in triple(grad=False))
    assert qkv.torch.attention(query, key, value).shape == (2, 4, 5, 2)


def operator_inputs(grad):
    call = {"bias": [["view", [{"tensor": 0}]]], "mask": [["causal", [None]], ["boolean", [{"tensor": 1}]]], "scale": 0.5}
    return (*triple(grad=grad), [torch.zeros(6, dtype=torch.float64), torch.ones(5, 6, dtype=torch.bool)], json.dumps(call))


@pytest.mark.parametrize("turned", [False, True])
def test_opcheck(turned):
    call = operator_inputs(False)
    if turned:  # inputs have gaps in their last dimension; what is made like them has none
        inputs = (x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in triple(grad=False, value_dim=3))
        call = (*inputs, *call[3:])
    operators = torch.ops.qkv
    out, log_sum_exp, _ = operators.attention(*call, 3)
    query, _, value = call[:3]
    kept = (out, log_sum_exp)
    grad_out = torch.randn_like(out)
    for operator, arguments in (
        (operators.attention, (*call, 3)),
        (operators.attention, (*call, 1)),
        (operators.attention_backward, (grad_out, *kept, *call, [True, False, True, True, False])),
        (operators.attention_jvp, (query, None, value, *kept, *call)),
        (operators.attention_double_backward, (query, None, value, grad_out, *kept, *call)),
    ):
        verdict = torch.library.opcheck(operator.default, arguments)
        assert set(verdict.values()) == {"SUCCESS"}, verdict


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_as_one_graph(dynamic):
    bias, sinks = draw(1, 4, 5, 6), draw(4)

    def call(query, key, value, bias, sinks):
        mask = qkv.Mask.causal("bottom-right") & qkv.Mask.window(3, 0)
        stats = qkv.torch.attention_stats(
            query, key, value, bias=bias, sinks=sinks, mask=mask, dropout=0.2, seed=3, weights=True
        )
        return stats.out, stats.weights

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    results = []
    for function in (call, compiled):
        inputs = [x.detach().requires_grad_() for x in (*triple(), bias, sinks)]
        out, weights = function(*inputs)
        out.square().sum().backward()
        results.append([out, weights, *(x.grad for x in inputs)])
    for eager, ours in zip(*results):
        torch.testing.assert_close(ours, eager)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*triple(), bias, sinks)[0], results[0][0])


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_number_of_each_call_compiles_once(dynamic):
    compiled_graphs = []

    def backend(graph, inputs):
        compiled_graphs.append(graph)
        return graph.forward

    def call(query, key, value, scale):
        return qkv.torch.attention(query, key, value, mask="causal", scale=scale, soft_cap=5.0)

    compiled = torch.compile(call, fullgraph=True, backend=backend, dynamic=dynamic)
    for scale in (0.3, 0.7, 1.1, 2.5):
        results = []
        for function in (call, compiled):
            inputs = [x.detach().requires_grad_() for x in triple()]
            out = function(*inputs, scale)
            out.square().sum().backward()
            results.append([out, *(x.grad for x in inputs)])
        torch.testing.assert_close(results[1], results[0])
    assert len(compiled_graphs) == (1 if dynamic else 2)


@pytest.mark.parametrize("shared", ["all", "key and value", "bias"])
def test_one_tensor_in_several_places_compiles_with_gradients(shared):
    calls = {
        "all": lambda x: qkv.torch.attention(x, x, x),
        "key and value": lambda x: qkv.torch.attention(x.sin(), x, x, mask="causal"),
        "bias": lambda x: qkv.torch.attention(x, x.cos(), x.sin(), bias=qkv.Bias.view(x) + qkv.Bias.view(x)),
    }
    compiled = torch.compile(calls[shared], fullgraph=True, backend="aot_eager")
    results = []
    for function in (calls[shared], compiled):
        torch.manual_seed(0)
        x = draw(2, 3, 4, 4)
        out = function(x)
        out.square().sum().backward()
        results.append((out, x.grad))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.filterwarnings("ignore")  # torch.jit is deprecated
@pytest.mark.parametrize("options", [{}, {"soft_cap": 3.0}, {"bias": torch.zeros(1)}])
def test_a_trace_records_the_call(options):
    call = lambda *given: qkv.torch.attention(*given, **options)  # noqa: E731
    traced = torch.jit.trace(call, triple(torch.float32, grad=False), check_trace=False)
    others = [2 * x for x in triple(torch.float32, grad=False)]
    assert torch.equal(traced(*others), call(*others))


@pytest.mark.parametrize("grad", [False, True])
def test_plain_calls_give_the_bits_of_others(grad):
    """A call takes a way of its own; one that wants the log-sum-exp, too, does not."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for q_len, size, turned in itertools.product((1, 5), (2, 3), (False, True)):
            inputs = [x.detach() for x in triple(dtype, q_len=q_len, value_dim=size)]
            if turned:
                inputs = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in inputs]
            inputs = [x.requires_grad_(grad) for x in inputs]
            for options in ({}, {"mask": qkv.Mask.causal("bottom-right"), "scale": 0.3}, {"mask": qkv.Mask.window(1, 2), "soft_cap": 2.0}):
                ours = qkv.torch.attention(*inputs, **options)
                others = qkv.torch.attention(*inputs, return_lse=True, **options)[0]
                assert torch.equal(ours, others) and ours.stride() == others.stride()
                if grad:
                    for one, other in zip(*(torch.autograd.grad(out.sum(), inputs) for out in (ours, others))):
                        assert torch.equal(one, other) and one.stride() == other.stride()


def test_what_watches_a_plain_call_sees_it():
    class Seen(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(function.name())
            return function(*args, **(kwargs or {}))

    for grad in (False, True):
        names: list[str] = []
        inputs = [x.requires_grad_(grad) for x in triple(grad=False)]
        with Seen():
            qkv.torch.attention(*inputs)
        assert "qkv::attention" in names
    negated = [torch.complex(torch.zeros_like(x), x).conj().imag for x in triple(grad=False)]
    assert negated[0].is_neg()
    with pytest.raises(TypeError, match="negated"):
        qkv.torch.attention(*negated)


@pytest.mark.parametrize(
    "options, says",
    [
        ({"causal": True}, "unexpected keyword argument 'causal'; mask=qkv.Mask.causal(...) is one"),
        ({"mask": "left"}, 'an array of bool, or "causal", got "left"'),
        ({"mask": torch.ones(6)}, "mask must be bool or uint8, got Tensor of torch.float32"),
        ({"mask": [True] * 6}, "mask must be a mask such as qkv.Mask.causal()"),
        ({"bias": 1.0}, "bias must be a bias such as"),
        ({"bias": torch.ones(6).int()}, "bias must be float32, float64, bfloat16 or float16, got Tensor of torch.int32"),
        ({"sinks": [0.0] * 4}, "sinks must be an array"),
        ({"threads": 0}, "threads must be a number from 1, or None"),
        ({"out": torch.ones(2, 4, 5, 2)}, "unexpected keyword argument 'out'"),
        ({"scale": torch.tensor(0.5)}, "scale must be a number, got Tensor; scale.item() is one"),
        ({"soft_cap": "2"}, "soft_cap must be a number, got str"),
        ({"dropout": 0.5, "seed": 1.5}, "seed must be a whole number, got float"),
        ({"dropout": 0.5, "seed": 2**64}, "seed must be a number from 0 to 2^64 - 1"),
    ],
    ids=str,
)
def test_options_that_do_not_fit(options, says):
    for grad in (False, True):
        with pytest.raises((TypeError, ValueError)) as caught:
            qkv.torch.attention(*triple(grad=grad), **options)
        assert says in str(caught.value)


def test_options_of_subclasses_and_of_numpy():
    class Own(torch.Tensor):
        pass

    query, key, value = triple(grad=False)
    bias, seen = torch.rand(5, 6, dtype=torch.float64), torch.rand(5, 6) < 0.7
    theirs = qkv.torch.attention(query, key, value, bias=bias, mask=seen)
    assert torch.equal(qkv.torch.attention(query, key, value, bias=bias.as_subclass(Own), mask=seen.as_subclass(Own)), theirs)
    assert torch.equal(qkv.torch.attention(query, key, value, bias=bias.numpy(), mask=seen.numpy()), theirs)
    grown = query.clone().requires_grad_()
    assert torch.equal(qkv.torch.attention(grown, key, value, bias=qkv.Bias.view(bias.numpy()), mask=seen.numpy()), theirs)
    wide = bias.float()  # the type of sums is the query's
    torch.testing.assert_close(qkv.torch.attention(query, key, value, bias=wide, mask=seen), theirs, rtol=1e-6, atol=1e-6)


def test_what_is_refused():
    query, key, value = triple(grad=False)
    with pytest.raises(TypeError, match="query must be a torch.Tensor"):
        qkv.torch.attention(query.numpy(), key, value)
    with pytest.raises(ValueError):
        qkv.torch.attention(query, key[:, :, :4], value)
    with pytest.raises(TypeError, match="query"):
        qkv.torch.attention(query.int(), key, value)
    with pytest.raises(TypeError, match="query is a sparse"):
        qkv.torch.attention(query.to_sparse(), key, value)
