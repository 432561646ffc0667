"""Every Python example of the documentation runs, with small models in place of those that a reader would name."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENCODER = str(ROOT / "tests" / "golden" / "encoders" / "roberta")
WRITER = str(ROOT / "tests" / "golden" / "language" / "gpt2")
FOLDERS = {"from_sentence_transformers.md": ENCODER, "from_ctranslate2.md": str(ROOT / "models" / "en-es")}
OWN = {
    "/path/to/all-MiniLM-L6-v2": ENCODER,
    "/path/to/SmolLM2-135M-Instruct": WRITER,
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
