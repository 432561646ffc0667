"""What commands write as JSON is what docs/commands.schema.json and docs/explain.schema.json say, by another's validator."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

jsonschema = pytest.importorskip("jsonschema")
referencing = pytest.importorskip("referencing")

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = "tests/golden"
SCHEMAS = {name: json.loads((ROOT / "docs" / name).read_text()) for name in ("commands.schema.json", "explain.schema.json")}
REGISTRY = referencing.Registry().with_resources(
    (name, referencing.Resource.from_contents(schema)) for name, schema in SCHEMAS.items()
)
ARRAYS = "--query data/example/query.csv --key data/example/key.csv --value data/example/value.csv"

# Definition (of explain.schema.json where it has a colon), command without --json, standard input.
WRITTEN = [
    ("attend", f"attend {ARRAYS} --causal top-left --out FOLDER/out.npy --weights -", ""),
    ("plan", "plan --heads 2 --q-len 40 --k-len 40", ""),
    ("plan", "plan --q-len 40 --k-len 40 --causal top-left --pass backward", ""),
    ("embed", f"embed --model {GOLDEN}/encoders/roberta", "a text\n" + "long " * 100 + "\n"),
    ("translate", "translate", "You are welcome.\n" + "The book is there. " * 90 + "\n"),
    ("translate", "translate --nbest 2 --beams 2 --no-split", "You are welcome.\n" + "the book " * 200 + "\n"),
    ("translate", "translate --ids", "5 6 7 0\n"),
    ("generate", f"generate --model {GOLDEN}/language/gpt2 --max-new-tokens 3 --heads 0.1", "The cat\n"),
    ("generate", f"generate --model {GOLDEN}/language/llama --max-new-tokens 3 --ids --beams 3 --nbest 2", "1 2 3\n"),
    ("generate_score", f"generate --model {GOLDEN}/language/gpt2 --score data/example/query.csv", ""),
    ("rank", f"rank --model {GOLDEN}/rank --query mat", "the cat\n" + "the mat " * 20 + "\n"),
    ("classify", f"classify --model {GOLDEN}/rank cat", ""),
    ("classify", "classify --model models/digits --image data/example/seven.png", ""),
    ("classify_data", "classify --model models/digits --data FOLDER/labelled.csv --largest 16", ""),
    ("fill", f"fill --model {GOLDEN}/fill --text [MASK]", ""),
    ("tag", f"tag --model {GOLDEN}/tags", "The cat sat.\n" + "the mat " * 60 + "\n"),
    ("answer", f"answer --model {GOLDEN}/answers --question Who? --top 2 --impossible", "The cat sat.\n"),
    ("info", "info --model models/digits", ""),
    ("certify", f"certify --model {GOLDEN}/language/llama --ways 2", ""),
    ("bench", "bench attention --batch 1 --heads 1 --q-len 32 --k-len 32 --head-dim 8", ""),
    ("compare", "compare --quick --tasks recall --models cnn --out FOLDER/compared", ""),
    ("explain:steps", "explain", ""),
    ("explain:heads", f"explain --model {GOLDEN}/encoders/roberta --text cat", ""),
    ("explain:heads", "translate --explain hello", ""),
    ("explain:heads", f"generate --model {GOLDEN}/language/gpt2 --max-new-tokens 3 --explain cat", ""),
    ("explain:head", "explain --text hello --attention encoder --layer 0 --head 1", ""),
    ("explain:token", "explain --text hello --token 0", ""),
    ("explain:token", f"rank --model {GOLDEN}/rank --query mat --explain", "the cat\n"),
    ("explain:token", f"fill --model {GOLDEN}/fill --text [MASK] --explain", ""),
    ("explain:picture", "explain --model models/digits --image data/example/seven.png", ""),
]


def qkv(*words, **options):
    environment = {**os.environ, "QKV_MODEL": str(ROOT / "models" / "en-es")}
    done = subprocess.run(
        [sys.executable, "-m", "qkv", *words], cwd=ROOT, env=environment, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def validator(definition):
    schema, name = ("explain.schema.json", definition[8:]) if ":" in definition else ("commands.schema.json", definition)
    return jsonschema.Draft202012Validator({"$ref": f"{schema}#/$defs/{name}"}, registry=REGISTRY)


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_of_draft_2020_12(name):
    assert SCHEMAS[name]["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("definition, command, given", WRITTEN)
def test_what_is_written(definition, command, given, tmp_path):
    (tmp_path / "labelled.csv").write_text("".join(f"{label}{',0' * 64}\n" for label in range(3)))
    words = command.replace("FOLDER", str(tmp_path)).split()
    text = qkv(*words, *([] if definition == "attend" else ["--json"]), input=given)
    # A line each, or one object over several lines.
    found = [json.loads(text)] if text.startswith(("{\n", "[")) else [json.loads(line) for line in text.splitlines()]
    assert found
    for one in found:
        validator(definition).validate(one)
        if isinstance(one, dict):
            assert not validator(definition).is_valid({**one, "unknown": 1})
            assert not validator(definition).is_valid({})


def test_each_command_with_json_and_each_definition_is_written(tmp_path):
    qkv("manual", "--out", str(tmp_path / "manual"))
    pages = (tmp_path / "manual").glob("qkv-*.1")
    with_json = {page.stem.split("-")[1] for page in pages if re.search(r"^\\fB\\-\\-json", page.read_text(), re.M)}
    commands = {command.split()[0] for _, command, _ in WRITTEN}
    assert with_json == commands - {"attend"}
    parts = {"number", "array", "translation", "sentence", "points", "growth"}
    definitions = {definition for definition, _, _ in WRITTEN if ":" not in definition}
    assert definitions == SCHEMAS["commands.schema.json"]["$defs"].keys() - parts


def test_the_page_lists_every_member():
    page = (ROOT / "docs" / "json.md").read_text()

    def members(schema):
        for name, part in schema.get("properties", {}).items():
            yield name
            yield from members(part)
        for part in schema.get("anyOf", [schema["items"]] if "items" in schema else []):
            yield from members(part)

    for definition in SCHEMAS["commands.schema.json"]["$defs"].values():
        for name in members(definition):
            assert f"`{name}`" in page, name
