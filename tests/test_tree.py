"""The tree is the pipeline: imports point one way, noise has one home, and planning stays light."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import caribou

SOURCE = Path(caribou.__file__).parent

# From the bottom up. A module may import from its own level or below, never from above.
LEVELS = [
    {"caribou", "caribou.errors", "caribou._validate", "caribou._files", "caribou.memory", "caribou.randomness"},
    {"caribou.graph", "caribou.privacy", "caribou.engines.kernels"},
    {"caribou.datasets"},
    {"caribou.layers", "caribou.mechanisms"},
    {"caribou.release"},
    {"caribou.engines", "caribou.models"},
    {"caribou.methods", "caribou.saved_model"},
    {"caribou.estimators", "caribou.tuning"},
    {"caribou.audit"},
    {"caribou.experiments"},
    {"caribou.cli"},
]
PRIVACY_MAY_IMPORT = {"numpy", "scipy", "dp_accounting", "cryptography", "caribou"} | set(sys.stdlib_module_names)


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("caribou", *path.relative_to(SOURCE).with_suffix("").parts)
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(tree: ast.Module, include_nested: bool = True) -> set[str]:
    nodes = ast.walk(tree) if include_nested else iter(tree.body)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            names.add("relative import")
    return names


def level(module: str) -> int:
    for index, group in enumerate(LEVELS):
        if any(module == name or (name != "caribou" and module.startswith(name + ".")) for name in group):
            return index
    raise AssertionError(f"{module} has no place in the tree; add it to LEVELS")


def test_imports_point_one_way() -> None:
    for name, tree in modules().items():
        if name == "caribou":
            continue  # the list of public names
        assert "relative import" not in imports(tree), name
        for imported in imports(tree):
            if imported.startswith("caribou.") and not imported.endswith(".__version__"):
                assert level(imported) <= level(name), f"{name} imports upward: {imported}"


def test_privacy_sees_numbers_only() -> None:
    for name, tree in modules().items():
        if name.startswith("caribou.privacy"):
            roots = {imported.split(".")[0] for imported in imports(tree)}
            assert roots <= PRIVACY_MAY_IMPORT, f"{name} imports {roots - PRIVACY_MAY_IMPORT}"
            inner = {i for i in imports(tree) if i.startswith("caribou.")}
            allowed = ("caribou.privacy", "caribou._validate", "caribou._files", "caribou.errors")
            assert all(i.startswith(allowed) for i in inner), f"{name} imports {inner}"


def calls(tree: ast.Module) -> set[str]:
    """Names of called methods, except those of a noise source or one of its streams."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.lstrip("_") not in ("noise", "stream", "coins"):
                found.add(node.func.attr)
    return found


def test_noise_is_drawn_in_one_file() -> None:
    """No module on the way from a private graph to a release draws noise but mechanisms/noise.py."""
    draws = {"randn", "normal", "normal_", "standard_normal", "laplace", "gumbel", "randn_like", "urandom"}
    # a generated data set, initial weights, and weights drawn before any data is seen
    public_randomness = {"caribou.datasets.csbm", "caribou.models.encoder", "caribou.models.public_weights"}
    for name, tree in modules().items():
        if name in public_randomness | {"caribou.mechanisms.noise_source"}:
            continue
        assert not calls(tree) & draws, f"{name} draws noise: {calls(tree) & draws}"


def test_mechanisms_do_not_compute_sensitivities_and_layers_draw_nothing() -> None:
    for name, tree in modules().items():
        imported = imports(tree)
        if name.startswith("caribou.mechanisms"):
            assert not any(i.endswith(("edge_sensitivity", "node_sensitivity", "layer_sensitivity")) for i in imported)
        if name.startswith("caribou.layers"):
            assert not any("noise" in i for i in imported)
    users = [n for n, tree in modules().items() if "paper_node_sensitivity" in str(imports(tree))]
    assert users == [], f"the paper's unsound formula is used by {users}"


def test_no_prints_no_asserts_no_bare_except() -> None:
    for name, tree in modules().items():
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Assert), f"{name}:{node.lineno} asserts on input"
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, f"{name}:{node.lineno} has a bare except"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{name}:{node.lineno} prints"


HEAVY = ("torch", "torch_geometric", "pandas", "pyarrow", "networkx", "matplotlib", "dp_accounting", "scipy", "numpy")


def loaded_by(code: str) -> set[str]:
    probe = f"import sys, json\n{code}\njson.dump([m for m in {HEAVY!r} if m in sys.modules], sys.stderr)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=120)
    return set(json.loads(done.stderr.splitlines()[-1]))


def command(*arguments: str) -> str:
    return (
        f"import sys; sys.argv = ['caribou', *{arguments!r}]\n"
        "from caribou.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    )


def test_help_and_plan_load_nothing_heavy() -> None:
    assert loaded_by("import caribou") == set()
    assert loaded_by(command("--help")) == set()
    assert loaded_by(command("plan", "--json")) == set()


def test_verify_and_ledger_do_not_load_torch(tmp_path: Path) -> None:
    graph = caribou.datasets.load("csbm:nodes=60", seed=1)
    budget, bounds = caribou.Budget(1.0, 1e-5, "edge"), caribou.Bounds(degree_floor=5)
    file = tmp_path / "c.json"
    caribou.release(graph, caribou.ContractiveGraphLayer(0.8), hops=2, budget=budget, bounds=bounds).certificate.save(
        file
    )
    book = str(tmp_path / "ledger.sqlite")
    assert not loaded_by(command("verify", str(file))) & {"torch", "torch_geometric", "pandas"}
    assert not loaded_by(command("ledger", "budget", "x", "--epsilon", "2", "--unit", "edge", "--ledger", book)) & {
        "torch"
    }
    assert not loaded_by(
        command("ledger", "add", "x", "--certificate", str(file), "--over-budget", "--ledger", book)
    ) & {
        "torch",
        "torch_geometric",
        "pandas",
    }
    assert not loaded_by(command("ledger", "show", "--ledger", book)) & {"torch", "torch_geometric", "pandas"}


def test_public_names_resolve_and_are_documented() -> None:
    for name in caribou.__all__:
        value = getattr(caribou, name)
        if name not in ("__version__", "datasets"):
            assert value.__doc__, name
    assert set(caribou.__all__) <= set(dir(caribou))
    with pytest.raises(AttributeError):
        _ = caribou.nothing
