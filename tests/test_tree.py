"""The tree is the pipeline: imports point one way, noise and charges have one home, tests mirror it, planning stays light."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import caribou
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import method_info
from caribou.privacy.assumptions import features_without_edges
from caribou.privacy.sizes import Sizes

SOURCE = Path(caribou.__file__).parent
TESTS = Path(__file__).parent

# From the bottom up. A module may import from its own level or below, never from above.
LEVELS = [
    {
        *("caribou", "caribou.errors", "caribou._validate", "caribou.machine", "caribou.randomness", "caribou.metrics"),
    },
    {"caribou.graph", "caribou.tables", "caribou.privacy", "caribou.engines.kernels"},
    {"caribou.datasets"},
    {"caribou.layers", "caribou.mechanisms"},
    {"caribou.release"},
    {"caribou.engines", "caribou.models"},
    {"caribou.methods", "caribou.model.state"},
    {"caribou.model"},
    {"caribou.audit"},
    {"caribou.pages"},
    {"caribou.experiments"},
    {"caribou.cli"},
]
PRIVACY_MAY_IMPORT = {"numpy", "scipy", "dp_accounting", "cryptography", "caribou"} | set(sys.stdlib_module_names)


@functools.cache
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
            allowed = ("caribou.privacy", "caribou._validate", "caribou.machine", "caribou.errors")
            assert all(i.startswith(allowed) for i in inner), f"{name} imports {inner}"


def test_the_package_is_a_short_list_of_concepts() -> None:
    names = {p.name for p in SOURCE.iterdir() if p.name not in ("__init__.py", "py.typed", "__pycache__")}
    assert len(names) <= 20, sorted(names)


MODULES = "modules at the top"
LINES = {
    "audit": 4_530,
    "cli": 3_950,
    "datasets": 1_740,
    "engines": 2_870,
    "experiments": 1_860,
    "graph": 2_410,
    "layers": 650,
    "machine": 490,
    "mechanisms": 2_500,
    "methods": 4_745,
    "model": 2_340,
    "models": 4_690,
    "pages": 1_630,
    "privacy": 7_530,
    "tables": 3_700,
    MODULES: 1_500,
}
"""Python lines that a package may have. Whoever needs more names what goes, here or in another package."""
ALL_LINES = 46_640
"""Of the whole package: less than the budgets together, so that not all of them can be used up."""


def lines_by_package() -> dict[str, int]:
    """The lines of every package at the top level, and of the modules beside them together."""
    found = dict.fromkeys(LINES, 0)
    for path in SOURCE.rglob("*.py"):
        inside = path.relative_to(SOURCE).parts
        package = inside[0] if len(inside) > 1 else MODULES
        found[package] = found.get(package, 0) + len(path.read_text(encoding="utf-8").splitlines())
    return found


def test_every_package_keeps_its_budget_of_lines() -> None:
    """One person can hold so much. By taking away and joining, never by squeezing."""
    found = lines_by_package()
    assert set(found) == set(LINES), "a new package needs a budget, and one that is gone has none"
    over = {name: f"{lines} of {LINES[name]}" for name, lines in found.items() if lines > LINES[name]}
    assert not over, f"name what goes: {over}"
    assert sum(found.values()) <= ALL_LINES < sum(LINES.values()), f"name what goes: {sum(found.values())} lines in all"


# -- tests mirror the tree -------------------------------------------------------------------------------------------

CROSS_CUTTING = {
    "cli/cli",  # the package itself: its console entry
    "datasets/load",  # the package itself: data sets by name
    "datasets/fuzz",
    "datasets/one_row",
    "methods/by_degree",
    "methods/contract",
    "methods/end_to_end",
    "methods/floors",
    "methods/fuzz",
    "methods/transcripts",
}
"""Test files that are about several modules."""


def mirrored(module: Path) -> str:
    """The name that a module shares with its test file: its path without a leading underscore."""
    relative = module.relative_to(SOURCE).with_suffix("")
    return (relative.parent / relative.name.lstrip("_")).as_posix()


def test_every_module_has_its_tests() -> None:
    modules = {mirrored(p) for p in SOURCE.rglob("*.py") if p.name not in ("__init__.py", "errors.py")}
    missing = {m for m in modules if not (TESTS / m).with_name(f"test_{Path(m).name}.py").exists()}
    assert not missing, sorted(missing)


def test_every_test_file_is_about_a_module() -> None:
    known = {mirrored(p) for p in SOURCE.rglob("*") if p.suffix in (".py", ".js") or p.is_dir()} | CROSS_CUTTING
    folders = [p for p in TESTS.iterdir() if p.is_dir() and p.name != "reproduction"]
    found = {
        p.relative_to(TESTS).with_name(p.stem.removeprefix("test_")).as_posix()
        for f in folders
        for p in f.rglob("test_*.py")
    }
    parts = {name for name in found if name.rpartition("_")[0] in known}  # votes_codes is about a part of votes
    strays = {name for name in found - known - parts if not name.startswith("audit/")}
    assert not strays, f"test files without a module: {sorted(strays)}"


# -- one home for each decision --------------------------------------------------------------------------------------


def called_attributes(tree: ast.Module) -> list[tuple[str, str]]:
    """Owner and name of every called attribute: ``noise.stream("x").choice(s)`` gives ('noise.stream("x")', "choice")."""
    found = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [(ast.unparse(func.value), func.attr) for func in found if isinstance(func, ast.Attribute)]


def attributes(tree: ast.Module) -> set[str]:
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


FORWARDED = {("caribou.model.growth", "self._work")}
"""Journals that hand a question of `caribou.release` on to another one, which makes no certificate either."""


def test_one_module_charges_and_certifies() -> None:
    """`caribou.release` alone asks a plan for its certificate and charges a ledger; ``caribou ledger add`` records by hand."""
    for name, tree in modules().items():
        called = {attribute for owner, attribute in called_attributes(tree) if (name, owner) not in FORWARDED}
        if name not in ("caribou.release", "caribou.privacy.ledger", "caribou.cli.ledger"):
            assert not called & {"charge", "certificate"}, f"{name} calls {called}"
        uses_a_ledger = any(i.startswith("caribou.privacy.ledger.") for i in imports(tree))
        if uses_a_ledger and name not in ("caribou", "caribou.release", "caribou.cli.ledger"):
            assert not attributes(tree) & {"charge", "annotate"}, name
        constructed = {n.func.id for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
        if not name.startswith("caribou.privacy."):
            assert not constructed & {"Certificate", "LedgerEntry"}, f"{name} writes a record of its own"


def test_the_ledger_is_charged_where_the_test_looks() -> None:
    """The test above can fail: the one call of each kind is there to be found."""
    found = {attribute for _, attribute in called_attributes(modules()["caribou.release"])}
    assert {"charge", "certificate"} <= found
    assert "charge" in attributes(modules()["caribou.cli.ledger"])


DRAWS = {name for name in vars(NoiseSource) if not name.startswith("_")} - {"secure", "keyed", "seeded", "stream"}
DRAWS -= {"is_secret", "origin", "draws"}


def test_methods_contain_no_mechanism() -> None:
    """A method hands its noise to mechanisms; it draws nothing itself but from public streams."""
    assert {"add_gaussian", "add_laplace", "add_discrete_laplace", "choice", "bernoulli"} <= DRAWS
    for name, tree in modules().items():
        if name.startswith("caribou.methods"):
            drawn = [
                f"{owner}.{attribute}"
                for owner, attribute in called_attributes(tree)
                if attribute in DRAWS and owner != "VoteBudget" and not owner.startswith("streams.")
            ]
            assert not drawn, f"{name} draws noise itself: {drawn}"


def calls(tree: ast.Module) -> set[str]:
    """Names of called methods, except those of a noise source or one of its streams."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner = node.func.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if name.lstrip("_") not in ("noise", "stream"):
                found.add(node.func.attr)
    return found


def test_noise_is_drawn_in_one_file() -> None:
    """No module on the way from a private graph to a release draws noise but mechanisms/noise_source.py."""
    draws = {"randn", "normal", "normal_", "standard_normal", "laplace", "gumbel", "randn_like", "urandom"}
    # generated data sets, initial weights, and weights drawn before any data is seen
    public_randomness = {
        "caribou.datasets.generated",
        "caribou.datasets.fraud",
        "caribou.models.encoder",
        "caribou.models.linear",
        "caribou.models.features",
    }
    # bytes over an erased key, and the number by which a process is known
    no_noise = {"caribou.machine.files"}
    for name, tree in modules().items():
        if name in public_randomness | no_noise | {"caribou.mechanisms.noise_source"}:
            continue
        assert not calls(tree) & draws, f"{name} draws noise: {calls(tree) & draws}"


def test_addresses_are_taken_in_one_function() -> None:
    """C reads whatever an address leads to: `pointer` checks the array first, and `empty_rows` only asks how it is aligned."""
    for name, tree in modules().items():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        taking = {function.name for function in functions if "ctypes" in attributes(ast.Module([function], []))}
        if name == "caribou.engines.kernels":
            assert taking == {"pointer", "empty_rows"}
        else:
            assert not taking, f"{name} takes addresses in {taking}"
            assert not {imported for imported in imports(tree) if imported.split(".")[0] in ("ctypes", "cffi")}, name


def test_mechanisms_do_not_compute_sensitivities_and_layers_draw_nothing() -> None:
    for name, tree in modules().items():
        imported = imports(tree)
        if name.startswith("caribou.mechanisms"):
            assert not any(i.endswith(("edge_sensitivity", "node_sensitivity", "layer_sensitivity")) for i in imported)
        if name.startswith("caribou.layers"):
            assert not any("noise" in i for i in imported)


def test_no_prints_no_asserts_no_bare_except() -> None:
    for name, tree in modules().items():
        for node in ast.walk(tree):
            assert not isinstance(node, ast.Assert), f"{name}:{node.lineno} asserts on input"
            if isinstance(node, ast.ExceptHandler):
                assert node.type is not None, f"{name}:{node.lineno} has a bare except"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{name}:{node.lineno} prints"


HEAVY = ("torch", "torch_geometric", "pandas", "pyarrow", "networkx", "matplotlib", "dp_accounting", "scipy", "numpy")


def loaded_by(*codes: str) -> set[str]:
    """Heavy libraries that a fresh process has loaded after running the pieces of code."""
    code = "\n".join(codes)
    probe = f"import sys, json\n{code}\njson.dump([m for m in {HEAVY!r} if m in sys.modules], sys.stderr)"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=500)
    return set(json.loads(done.stderr.splitlines()[-1]))


def command(*arguments: str) -> str:
    return (
        f"import sys; sys.argv = ['caribou', *{arguments!r}]\n"
        "from caribou.cli import main\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert not stop.code, stop.code"
    )


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of a plan, without a release."""
    plan = method_info("caribou-edp").create(hops=2).plan(Sizes(60, 8, classes=4, train=40), caribou.Budget(1.0))
    file = tmp_path_factory.mktemp("plan") / "certificate.json"
    features = features_without_edges(8, None)
    replace(plan, assumptions=(features,)).certificate(NoiseSource.secure()).save(file)
    return file


def test_help_and_plan_load_nothing_heavy() -> None:
    """One after the other in one process: what the last one finds was loaded by none."""
    assert loaded_by("import caribou", command("--help"), command("plan", "--json")) == set()


def test_verify_and_ledger_load_no_numerical_library(certificate: Path, tmp_path: Path) -> None:
    """Each takes less than half a CPU second: Gaussians, or one pure epsilon, are accounted for in closed form."""
    ledger = ("--ledger", str(tmp_path / "ledger.sqlite"))
    loaded = loaded_by(
        command("verify", str(certificate)),
        command("ledger", "budget", "x", "--epsilon", "2", "--unit", "edge", *ledger),
        command("ledger", "add", "x", "--certificate", str(certificate), "--over-budget", *ledger),
        command("ledger", "show", *ledger),
    )
    assert loaded == set()


PLANNING = """
from caribou.methods import METHODS
from caribou.privacy.budget import Budget
from caribou.privacy.sizes import Sizes
sizes = Sizes(nodes=80, columns=32, classes=4, train=56, val=8, test=16)
for name, info in METHODS.items():
    method, budget = info.recipe(), Budget(4 if info.private else float("inf"), 1e-5, info.unit)
    plans = [method.plan(sizes, budget)]
    if not info.transductive:
        plans.append(method.plan_graph(sizes, budget, {}))
    assert all(plan.mechanisms for plan in plans), name
"""


def in_functions(tree: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node but annotations, with whether it stands in the body of a function: it is run when that is called."""
    for name, value in ast.iter_fields(tree):
        here = inside or (isinstance(tree, ast.FunctionDef | ast.Lambda) and name == "body")
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in ("annotation", "returns"):
                yield child, here
                yield from in_functions(child, here)


def test_a_name_that_waits_is_loaded_by_its_first_use() -> None:
    """A call, an attribute or `isinstance` loads it; an operator or a default would meet what stands in its place."""
    for name, tree in modules().items():
        blocks = [node for node in tree.body if isinstance(node, ast.With)]
        names = {alias.asname or alias.name for block in blocks for line in block.body for alias in line.names}  # type: ignore[attr-defined]
        found = list(in_functions(tree))
        used = {id(node.func) for node, inside in found if inside and isinstance(node, ast.Call)}
        used |= {id(node.value) for node, inside in found if inside and isinstance(node, ast.Attribute)}
        used |= {id(each) for node, _ in found if isinstance(node, ast.Call) for each in node.args[1:]}
        used |= {id(node.value) for node, inside in found if inside and isinstance(node, ast.keyword)}
        others = {
            node.id for node, _ in found if isinstance(node, ast.Name) and node.id in names and id(node) not in used
        }
        assert not others, f"{name}: {others}"


def test_planning_every_method_needs_no_torch() -> None:
    """Settings and plans are public arithmetic; only the share that a choice leaves (sage-ndp) takes the accountant of PLDs."""
    assert loaded_by(BLOCKED, PLANNING) == {"dp_accounting", "scipy", "numpy"}
    assert loaded_by(BLOCKED, PLANNING.replace("METHODS.items()", "[*METHODS.items()][:5]")) == set()


BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("resource", "fcntl", "torch"):
            raise ImportError(f"{name} is not there")
sys.meta_path.insert(0, Blocked())
assert not {"resource", "fcntl", "torch"} & set(sys.modules)
"""


def test_help_plan_and_verify_start_where_there_is_no_torch_and_no_unix(certificate: Path) -> None:
    lists = (command("methods"), command("methods", "votes-edp"))
    loaded_by(BLOCKED, command("--help"), command("plan", "--json"), command("verify", str(certificate)), *lists)
    loaded_by(BLOCKED, "import inspect, caribou; inspect.signature(caribou.Votes)")
    with pytest.raises(subprocess.CalledProcessError, match="exit status 1"):  # the blocker blocks
        loaded_by(BLOCKED, "import resource")


def test_public_names_resolve_and_are_documented() -> None:
    for name in caribou.__all__:
        value = getattr(caribou, name)
        if name not in ("__version__", "datasets"):
            assert value.__doc__, name
    assert set(caribou.__all__) <= set(dir(caribou))
    with pytest.raises(AttributeError):
        _ = caribou.nothing
