"""The examples of docs/from_*.md run, and print nothing but what they may."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "from_torch.md": None,
    "from_bertviz.md": None,
    "from_sentence_transformers.md": ROOT / "tests" / "golden" / "encoders" / "roberta",
    "from_ctranslate2.md": ROOT / "models" / "en-es",
}
NEEDS = ("torch", "transformers", "sentence_transformers")


def examples():
    for page, folder in FOLDERS.items():
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for number, code in enumerate(re.findall(r"```python\n(.*?)```", text, re.S)):
            yield pytest.param(code, folder, id=f"{page}-{number}")


@pytest.mark.parametrize("code, folder", [*examples()])
def test_example(code, folder):
    for name in NEEDS:
        if re.search(rf"\b{name}\b", code.partition("\n\n")[0]):
            pytest.importorskip(name)
    exec(compile(code, "example", "exec"), {"FOLDER": None if folder is None else str(folder)})


def test_each_page_has_examples():
    assert len(list(examples())) >= 8
