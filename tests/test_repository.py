"""What is under version control: nothing large but records, and nothing that a command builds from something else."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
WRITTEN = {".py", ".c", ".md", ".toml", ".yml", ".html", ".css"}
"""Endings of what people write; the rest is data, pictures and archives."""


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no git repository: the list of files is not known")
    return [name for name in done.stdout.split("\0") if (ROOT / name).is_file()]


def test_nothing_is_large_but_records(tracked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("large_files", ROOT / "scripts" / "hooks" / "large_files.py")
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    monkeypatch.chdir(ROOT)
    assert not hook.too_large(tracked)
    others = [name for name in tracked if not name.startswith(hook.RECORDS)]
    assert sum((ROOT / name).stat().st_size for name in others if Path(name).suffix not in WRITTEN) < 700_000
    assert sum((ROOT / name).stat().st_size for name in others) < 7_000_000


def test_pictures_are_those_that_a_page_shows(tracked: list[str]) -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    pictures = [name for name in tracked if name.endswith((".png", ".svg", ".pdf", ".jpg"))]
    assert not [name for name in pictures if Path(name).name not in text]


def pinned(text: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w.-]+)==([^\s\\]+)", text, flags=re.MULTILINE))


def test_every_pinned_package_but_torch_has_the_hashes_of_its_files() -> None:
    versions = pinned((ROOT / "constraints.txt").read_text(encoding="utf-8"))
    parts = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "hashes").glob("*.txt")}
    found = [item for text in parts.values() for item in pinned(text).items()]
    assert set(parts) == {"core", "train", "work"}
    assert sorted(found) == sorted(item for item in versions.items() if item[0] != "torch"), "run: make hashes"
    for text in parts.values():
        assert not re.search(r"==\S+$", text, flags=re.MULTILINE), "every package has at least one hash"
    assert {"numpy", "setuptools"} <= pinned(parts["core"]).keys()
    assert "scikit-learn" in pinned(parts["train"])


def test_the_bill_of_materials_names_what_is_installed() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "sbom.py"], capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "caribou-gnn"
    named = {each["bom-ref"] for each in bill["components"]} | {bill["metadata"]["component"]["bom-ref"]}
    assert f"pkg:pypi/numpy@{version('numpy')}" in named
    used = {one for each in bill["dependencies"] for one in (each["ref"], *each["dependsOn"])}
    assert used == named


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ({"vulns": []}, 0, "1 of 1 packages looked up, 0 vulnerabilities known"),
        ({"vulns": [{"id": "X-1"}]}, 1, "numpy 2.0: X-1"),
        ({"skip_reason": "not found"}, 2, "it needs a network"),
    ],
)
def test_what_cannot_be_looked_up_is_not_called_safe(
    answer: dict[str, Any], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    spec = importlib.util.spec_from_file_location("vulnerabilities", ROOT / "scripts" / "vulnerabilities.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    (tmp_path / "constraints.txt").write_text("numpy==2.0\n")
    monkeypatch.setattr(script, "FILE", tmp_path / "constraints.txt")
    document = json.dumps({"dependencies": [{"name": "numpy", "version": "2.0", **answer}]})
    program = tmp_path / "pip-audit"
    program.write_text(f"#!/bin/sh\necho '{document}'\n")
    program.chmod(0o755)
    assert script.main(str(program)) == code
    assert said in "".join(capsys.readouterr())


def test_records_under_version_control_are_packed(tracked: list[str]) -> None:
    assert not [name for name in tracked if name.endswith(".jsonl")], "run: make pack-records"
