"""Imports that wait: nothing is loaded before a name is used, and then the module is as if it had never waited."""

from __future__ import annotations

import sys
import threading
import types

import pytest

from caribou.errors import MissingExtra, needs_training
from caribou.machine import deferred
from caribou.machine.deferred import Deferred, deferred_imports, load_deferred

SOURCE = """
from caribou.machine.deferred import deferred_imports
with deferred_imports():
    import colorsys
    import xml.sax as sax
    from xml.sax import handler, saxutils
    from xml.sax.saxutils import XMLGenerator, escape
def used(text):
    return escape(text)
def is_one(value):
    return isinstance(value, XMLGenerator)
"""
LATE = ("colorsys", "xml.sax", "xml.sax.saxutils", "xml.sax.handler")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module that defers imports, in a process that has not made them."""
    for name in LATE:
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(deferred, "_WAITING", [])
    made = types.ModuleType("deferring")
    exec(SOURCE, made.__dict__)
    return made


def waiting(module: types.ModuleType) -> set[str]:
    return {name for name, value in vars(module).items() if type(value) is Deferred}


def test_nothing_is_loaded_before_a_name_is_used(module: types.ModuleType) -> None:
    assert waiting(module) == {"colorsys", "sax", "handler", "saxutils", "XMLGenerator", "escape"}
    assert not hasattr(module.handler, "__wrapped__")  # what looks at a module does not load what it defers
    assert not set(LATE) & set(sys.modules)
    assert module.used("<") == "&lt;"
    assert waiting(module) == set()
    assert module.saxutils.escape is module.escape


@pytest.mark.parametrize("use", ["is_one", "attribute of a module", "of another door"])
def test_every_first_use_loads(module: types.ModuleType, use: str) -> None:
    if use == "is_one":
        assert not module.is_one(3)
    elif use == "attribute of a module":
        assert module.saxutils.quoteattr("x") == '"x"'
    else:
        load_deferred()
        assert waiting(module) == set()
    assert "xml.sax.saxutils" in sys.modules


def test_other_modules_import_as_ever() -> None:
    other: dict[str, object] = {"__name__": "other"}
    found = []

    def elsewhere() -> None:
        exec("import colorsys", other)
        found.append(type(other["colorsys"]))

    with deferred_imports():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert found == [types.ModuleType]


def test_what_is_not_there_is_said_before_anything_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "_WAITING", [])
    namespace: dict[str, object] = {"__name__": "deferring"}
    text = "from caribou.machine.deferred import deferred_imports\nwith deferred_imports():\n    import torch_geometric"
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    exec(text, namespace)
    with pytest.raises(MissingExtra, match="torch_geometric"), needs_training("a fit"):
        load_deferred()


def test_what_cannot_be_loaded_is_found_every_time(module: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    deferred._WAITING.append(module.__dict__)
    monkeypatch.setitem(sys.modules, "xml.sax.saxutils", None)
    for _ in range(3):
        with pytest.raises(ImportError):
            load_deferred()
