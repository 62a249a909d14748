"""The table of methods: every entry can be made, names are found by family and unit, and what does not fit is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import caribou as cb
from caribou.errors import InputError
from caribou.methods import FAMILIES, METHODS, method_info, resolve
from caribou.methods.catalogue import OWN_METHODS, register, require_unit
from caribou.privacy.budget import Budget, PrivacyUnit


def test_every_entry_is_a_frozen_record_of_its_unit() -> None:
    """What budgets it refuses: test_contract."""
    for name, info in METHODS.items():
        method = info.create()
        assert dataclasses.is_dataclass(method)
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(method, dataclasses.fields(method)[0].name, 1)  # type: ignore[arg-type]
        assert info.unit is (PrivacyUnit.NODE if name.endswith(("-ndp", "mlp-dp")) else PrivacyUnit.EDGE)
        assert info.private is not name.endswith("-inf")


def test_unknown_names_are_listed() -> None:
    with pytest.raises(InputError, match=r"method must be one of caribou-edp, .*, mlp, votes, .*progap, got 'gcn'"):
        method_info("gcn")
    with pytest.raises(InputError, match=r"setting must be one of metric, class_weight, hidden, got depth, width"):
        method_info("mlp").create(width=3, depth=2)
    require_unit(Budget(1.0), PrivacyUnit.EDGE, "x")


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_and_a_unit_are_a_method(family: str) -> None:
    members = {info.unit: name for name, info in METHODS.items() if info.family is FAMILIES[family] and info.private}
    for unit in PrivacyUnit:
        if unit in members:
            assert (
                resolve(family, unit.value) == resolve(members[unit], unit) == resolve(members[unit]) == members[unit]
            )
            assert cb.Model(family, Budget(4.0, unit=unit)).method == members[unit]
        else:
            with pytest.raises(InputError, match=f"unit must be edge for {family}-edp, got node"):
                resolve(family, unit)
    assert METHODS[resolve(family)].unit is PrivacyUnit.EDGE
    yardsticks = {name for name, info in METHODS.items() if not info.private}
    assert resolve(family) not in yardsticks


def test_a_full_name_decides_its_unit() -> None:
    with pytest.raises(InputError, match="unit must be edge for votes-edp, got node"):
        resolve("votes-edp", "node")
    with pytest.raises(InputError, match="unit must be"):
        resolve("votes", "person")
    assert resolve("mlp") == "mlp", "a family and the full name of its method at edge level"


def test_methods_of_ones_own_are_checked_where_they_are_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from caribou.methods.mlp import Mlp

    with pytest.raises(InputError, match="name must be new, got 'mlp', which is a method of the library"):
        register("mlp", Mlp, unit="edge")
    with pytest.raises(InputError, match="name must be new, got 'votes', which is a method of the library"):
        register("votes", Mlp, unit="edge")
    with pytest.raises(InputError, match="name must be letters, digits and hyphens"):
        register("my method", Mlp, unit="edge")
    with pytest.raises(InputError, match="method must be a dataclass with settings, plan, fit, predict"):
        register("nothing", object, unit="edge")
    with pytest.raises(InputError, match="unit must be"):
        register("my-mlp", Mlp, unit="person")
    broken = tmp_path / "broken_method.py"
    broken.write_text("import nothing_like_this\n")
    monkeypatch.setenv(OWN_METHODS, str(broken))
    with pytest.raises(InputError, match=r"broken_method\.py cannot be imported: ModuleNotFoundError"):
        method_info("unheard-of")
    monkeypatch.setenv(OWN_METHODS, str(tmp_path / "missing.py"))
    with pytest.raises(InputError, match="methods must name Python files"):
        method_info("unheard-of")
