"""``caribou verify`` and ``caribou certificate --sign``: what people and programs see."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from caribou.mechanisms.noise_source import NoiseSource
from caribou.model.state import ModelState, read_state, write_state
from caribou.privacy.budget import Budget
from caribou.privacy.verify import FORGERY
from certificate_support import certificates, embeddings
from cli_support import caribou, refusal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("CARIBOU_KEY_PASSPHRASE", raising=False)
    key = Ed25519PrivateKey.generate()
    Path("key.pem").touch(mode=0o600)
    Path("key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path("pub.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    certificates()["embeddings, edge"].save("c.json")
    return tmp_path


def document(*arguments: str, code: int = 0) -> dict[str, Any]:
    return caribou("verify", *arguments, "--json", code=code).document


def run_folder() -> Path:
    made = certificates()["votes-edp"]
    saved = ModelState(
        method="votes-edp",
        settings={},
        budget=Budget(made.epsilon, made.delta, made.unit),
        certificate=made,
        weights={"w": np.zeros(2)},
        released={"r": np.zeros(2)},
        nodes=80,
        columns=32,
        classes=("a", "b"),
    )
    return write_state(saved, "run")


# -- without a key ------------------------------------------------------------------------------------------------------


def test_what_people_see() -> None:
    output = caribou("verify", "c.json").stdout
    recomputed, _, declared = output.partition("declared by the curator")
    assert "perturbed message passing: figures" in recomputed
    assert "epsilon spent" in recomputed
    for words in ("assumption: randomness", "sizes and settings", "words of the owner", "number, time and versions"):
        assert words in declared
    assert "verified: private, epsilon = 4, delta = 1e-05 at edge level" in declared
    assert output.splitlines()[-1] == f"{FORGERY}: --key PUB checks one"


def test_what_programs_see() -> None:
    found = document("c.json")
    assert (found["verified"], found["signature"], found["signer"]) == (True, "not checked", None)
    assert (found["file"], found["status"], found["epsilon"]) == ("c.json", "private", 4.0)
    assert found["epsilon_pld"] == pytest.approx(4.0, abs=2e-3)
    assert found["epsilon_rdp"] > 4.0
    assert set(found["checks"][0]) == {"name", "passed", "detail", "declared", "fields"}
    assert any(check["declared"] and "public_parameters.start" in check["fields"] for check in found["checks"])


def test_what_fails_is_named() -> None:
    record = json.loads(Path("c.json").read_text())
    record["mechanisms"][0]["details"]["kappa"] /= 2
    Path("c.json").write_text(json.dumps(record))
    output = caribou("verify", "c.json", code=3).stdout
    assert "FAILS" in output
    assert "kappa" in output
    assert "NOT VERIFIED: this certificate guarantees nothing" in output
    found = document("c.json", code=3)
    assert (found["verified"], found["epsilon_pld"]) == (False, None)


def test_void_and_no_privacy_have_exit_code_3() -> None:
    embeddings().certificate(NoiseSource.seeded(1)).save("void.json")
    assert "subtract the noise" in caribou("verify", "void.json", code=3).stdout
    certificates()["caribou-inf"].save("free.json")
    found = document("free.json", code=3)
    assert (found["status"], found["epsilon"], found["verified"]) == ("no privacy", "inf", False)


def test_words_of_the_file_are_not_markup() -> None:
    record = json.loads(Path("c.json").read_text())
    record["mechanisms"][0]["name"] = "[/bold] [green]ok[/green]"
    record["released"] = ["[red]X"]
    Path("c.json").write_text(json.dumps(record))
    assert "[/bold] [green]ok[/green]: figures" in caribou("verify", "c.json", code=3).stdout
    record["mechanisms"][0]["name"] = "x\n\x1b[32mverified"
    Path("c.json").write_text(json.dumps(record))
    refusal("verify", "c.json")


# -- with a key ---------------------------------------------------------------------------------------------------------


def test_a_signed_certificate() -> None:
    before = Path("c.json").read_bytes()
    line = caribou("certificate", "c.json", "--sign", "key.pem").stdout
    assert line.startswith("signed c.json as ed25519:")
    assert "c.json.sig" in line
    assert Path("c.json").read_bytes() == before
    output = caribou("verify", "c.json", "--key", "pub.pem").stdout
    signer = document("c.json", "--key", "pub.pem")["signer"]
    assert f"signed by {signer}" in output
    assert FORGERY not in output
    assert document("c.json", "--key", "pub.pem")["signature"] == "valid"
    Path("c.json.sig").rename("elsewhere.sig")
    assert document("c.json", "--key", "pub.pem", "--signature", "elsewhere.sig")["verified"] is True


def test_other_arrays_under_a_signed_certificate_are_found() -> None:
    """The record of a run, which holds the digests of its arrays, is signed, too: nobody can put others in their place."""
    caribou("train", "mlp-dp", "--dataset", "csbm:nodes=60", "--epsilon", "2", "--out", "signed-run")
    run = Path("signed-run")
    caribou("certificate", str(run), "--sign", "key.pem")
    assert document(str(run), "--key", "pub.pem")["signature"] == "valid"
    weights, record = run / "weights.safetensors", run / "run.json"
    changed = bytearray(weights.read_bytes())
    changed[-1] ^= 1
    weights.write_bytes(bytes(changed))
    listed = json.loads(record.read_text())
    listed["files"][weights.name] = hashlib.sha256(bytes(changed)).hexdigest()
    record.write_text(json.dumps(listed))
    caribou("verify", str(run))  # without a key a consistent forgery cannot be told
    assert document(str(run), "--key", "pub.pem", code=3)["signature"] == "invalid"
    (run / "run.json.sig").unlink()
    assert document(str(run), "--key", "pub.pem", code=3)["signature"] == "missing"


def test_a_run_is_signed_and_still_read() -> None:
    run = run_folder()
    before = sorted(os.listdir(run))
    caribou("certificate", str(run), "--sign", "key.pem")
    assert sorted({*os.listdir(run)} - {*before}) == ["certificate.json.sig", "run.json.sig"]
    assert read_state(run).certificate.status == "private"
    assert document(str(run), "--key", "pub.pem")["signature"] == "valid"
    assert document(str(run / "certificate.json"), "--key", "pub.pem")["signature"] == "valid"
    Path(run / "certificate.json").write_text(Path("c.json").read_text())
    refusal("verify", str(run), "--key", "pub.pem")


def test_only_what_verifies_is_signed() -> None:
    record = json.loads(Path("c.json").read_text())
    record["epsilon_spent"] /= 2
    Path("c.json").write_text(json.dumps(record))
    error = refusal("certificate", "c.json", "--sign", "key.pem")
    assert "must verify to be signed" in error
    embeddings().certificate(NoiseSource.seeded(1)).save("void.json")
    assert "must verify to be signed" in refusal("certificate", "void.json", "--sign", "key.pem")
    assert not list(Path().glob("*.sig"))
    certificates()["caribou-inf"].save("free.json")  # it claims nothing
    caribou("certificate", "free.json", "--sign", "key.pem")
