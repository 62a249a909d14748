"""``caribou doctor``: what the installation is made of, and that its noise is noise."""

from __future__ import annotations

import json

import numpy as np
import pytest

from caribou.cli.doctor import PACKAGES, diagnose
from caribou.mechanisms.noise_source import NoiseSource
from cli_support import run


def test_the_report_as_json_and_as_a_table() -> None:
    report = json.loads(run("doctor", "--json").stdout)
    assert report["versions"]["torch"].startswith("2.")
    assert set(report["versions"]) == {*PACKAGES, "sqlite"}
    assert report["noise"]["self-test"] == "ok"
    assert report["cores"]["usable"] >= 1
    assert "self-test" in run("doctor").stdout


@pytest.mark.parametrize("wrong", [np.zeros, np.ones])
def test_noise_that_is_none_is_said(wrong, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseSource, "gaussian", lambda self, shape, *, std: wrong(shape))
    assert diagnose()["noise"]["self-test"] == "FAILED"
