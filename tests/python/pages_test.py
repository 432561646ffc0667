"""Every Python example of the documentation runs, with small models in place of those that a reader would name; the messages of
docs/troubleshooting.md are the program's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import qkv

ROOT = Path(__file__).resolve().parents[2]
ENCODER = str(ROOT / "tests" / "golden" / "encoders" / "roberta")
WRITER = str(ROOT / "tests" / "golden" / "language" / "gpt2")
FOLDERS = {"from_sentence_transformers.md": ENCODER, "from_ctranslate2.md": str(ROOT / "models" / "en-es")}
OWN = {
    "/path/to/all-MiniLM-L6-v2": ENCODER,
    "/path/to/SmolLM2-135M-Instruct": WRITER,
    "/path/to/ms-marco-MiniLM-L6-v2": str(ROOT / "tests" / "golden" / "rank"),
    "build/smollm2": WRITER,
}
NEEDS = ("torch", "transformers", "sentence_transformers", "ray", "pyspark")


def examples():
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/*.md"))]:
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)):
            yield pytest.param(code, FOLDERS.get(page.name), id=f"{page.name}-{number}")


@pytest.mark.parametrize("code, folder", [*examples()])
def test_example(code, folder, monkeypatch):
    for name in NEEDS:
        if re.search(rf"\b{name}\b", code.partition("\n\n")[0]):
            pytest.importorskip(name)
    for place, own in OWN.items():
        code = code.replace(f'"{place}"', repr(own))
    assert '"/path/to' not in code
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    exec(compile(code, "example", "exec"), {"FOLDER": folder})


def test_each_kind_of_page_has_examples():
    pages = {example.id.rpartition("-")[0] for example in examples()}
    assert {"README.md", "quickstart.md", "python.md", "generate.md", "corpus.md", "from_torch.md"} <= pages


MESSAGES = [
    ("embed --model tests/golden/encoders/roberta", b"\xe4\n", {}),
    ("embed --model tests/golden/encoders/roberta", b"long " * 100, {}),
    ("translate --model nothing hi", b"", {}),
    ("embed --model tests/golden/language/gpt2", b"", {}),
    ("translate --model models/en-es", "\u043f\u0440\u0438\u0432\u0435\u0442\nYou are a cat of the moon\n".encode(), {}),
    ("attend --query data/example/query.csv --key data/example/key.csv --value data/example/value.csv --out -"
     " --memory-limit 10", b"", {}),
    ("convert tests/golden/gguf/llama.gguf build", b"", {}),
    ("info", b"", {"QKV_TARGET": "neon"}),
]  # fmt: skip


def test_messages_are_those_of_the_program():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \|", page, re.M)
    said = ""
    for command, given, target in MESSAGES:
        environment = {**os.environ, **target}
        words = [sys.executable, "-m", "qkv", *command.split()]
        said += subprocess.run(words, cwd=ROOT, env=environment, input=given, capture_output=True).stderr.decode()
    x = numpy.ones((2, 3, 4))
    for call in (
        lambda: qkv.attention(x, x.astype("f"), x),
        lambda: qkv.attention(x[:, :, ::2], x, x),
        lambda: qkv.attention(x, x, x, mask=numpy.ones((3, 3))),
    ):
        with pytest.raises((TypeError, ValueError)) as refusal:
            call()
        said += str(refusal.value)
    assert len(rows) == 12
    for row in rows:
        assert row in said, row
