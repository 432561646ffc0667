"""Fingerprints and certificates: those of the program, of what users hold."""

import json
import subprocess
import sys

import pytest
import qkv
import qkv.arithmetic
from golden import ROOT

GOLDEN = ROOT / "tests" / "golden"
ENCODER = str(GOLDEN / "encoders/roberta")
FOLDERS = {
    ENCODER: qkv.Embedder,
    str(GOLDEN / "translate/bart_text"): qkv.Translator,
    str(GOLDEN / "language/gpt2"): qkv.Generator,
    str(GOLDEN / "vit/vit_bare"): qkv.pictures.Vit,
}


def printed(*arguments):
    command = [sys.executable, "-m", "qkv", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("folder", FOLDERS)
def test_fingerprints_are_those_of_the_program(folder):
    fingerprint = FOLDERS[folder](folder).fingerprint()
    assert json.loads(printed("info", "--json", "--model", folder))["fingerprint"] == fingerprint
    assert qkv.arithmetic.certificate(folder).startswith(fingerprint + ":")


def test_what_changes_results_changes_it():
    embedder = qkv.Embedder(ENCODER)
    own = embedder.fingerprint()
    assert qkv.Embedder(ENCODER, weights="int8").fingerprint() != own
    embedder.max_seq_length = 5
    assert embedder.fingerprint() != own
    embedder.max_seq_length = None
    assert embedder.fingerprint() == own


def test_certify_and_difference():
    own = qkv.arithmetic.certificate(ENCODER)
    assert all(case.holds for case in qkv.arithmetic.certify()) == ("-fused-" in own)
    assert qkv.arithmetic.difference(own, own) == ""
    narrow = qkv.arithmetic.certificate(ENCODER, weights="bf16")
    assert qkv.arithmetic.difference(own, narrow) == "how weights are kept: f32 here, bf16 expected"
    with pytest.raises(ValueError, match="is not a certificate"):
        qkv.arithmetic.difference(own, "qkv1")
