"""What the package says of itself: stubs, types, and the examples of its docstrings."""

import ast
import dataclasses
import doctest
import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import qkv

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "qkv"


def python(*words):
    return subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)


def test_the_stub_has_what_the_extension_has():
    """The extension takes signatures and docstrings from the stub: what it has and the stub lacks does not load."""
    stub = {}
    for node in ast.parse((PACKAGE / "_qkv.pyi").read_text()).body:
        if isinstance(node, ast.ClassDef):
            stub[node.name] = {method.name for method in node.body if isinstance(method, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            stub[node.name] = set()
    found = {name: value for name, value in vars(qkv._qkv).items() if not name.startswith("_")}
    assert found.keys() == stub.keys()
    for name, methods in stub.items():
        assert methods <= vars(found[name]).keys() if methods else callable(found[name])
    assert qkv.plan.__doc__.startswith("plan(query: Array, key: Array, value: Array, **options")


def test_types_are_strict():
    pytest.importorskip("mypy")
    found = python("-m", "mypy", "--cache-dir", "/dev/null")
    assert found.returncode == 0, found.stdout


# What results are, asked of the checkers.
TYPED = """
import numpy, qkv, qkv.lab, qkv.layers, qkv.text
from numpy.typing import NDArray
from qkv.generator import GeneratedText
from qkv.layers import Saved
from qkv.translator import Translation
from typing_extensions import TypeAlias, assert_type

Floats: TypeAlias = NDArray[numpy.float32]
x: Floats = numpy.zeros((1, 2, 4), "f")

heads = qkv.layers.MultiHeadAttention(model_dim=4)
assert_type(heads(x), Floats)
assert_type(heads(x, need_weights=True, save=True), tuple[tuple[Floats, Floats], Saved])
assert_type(qkv.layers.Encoder(model_dim=4, ff_dim=4)(x, mask="causal", save=True), tuple[Floats, Saved])
assert_type(qkv.lab.Lstm(input_size=4, hidden=2)(x, dropout=0.0), tuple[Floats, Floats, Floats])
assert_type(qkv.lab.Conv1d(in_channels=4, out_channels=1)(x), Floats)

def models(folder: str) -> None:
    embedder, translator, generator = qkv.Embedder(folder), qkv.Translator(folder), qkv.Generator(folder)
    assert_type(embedder.encode(["a"]), Floats)
    assert_type(embedder.encode_query("a", normalize_embeddings=True), Floats)
    assert_type(embedder.encode(["a"], output_value="token_embeddings"), list[Floats])
    assert_type(translator.translate("a"), Translation)
    assert_type(translator.translate(["a"], beams=4), list[Translation])
    assert_type(translator.translate(["a"], nbest=2), list[list[Translation]])
    assert_type(generator.generate("a", greedy=True), GeneratedText)
    assert_type(generator.generate([[1]], nbest=2), list[list[GeneratedText]])
    assert_type(qkv.text.Tagger(folder).tag("a")[0].label, str)
"""


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_snippets_of_the_documentation_have_types(checker, tmp_path):
    """What a page shows is what an editor accepts, too; libraries that are not installed have no types there."""
    pytest.importorskip(checker)
    if python("-m", checker, "--version").returncode != 0:
        pytest.skip(f"{checker} does not start: pyright fetches what it runs when it is first called")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for page in pages:
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.S)):
            (tmp_path / f"{page.stem}_{number}.py").write_text(f'FOLDER: str = ""\n{code}', encoding="utf-8")
    assert len(list(tmp_path.iterdir())) > 10
    (tmp_path / "wrong.py").write_text('import qkv\n\nqkv.Mask.window("a")\nqkv.plan(1, 2, 3)\nqkv.Embedder("", weights="int4")\n')
    (tmp_path / "typed.py").write_text(TYPED)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nmypy_path = {PACKAGE.parent}\nignore_missing_imports = True\nstrict = True\nfollow_imports = silent\n")
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(PACKAGE.parent)], "reportMissingImports": False, "reportMissingModuleSource": False})
    )
    words = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", "/dev/null"] if checker == "mypy" else ["--pythonpath", sys.executable, "-p"]
    found = python("-m", checker, *words, str(tmp_path)).stdout
    errors = [line for line in found.splitlines() if re.search(r":\d+.* error:|\d - error:", line)]
    assert {*(re.search(r"(\w+)\.py", line).group(1) for line in errors)} == {"wrong"}, found
    assert len(errors) >= 4, found


def test_statistics_and_masks_are_those_of_the_library():
    """qkv.options says what there is, the extension knows it: each word of one is a word of the other."""
    from qkv.options import AttentionOptions, StatsOptions
    from qkv.results import AttentionStats

    names = [field.name for field in dataclasses.fields(AttentionStats)]
    asked = StatsOptions.__annotations__.keys() - AttentionOptions.__annotations__.keys()
    assert {*names} - {"out", "log_sum_exp", "top_weights"} == asked
    x, rows = numpy.zeros((1, 2, 4, 3), "f"), numpy.zeros((1, 3), "i8")
    given = {"top_keys": 2, "block_weights": (2, 2), "row_weights": rows}
    stats = qkv.attention_stats(x, x, x, **{name: given.get(name, True) for name in asked})
    assert [name for name in names if getattr(stats, name) is None] == []
    program = python("-m", "qkv", "attend", "--help").stdout
    for name in ("window", "dilated", "chunks", "prefix", "lengths", "documents"):
        assert f"--{name}" in program and hasattr(qkv.Mask, name)


def test_licences_of_what_is_compiled_in():
    texts = {text.name: text.read_text() for text in (ROOT / "third_party" / "licenses").iterdir()}
    versions = (ROOT / "third_party" / "versions").read_text().splitlines()
    named = {line.split()[0] for line in versions if line.endswith(".dsc")}
    of_page = json.loads((ROOT / "web" / "package.json").read_text())["dependencies"]
    of_engine = {"libcxx", "wasi-libc", "cloudlibc", "musl"}
    assert set(texts) == (named - {"hwy-wasm"}) | set(of_page) | of_engine | {"nanobind", "ijg"}
    try:
        wheel = importlib.metadata.distribution("qkv")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("imported from a build folder")
    listed = [Path(name) for name in wheel.metadata.get_all("License-File")]
    carried = {path.name: path.read_text() for path in wheel.files if "licenses" in path.parts}
    assert carried == texts | {"LICENSE": (ROOT / "LICENSE").read_text()}
    assert sorted(path.name for path in listed) == sorted(carried)


def documented():
    """Names and docstrings of what the package gives, with the methods of its classes."""
    for name in qkv.__all__:
        value = getattr(qkv, name)
        yield name, value.__doc__
        if isinstance(value, type):
            for member, method in vars(value).items():
                if not member.startswith("_"):
                    yield f"{name}.{member}", method.__doc__
    yield "qkv", qkv.__doc__


def test_what_is_listed_is_public():
    assert {*dir(qkv)} == {*qkv.__all__, "lab", "layers", "pictures", "text"}
    assert all(getattr(qkv, name) is not None for name in dir(qkv))


def test_everything_has_a_docstring():
    missing = [name for name, text in documented() if not text and name != "__version__"]
    assert missing == []


@pytest.mark.parametrize("name, text", [each for each in documented() if each[1] and ">>>" in each[1]])
def test_examples_of_docstrings(name, text, monkeypatch):
    monkeypatch.chdir(ROOT)
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said = []
    failures, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
    assert failures == 0, "".join(said)
