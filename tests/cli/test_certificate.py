"""``caribou certificate --html``: the page has what the files beside a run say, and its exit code tells what ``verify`` tells."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

import caribou as cb
from caribou.cli.certificate import PAGE
from caribou.model.state import METRICS
from certificate_support import certified, embeddings, plan_of
from cli_support import run

GRAPH = ("--dataset", "csbm:nodes=90,classes=3,features=4")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, quick_learning: None) -> Path:
    """A run at edge level that was charged, one at node level with published metrics, and a pair of keys."""
    folder = tmp_path_factory.mktemp("world")
    cb.Ledger(folder / "ledger.sqlite").set_budget("survey", cb.Budget(8, unit="edge"))
    noted = ("--ledger", folder / "ledger.sqlite", "--name", "survey", "--purpose", "monthly scores", "--person", "ada")
    done = run("train", "votes-edp", *GRAPH, "--epsilon", 2, "--out", folder / "edge", *noted, "--page")
    assert done.returncode == 0, done.stderr
    done = run("train", "mlp-dp", *GRAPH, "--publish-metrics", 2, "--out", folder / "node", "--json", "--page")
    assert done.returncode == 0, done.stderr
    (folder / "node.json").write_text(done.stdout)
    key = Ed25519PrivateKey.generate()
    (folder / "key.pem").touch(mode=0o600)
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "pub.pem").write_bytes(public)
    return folder


def page(*arguments: object, code: int = 0) -> str:
    target = Path(str(arguments[-1]))
    done = run("certificate", *arguments[:-1], "--html", target)
    assert done.returncode == code, done.stderr
    return target.read_text(encoding="utf-8")


def test_train_leaves_a_page_with_metrics_where_labels_are_public(world: Path) -> None:
    text = (world / "edge" / PAGE).read_text(encoding="utf-8")
    assert "Verified: epsilon = 2" in re.sub(r"</?span[^>]*>", "", text)  # a figure is kept whole by an element
    assert "monthly scores" in text
    assert "Epsilon spent over time" in text
    metrics = json.loads((world / "edge" / METRICS).read_text())["test_metrics"]
    assert f"{metrics['balanced_accuracy']:.3f}" in text
    assert len(text) < 1_000_000


def test_no_exact_metric_lies_beside_a_run_at_node_level(world: Path) -> None:
    assert not (world / "node" / METRICS).exists()
    text = (world / "node" / PAGE).read_text(encoding="utf-8")
    assert "Curator only" not in text
    assert "With noise, so they may leave" in text
    exact = json.loads((world / "node.json").read_text())["test_metrics"]
    assert repr(exact["brier"]) not in text
    # a number of its own, outside of the data of the charts, whose digits may hold any other three by chance
    shown = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(rf"(?<![\d.]){exact['brier']:.3f}(?!\d)", shown)


def test_exact_metrics_at_node_level_are_never_shown_and_others_are_refused(world: Path, tmp_path: Path) -> None:
    for unit in ("edge", "node"):
        shutil.copytree(world / unit, tmp_path / unit)
    shutil.copy(world / "edge" / METRICS, tmp_path / "node" / METRICS)
    before = page(world / "node", tmp_path / "before.html")
    assert page(tmp_path / "node", tmp_path / "after.html") == before
    record = json.loads((world / "edge" / METRICS).read_text())
    (tmp_path / "edge" / METRICS).write_text(json.dumps({**record, "certificate_id": "0" * 32}))
    refused = run("certificate", tmp_path / "edge", "--html", tmp_path / "q.html")
    assert (refused.returncode, (tmp_path / "q.html").exists()) == (2, False)
    assert "must be about the certificate beside it" in refused.stderr


def test_a_page_from_ledger_audit_and_words(world: Path, tmp_path: Path) -> None:
    claimed = {"epsilon": 2.0, "delta": 1e-5, "unit": "edge"}
    found = {"verdict": "consistent", "claimed": claimed, "confidence": 0.95, "epsilon_lower": 0.5, "reasons": []}
    (tmp_path / "audit.json").write_text(json.dumps({**found, "subject": "votes-edp"}))
    extras = (
        "--audit",
        tmp_path,
        "--ledger",
        world / "ledger.sqlite",
        "--owner",
        "the clinic",
        "--purpose",
        "research",
    )
    text = page(world / "edge", *extras, tmp_path / "p.html")
    assert "The evidence is consistent with the claim: no attack" in text
    assert '<code class="declared">the clinic</code>' in text
    assert '<code class="declared">research</code>' in text
    alone = page(world / "edge" / "certificate.json", tmp_path / "alone.html")
    assert "made without a ledger" in alone


def test_what_does_not_verify_gets_a_page_and_exit_code_3(tmp_path: Path) -> None:
    record = certified(embeddings()).to_dict()
    record["mechanisms"][0]["details"]["noise_std"] /= 2
    (tmp_path / "c.json").write_text(json.dumps(record))
    text = page(tmp_path / "c.json", tmp_path / "p.html", code=3)
    assert text.index("does not verify") < text.index("What was released")
    certified(plan_of("caribou-inf", {}, float("inf"))).save(tmp_path / "free.json")
    assert "NO PRIVACY" in page(tmp_path / "free.json", tmp_path / "p.html", code=3)
