"""qkv.batches: kinds of batches, nulls, pickles, targets; the engines themselves on two local workers."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import qkv
import qkv.batches

ROOT = Path(__file__).resolve().parents[2]
ENCODER = str(ROOT / "tests" / "golden" / "encoders" / "roberta")
MODEL = str(ROOT / "models" / "en-es")
TEXTS = ["a text", None, "another, longer text", "", "a text", "one more"]
REAL = [text for text in TEXTS if text is not None]


@pytest.fixture(scope="module")
def expected():
    return qkv.Embedder(ENCODER).encode(REAL)


@pytest.fixture
def embed():
    return qkv.batches.Embed(ENCODER, "text", "vector")


def rows_of(column):
    """The rows of a column that are not null, and where null is."""
    rows = list(column)
    return numpy.array([row for row in rows if row is not None], numpy.float32), [row is None for row in rows]


NULLS = [text is None for text in TEXTS]


def test_dicts(embed, expected):
    out = embed({"text": TEXTS, "id": [1] * 6})
    vectors, nulls = rows_of(out["vector"])
    assert type(out["vector"]) is list and out["id"] == [1] * 6 and nulls == NULLS
    assert (vectors == expected).all()
    out = embed({"text": numpy.array(TEXTS, object)})["vector"]
    assert out.dtype == object and (rows_of(out)[0] == expected).all() and rows_of(out)[1] == NULLS
    out = embed({"text": numpy.array(REAL)})["vector"]
    assert out.dtype == numpy.float32 and (out == expected).all()
    assert embed({"text": numpy.array([], object)})["vector"].shape == (0, 12)
    assert embed({"text": [None]})["vector"] == [None]


def test_arrow(embed, expected):
    pyarrow = pytest.importorskip("pyarrow")
    for make in (pyarrow.table, pyarrow.RecordBatch.from_pydict):
        batch = make({"text": TEXTS, "id": list(range(6))})
        out = embed(batch)
        assert type(out) is type(batch) and out.schema.names == ["text", "id", "vector"]
        assert out.schema.field("vector").type == pyarrow.list_(pyarrow.float32(), 12)
        vectors, nulls = rows_of(out.column("vector").to_pylist())
        assert (vectors == expected).all() and nulls == NULLS
        again = embed(out)  # the column is there already
        assert again.schema.names == out.schema.names and again.equals(out)
    for part in embed.each(iter([batch, batch.slice(1, 3)])):  # as Spark reads it
        assert part.schema.field("vector").type == pyarrow.list_(pyarrow.float32())
        assert part.column("vector").to_pylist() == embed(part).column("vector").to_pylist()
    assert embed(pyarrow.table({"text": pyarrow.array([], pyarrow.string())})).num_rows == 0


def test_pandas(embed, expected):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": [*TEXTS[:1], numpy.nan, *TEXTS[2:]]}, index=list("abcdef"))
    out = embed(frame)
    assert list(out.index) == list("abcdef") and "vector" not in frame
    assert str(out["vector"].dtype) == "fixed_size_list<item: float>[12][pyarrow]"
    assert list(out["vector"].isna()) == NULLS
    assert (numpy.stack(out["vector"].dropna().to_list()) == expected).all()


def test_translate():
    translate = qkv.batches.Translate(MODEL, "text", beams=1)
    out = translate({"text": ["You are welcome.", None, ""]})["translation"]
    assert out == ["De nada.", None, str(qkv.Translator(MODEL).translate("", beams=1))]
    pyarrow = pytest.importorskip("pyarrow")
    column = translate(pyarrow.table({"text": ["You are welcome.", None]})).column("translation")
    assert column.type == pyarrow.string() and column.to_pylist() == ["De nada.", None]


def test_any_partition_gives_the_same(embed):
    whole = embed({"text": REAL})["vector"]
    for cut in range(len(REAL) + 1):
        parts = [embed({"text": part})["vector"] for part in (REAL[:cut], REAL[cut:])]
        assert (numpy.array(parts[0] + parts[1]) == numpy.array(whole)).all()


def test_pickles_without_weights(embed):
    embed({"text": REAL})
    assert len(pickle.dumps(embed)) < 1000
    again = pickle.loads(pickle.dumps(embed))
    assert again.__dict__ == embed.__dict__ and again.target is None


def test_options_are_those_of_encode():
    normal = qkv.batches.Embed(ENCODER, normalize_embeddings=True, truncate_dim=5)({"text": REAL})["embedding"]
    assert (numpy.array(normal) == qkv.Embedder(ENCODER).encode(REAL, normalize_embeddings=True, truncate_dim=5)).all()


def test_a_model_is_read_once(embed, monkeypatch):
    opened = []
    monkeypatch.setattr(qkv.batches, "_models", {})
    monkeypatch.setattr(qkv.batches.Embed, "_open", lambda folder, weights, precision: opened.append((folder, weights)) or qkv.Embedder(folder))
    for _ in range(3):
        pickle.loads(pickle.dumps(embed))({"text": REAL})
    fewer = qkv.batches.Embed(ENCODER, weights="int8")
    for _ in range(2):
        pickle.loads(pickle.dumps(fewer))({"text": REAL})
    assert opened == [(ENCODER, "f32"), (ENCODER, "int8")]


@pytest.mark.parametrize("weights", ["bf16", "int8"])
def test_weights_in_fewer_bits(expected, weights):
    embed = qkv.batches.Embed(ENCODER, weights=weights)
    found = numpy.array(pickle.loads(pickle.dumps(embed))({"text": REAL})["embedding"], numpy.float32)
    assert (found == qkv.Embedder(ENCODER, weights=weights).encode(REAL)).all() and (found != expected).any()
    for cut in range(len(REAL) + 1):
        parts = [embed({"text": part})["embedding"] for part in (REAL[:cut], REAL[cut:])]
        assert (numpy.array(parts[0] + parts[1]) == found).all()


def test_what_is_refused(embed):
    with pytest.raises(TypeError, match="a batch must be"):
        embed(["text"])
    with pytest.raises(KeyError, match="text"):
        embed({"texts": REAL})
    with pytest.raises(TypeError, match="int"):
        embed({"text": ["a", 1]})
    other = qkv.batches.Embed(ENCODER, target="scalar")
    embed({"text": REAL})
    with pytest.raises(ValueError, match="already"):
        other({"text": REAL})


def run(code, given="", **environment):
    environment = {**os.environ, **environment}
    return subprocess.run([sys.executable, "-c", code], input=given, capture_output=True, text=True, env=environment)


def test_the_target_is_pinned():
    code = f"import qkv, qkv.batches; e = qkv.batches.Embed({ENCODER!r}, target=%r); e({{'text': ['a']}}); print(qkv.selected_target())"
    targets = run("import qkv\ntry: qkv.select_target('none')\nexcept ValueError as e: print(e)").stdout
    for name in ("avx2", "scalar", "emu128"):
        if name in targets:
            assert run(code % name).stdout.strip() == name
    refused = run(code % "avx9")
    assert refused.returncode == 1 and "ValueError" in refused.stderr and "avx9" in refused.stderr


def test_no_target_is_needed_within_a_class():
    code = "import pickle, sys, qkv.batches; e = pickle.loads(bytes.fromhex(sys.stdin.read())); print(e({'text': ['a']})['vector'])"
    make = f"import pickle, qkv.batches; print(pickle.dumps(qkv.batches.Embed({ENCODER!r}, into='vector')).hex())"
    targets = run("import qkv\ntry: qkv.select_target('none')\nexcept ValueError as e: print(e)").stdout
    fused = [name for name in ("avx512", "avx2", "neon") if name in targets]
    for name in fused:
        made = run(make, QKV_TARGET=name).stdout
        results = [run(code, made, QKV_TARGET=other) for other in fused]
        assert all(each.stdout == results[0].stdout != "" for each in results), results
        refused = run(code, made, QKV_TARGET="portable")
        assert refused.returncode == 1 and "portable" in refused.stderr and "with fused multiply-add" in refused.stderr


PARTS = [f"Text {i} {'word ' * (i % 7)}" if i % 5 else None for i in range(40)]


def alone():
    vectors, nulls = rows_of(qkv.batches.Embed(ENCODER)({"text": PARTS})["embedding"])
    assert nulls == [text is None for text in PARTS]
    return vectors


def test_datasets_on_two_processes():
    datasets = pytest.importorskip("datasets")
    data = datasets.Dataset.from_dict({"text": PARTS})
    embed = qkv.batches.Embed(ENCODER, threads=1)
    mapped = data.map(embed, batched=True, batch_size=7, num_proc=2, load_from_cache_file=False)
    assert (rows_of(mapped["embedding"])[0] == alone()).all()
    arrow = data.with_format("arrow").map(embed, batched=True, batch_size=7, load_from_cache_file=False)
    table = arrow.data.table.column("embedding")
    assert table.type.list_size == 12 and (rows_of(table.to_pylist())[0] == alone()).all()


def test_dask_on_two_workers():
    pytest.importorskip("dask.dataframe")
    distributed = pytest.importorskip("distributed")
    pandas = pytest.importorskip("pandas")
    import dask.dataframe

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster):
            frame = dask.dataframe.from_pandas(pandas.DataFrame({"text": PARTS}), npartitions=5)
            embed = qkv.batches.Embed(ENCODER)
            found = frame.map_partitions(embed, meta=embed(frame.head(0))).compute()
    assert (numpy.stack(found["embedding"].dropna().to_list()) == alone()).all()


def test_ray_on_two_workers():
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    pyarrow = pytest.importorskip("pyarrow")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        data = ray.data.from_arrow(pyarrow.table({"id": range(40), "text": PARTS})).repartition(4)
        embed = qkv.batches.Embed(ENCODER)
        rows = data.map_batches(embed, batch_format="pyarrow", batch_size=7).take_all()
    finally:
        ray.shutdown()
    rows.sort(key=lambda row: row["id"])
    assert (rows_of([row["embedding"] for row in rows])[0] == alone()).all()


def test_spark_on_two_workers(monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    session = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        frame = session.createDataFrame(list(enumerate(PARTS)), "id int, text string").repartition(4)
        embed = qkv.batches.Embed(ENCODER)
        rows = frame.mapInArrow(embed.each, "id int, text string, embedding array<float>").orderBy("id").collect()
    finally:
        session.stop()
    assert (rows_of([row.embedding for row in rows])[0] == alone()).all()
