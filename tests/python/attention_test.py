"""attention() and its kin beside whole matrices in double precision. Masks, biases, types, strides and places in any
combination: fuzz_test.py; what is refused: refusals_test.py."""

import copy
import os
import pickle
import threading

import ml_dtypes
import numpy
import pytest
import qkv
from fuzz_test import softmax_product

RANDOM = numpy.random.default_rng(1)


def draw(*shape, dtype="f4"):
    return RANDOM.standard_normal(shape).astype(dtype)


def expected(query, key, value, visible=True, scale=None):
    return softmax_product(query, key, value, visible, 0, scale, soft_cap=0)[0]


def test_documents_and_boolean():
    query, key, value = draw(1, 1, 4, 4), draw(1, 1, 4, 4), draw(1, 1, 4, 4)
    ids, seen = numpy.array([[0, 0, 1, 1]]), numpy.array([[True, True, False, True]] * 4)
    for visible in (qkv.Mask.boolean(seen), seen):
        got = qkv.attention(query, key, value, mask=qkv.Mask.documents(ids) & visible)
        assert (got == qkv.attention(query, key, value, mask=seen & qkv.Mask.documents(ids))).all()
    causal, named = (qkv.attention(query, key, value, mask=mask) for mask in (qkv.Mask.causal(), "causal"))
    assert (causal == named).all()


def test_extras():
    query, key, value = draw(1, 2, 3, 4), draw(1, 2, 5, 4), draw(1, 2, 5, 4)
    stats = qkv.attention_stats(query, key, value, weights=True, top_keys=2, received=True)
    assert (stats.out == qkv.attention(query, key, value)).all() and stats.entropy is None
    logits = numpy.einsum("bhid,bhjd->bhij", query.astype("f8"), key.astype("f8")) / 2
    exact = numpy.exp(logits) / numpy.exp(logits).sum(-1, keepdims=True)
    numpy.testing.assert_allclose(stats.weights, exact, atol=1e-6)
    numpy.testing.assert_allclose(stats.log_sum_exp, numpy.log(numpy.exp(logits).sum(-1)), atol=1e-6)
    numpy.testing.assert_array_equal(stats.top_keys, numpy.argsort(-exact, -1)[..., :2])
    numpy.testing.assert_allclose(stats.received, exact.sum(2), atol=1e-6)


def test_gradients_are_differences():
    query, key, value, grad = (draw(1, 1, 3, 4, dtype="f8") for _ in range(4))
    out, lse = qkv.attention(query, key, value, return_lse=True)
    got = qkv.attention_backward(query, key, value, out, lse, grad)
    step = 1e-6
    for place, gradient in enumerate((got.query, got.key, got.value)):
        for index in numpy.ndindex(gradient.shape):
            moved = [query.copy(), key.copy(), value.copy()]
            moved[place][index] += step
            up = (expected(*moved) * grad).sum()
            moved[place][index] -= 2 * step
            down = (expected(*moved) * grad).sum()
            assert abs((up - down) / (2 * step) - gradient[index]) < 1e-8


def test_gradients_of_parameters():
    x, grad = draw(1, 2, 3, 4, dtype="f8"), draw(1, 2, 3, 4, dtype="f8")
    slopes, added, table = draw(2, dtype="f8"), draw(3, 3, dtype="f8"), draw(3, 2, dtype="f8")
    sinks = draw(2, dtype="f8")

    def given():
        return {"bias": qkv.Bias.alibi(slopes) + added + qkv.Bias.clipped(table), "sinks": sinks}

    out, lse = qkv.attention(x, x, x, return_lse=True, **given())
    assert qkv.attention_backward(x, x, x, out, lse, grad, **given()).bias == ()
    got = qkv.attention_backward(x, x, x, out, lse, grad, parameters=True, **given())
    assert got.w_query is None
    for array, gradient in ((slopes, *got.alibi_slopes), (added, *got.bias), (table, *got.tables), (sinks, got.sinks)):
        for index in numpy.ndindex(array.shape):
            before, step, sums = array[index], 1e-6, []
            for sign in (1, -1):
                array[index] = before + sign * step
                sums.append((qkv.attention(x, x, x, **given()) * grad).sum())
            array[index] = before
            assert abs((sums[0] - sums[1]) / (2 * step) - gradient[index]) < 1e-8


def test_jvp_of_values_is_attention_to_the_tangents():
    x, tangent = draw(1, 1, 3, 4, dtype="f8"), draw(1, 1, 3, 4, dtype="f8")
    out, lse = qkv.attention(x, x, x, return_lse=True)
    moved, _ = qkv.attention_jvp(x, x, x, out, lse, tangent_value=tangent)
    numpy.testing.assert_allclose(moved, expected(x, x, tangent), atol=1e-14)


def test_merge_joins_disjoint_keys():
    query, key, value = draw(1, 1, 2, 4), draw(1, 1, 6, 4), draw(1, 1, 6, 4)
    parts = [qkv.attention(query, key[:, :, s], value[:, :, s], return_lse=True) for s in (slice(0, 2), slice(2, 6))]
    merged, _ = qkv.merge_attention(*parts[0], *parts[1])
    numpy.testing.assert_allclose(merged, expected(query, key, value), atol=2e-6)


def test_dropout_keeps_what_its_mask_says():
    query, key, value = draw(1, 1, 4, 4), draw(1, 1, 8, 4), numpy.eye(8, dtype="f4")[None, None]
    kept = qkv.dropout_mask((1, 1, 4, 8), 0.5, seed=3)
    out = qkv.attention(query, key, value, dropout=0.5, seed=3)
    assert ((out != 0) == kept).all() and kept.any() and not kept.all()


def test_cache_continues_a_sequence():
    query, key, value = draw(1, 2, 5, 4), draw(1, 1, 5, 4), draw(1, 1, 5, 4)
    cache = qkv.KeyValueCache(batch=1, kv_heads=1, head_dim=4)
    cache.append(key[:, :, :3], value[:, :, :3])
    cache.append(key[:, :, 3:], value[:, :, 3:])
    assert cache.lengths().tolist() == [5]
    want = expected(query, key, value, numpy.tri(5, dtype=bool))[:, :, 3:]
    for mask in (qkv.Mask.causal("bottom-right"), qkv.Mask.causal()):
        numpy.testing.assert_allclose(cache.attention(query[:, :, 3:], mask=mask), want, atol=2e-6)


def test_plan_and_verify():
    x = draw(2, 300, 16)
    plan = qkv.plan(x, x, x, mask=qkv.Mask.causal(), threads=1)
    assert plan.kernel == "prefill" and plan.threads == 1 and plan.skipped_tiles > 0
    assert qkv.verify(x, x, x, qkv.attention(x, x, x), rows=10).worst_error < 1e-5
    wrong = qkv.attention(x, x, x) + 1
    assert qkv.verify(x, x, x, wrong, rows=10).worst_error > 0.9


def test_bits_do_not_depend_on_threads_batch_or_fork():
    x = draw(7, 4, 65, 16)
    whole = qkv.attention(x, x, x, mask=qkv.Mask.causal(), threads=1)
    for threads in (2, 4):
        assert (qkv.attention(x, x, x, mask=qkv.Mask.causal(), threads=threads) == whole).all()
    order = RANDOM.permutation(7)
    shuffled = numpy.ascontiguousarray(x[order])
    assert (qkv.attention(shuffled, shuffled, shuffled, mask=qkv.Mask.causal()) == whole[order]).all()
    assert (qkv.attention(x[3:4], x[3:4], x[3:4], mask=qkv.Mask.causal()) == whole[3:4]).all()

    found = [None] * 4

    def work(i):
        found[i] = qkv.attention(x, x, x, mask=qkv.Mask.causal())

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert all((one == whole).all() for one in found)

    child = os.fork()
    if child == 0:
        os._exit(0 if (qkv.attention(x, x, x, mask=qkv.Mask.causal(), threads=2) == whole).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_options_by_the_names_of_flash_attention():
    x = draw(1, 2, 3, 4)
    ours = qkv.attention(x, x, x, scale=0.3, soft_cap=2.0)
    assert (qkv.attention(x, x, x, softmax_scale=0.3, softcap=2.0, scale=None) == ours).all()


def test_rows_that_see_no_key_are_zero_or_nan():
    x, seen = draw(1, 2, 3, 4), numpy.array([[True, False, True], [False, False, False], [True, True, True]])
    zero, nan = (qkv.attention_stats(x, x, x, mask=seen, weights=True, empty_rows=rows) for rows in ("zero", "nan"))
    for one, other in ((zero.out, nan.out), (zero.weights, nan.weights)):
        assert (one[:, :, 1] == 0).all() and numpy.isnan(other[:, :, 1]).all()
        assert (one[:, :, ::2] == other[:, :, ::2]).all()
    with pytest.raises(ValueError, match="empty_rows must be zero"):
        qkv.attention_backward(x, x, x, zero.out, zero.log_sum_exp, x, mask=seen, empty_rows="nan")


def test_scaled_dot_product_attention_has_torch_polarity():
    x, seen = draw(1, 2, 3, 4), numpy.array([[True, False, False], [True, True, False], [False, True, True]])
    got = qkv.scaled_dot_product_attention(x, x, x, attn_mask=seen)
    numpy.testing.assert_allclose(got, expected(x, x, x, seen), atol=2e-6)
    got = qkv.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3)
    numpy.testing.assert_allclose(got, expected(x, x, x, numpy.tri(3, dtype=bool), scale=0.3), atol=2e-6)
    with pytest.raises(ValueError, match="exclude"):
        qkv.scaled_dot_product_attention(x, x, x, attn_mask=seen, is_causal=True)
    with pytest.raises(ValueError, match=r"key \[1, 3, 3, 4\].* cannot be broadcast; enable_gqa"):
        qkv.scaled_dot_product_attention(x, x[:, [0, 1, 0]], x)
    with pytest.raises(TypeError, match="attn_mask must be an array, got list"):
        qkv.scaled_dot_product_attention(x, x, x, attn_mask=seen.tolist())
    with pytest.raises(ValueError, match="attn_mask must be bool, float32 or float32, got int64"):
        qkv.scaled_dot_product_attention(x, x, x, attn_mask=seen.astype("i8"))


def test_lists_are_taken_where_arrays_of_whole_numbers_are():
    x, mask = draw(2, 1, 4, 3), [[True, True, False, True]] * 4
    pairs = [
        (qkv.Mask.lengths([3, 4]), qkv.Mask.lengths(numpy.array([3, 4]))),
        (qkv.Mask.prefix((1, 2)), qkv.Mask.prefix(numpy.array([1, 2]))),
        (qkv.Mask.documents([[0, 0, 1, 2**40]] * 2), qkv.Mask.documents(numpy.array([[0, 0, 1, 2**40]] * 2))),
        (qkv.Mask.boolean(mask), qkv.Mask.boolean(numpy.array(mask))),
    ]
    for listed, given in pairs:
        assert (qkv.attention(x, x, x, mask=listed) == qkv.attention(x, x, x, mask=given)).all()
    rows = x[0].swapaxes(0, 1)
    packed = [qkv.attention(rows, rows, rows, offsets_query=o, offsets_key=o) for o in ([0, 1, 4], numpy.array([0, 1, 4]))]
    assert (packed[0] == packed[1]).all()
    named = qkv.attention(rows, rows, rows, cu_seqlens_q=[0, 1, 4], cu_seqlens_k=[0, 1, 4], offsets_query=None)
    assert (named == packed[0]).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: {"mask": qkv.Mask.causal("bottom-right") & qkv.Mask.window(2, 0)},
        lambda a: {"mask": qkv.Mask.lengths([3, 4]) & qkv.Mask.boolean(a > -1) & qkv.Mask.dilated(1, 1, 2)},
        lambda a: {"mask": qkv.Mask.prefix([1, 2]) & qkv.Mask.documents(numpy.array([[0, 0, 1, 1]]))},
        lambda a: {"mask": (qkv.Mask.boolean(a > -1) & qkv.Mask.causal()).compiled() & qkv.Mask.lengths([3, 4])},
        lambda a: {"bias": qkv.Bias.view(a) + qkv.Bias.alibi(a[0, :1]) + qkv.Bias.t5(a[:, :1].copy(), bidirectional=False)},
        lambda a: {"score": qkv.Score.bilinear(a[:3, :3].copy()), "bias": qkv.Bias.clipped(a[:3, :1].copy())},
    ],
)
def test_masks_biases_and_scores_copy_and_pickle(make):
    x, a = draw(2, 1, 4, 3), draw(4, 4)
    options = make(a)
    before = qkv.attention(x, x, x, **options)
    shallow, deep, read = copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))
    for again in (shallow, deep, read):
        copied = {name: again(value) for name, value in options.items()}
        assert [repr(value) for value in copied.values()] == [repr(value) for value in options.values()]
        assert (qkv.attention(x, x, x, **copied) == before).all()
    deeply = copy.deepcopy(options)
    a += 1  # a deep copy has arrays of its own
    assert (qkv.attention(x, x, x, **deeply) == before).all()


def test_functions_pickle_by_name():
    for function in (qkv.attention, qkv.verify, qkv.plan, qkv.scaled_dot_product_attention):
        assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_caches_copy_and_pickle(dtype):
    cache = qkv.KeyValueCache(batch=2, kv_heads=2, head_dim=4, value_dim=3, dtype=dtype, page_rows=4)
    cache.append(draw(9, 2, 4), draw(9, 2, 3), [0, 7, 9])
    cache.reorder([0, 0, 1])
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    query = draw(3, 2, 1, 4).astype(kind)
    before = cache.attention(query)
    for again in (copy.copy(cache), copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))):
        assert (again.lengths() == [7, 7, 2]).all() and (again.attention(query) == before).all()
        again.append(draw(3, 2, 1, 4), draw(3, 2, 1, 3))
        assert (again.lengths() == [8, 8, 3]).all() and (cache.attention(query) == before).all()
    empty = pickle.loads(pickle.dumps(qkv.KeyValueCache(batch=3)))
    assert (empty.lengths() == [0, 0, 0]).all()
