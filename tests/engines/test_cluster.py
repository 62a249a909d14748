"""What starts and stops Ray, and a map that ends whoever is lost; how it does on a real cluster is in test_ray.py."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from caribou.engines import cluster as module
from caribou.engines.cluster import Cluster
from caribou.errors import RunError


def test_what_ray_writes_lies_in_a_private_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its spilled objects are the graph, and its logs tell their sizes."""
    seen = {}

    class NoRay:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**options: object) -> None:
            seen.update(options, mode=stat.S_IMODE(Path(str(options["_temp_dir"])).stat().st_mode))
            raise RunError("no Ray")

    monkeypatch.setattr(module, "_ray", NoRay)
    with pytest.raises(RunError, match="no Ray"):
        Cluster(1)
    assert seen["mode"] == 0o700
    assert seen["address"] == "local"
    assert not Path(str(seen["_temp_dir"])).exists()


def test_ray_is_quiet_but_for_warnings_and_errors(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Talking:
        @staticmethod
        def is_initialized() -> bool:
            return False

        @staticmethod
        def init(**_: object) -> None:
            logging.getLogger("ray._private.worker").info("started")
            tokens = logging.getLogger("ray._private.authentication.authentication_token_setup")
            tokens.warning("Token authentication is enabled for this Ray cluster.")
            tokens.warning("Token authentication is disabled for this Ray cluster.")
            logging.getLogger("ray._private.worker").error("broken")
            raise RunError("no Ray")

    monkeypatch.setattr(module, "_ray", Talking)
    monkeypatch.setattr(logging.getLogger("ray"), "propagate", True)
    level = logging.getLogger("ray").level
    with pytest.raises(RunError, match="no Ray"):
        Cluster(1)
    assert {record.message for record in caplog.records} == {
        "Token authentication is disabled for this Ray cluster.",
        "broken",
    }
    assert logging.getLogger("ray").level == level, "the caller's own Ray may talk again"
