"""A saved run: what is in it, what is not, and what happens when it is damaged."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors.numpy import load_file

import caribou as cb
from caribou.errors import InputError, RunError
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods import METHODS
from caribou.model import state as runs
from caribou.model.estimator import Model
from caribou.models.features import unit_root_rows
from caribou.models.public_rows import PublicRows
from caribou.privacy.certificate import Certificate

pytestmark = pytest.mark.usefixtures("quick_learning")

GRAPH = cb.datasets.load("csbm", nodes=130, classes=3, features=6, average_degree=8.0, signal=2.0, seed=3)
PUBLIC_SEED, NOISE_SEED = 7654321, 918273645
PLAN = {"receivers_per_sender": 2, "share": 0.5}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "caribou-edp": ("caribou-edp", {"hops": 3}),
    "caribou-ndp": ("caribou-ndp", {"hops": 3, "graph_share": 0.5}),
    "votes-edp": ("votes-edp", {}),
    "votes-ndp": ("votes-ndp", {"declared_degree": 20, "votes": PLAN}),
    "mlp-dp": ("mlp-dp", {"random_features": 20}),
    "mlp": ("mlp", {}),
    "sage-inf": ("sage-inf", {"epochs": 10}),
    "dpdgc-edp": ("dpdgc-edp", {}),
}
every_case = pytest.mark.parametrize("case", list(CASES))


class Saved:
    """A fitted model, its folder, and the states that message passing went through."""

    def __init__(self, case: str, folder: Path) -> None:
        name, settings = CASES[case]
        budget = cb.Budget(4.0 if METHODS[name].private else math.inf, 1e-5, METHODS[name].unit)
        self.states: list[np.ndarray] = []
        with pytest.MonkeyPatch.context() as patch:
            add = NoiseSource.add_gaussian

            def noted(source: NoiseSource, value: np.ndarray, *, std: float) -> np.ndarray:
                out = add(source, value, std=std)
                if value.shape[0] == GRAPH.num_nodes:
                    self.states.append(np.array(out))
                return out

            patch.setattr(NoiseSource, "add_gaussian", noted)
            self.model = Model(name, budget, seed=PUBLIC_SEED, **settings)
            self.model.fit(GRAPH, noise=NoiseSource.seeded(NOISE_SEED))
        self.folder = folder / "run"
        self.model.save(self.folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Saved]:
    made: dict[str, Saved] = {}

    def get(case: str) -> Saved:
        if case not in made:
            made[case] = Saved(case, tmp_path_factory.mktemp("saved"))
        return made[case]

    return get


@pytest.fixture
def run(saved: Callable[[str], Saved], tmp_path: Path) -> Path:
    """A copy of a run that may be damaged."""
    return Path(shutil.copytree(saved("caribou-edp").folder, tmp_path / "run"))


@every_case
def test_what_was_saved_is_what_is_loaded(case: str, saved: Callable[[str], Saved]) -> None:
    model, folder = saved(case).model, saved(case).folder
    loaded = cb.load(folder)
    assert (loaded.method, loaded.settings, loaded.budget) == (model.method, model.settings, model.budget)
    assert loaded.certificate == model.certificate
    assert loaded.classes == model.classes == ("0", "1", "2")
    assert loaded.released.keys() == model.released.keys()
    assert all(np.array_equal(loaded.released[key], model.released[key]) for key in model.released)
    again = loaded.predict_proba(GRAPH, training_graph=True)
    assert np.allclose(again, model.predict_proba(), rtol=0, atol=1e-12)
    assert loaded.score("test", GRAPH) == model.score("test")


# -- what is not in it ---------------------------------------------------------------------------------------------


def forms(values: np.ndarray, kinds: tuple[str, ...]) -> list[bytes]:
    return [np.ascontiguousarray(values).astype(kind).tobytes() for kind in kinds]


@every_case
def test_a_run_holds_no_graph(case: str, saved: Callable[[str], Saved]) -> None:
    integers, floats = ("<i4", "<i8", "<f4", "<f8"), ("<f4", "<f8")
    first = GRAPH.edge_index[:, GRAPH.edge_index[0] < GRAPH.edge_index[1]]
    secrets = [form for array in (GRAPH.indices, GRAPH.indptr, first[0], first[1]) for form in forms(array, integers)]
    secrets += [form for row in GRAPH.features for form in forms(row, floats)]
    secrets += forms(GRAPH.labels, (*integers, "i1"))
    secrets += forms(np.eye(3)[GRAPH.labels], floats)
    split = GRAPH.split
    secrets += [form for part in (split.train, split.val, split.test) for form in forms(part, integers)]
    folder = saved(case).folder
    for file in folder.iterdir():
        content = file.read_bytes()
        assert not any(secret in content for secret in secrets), file.name
        if file.suffix == ".safetensors":
            for name, array in load_file(file).items():
                for other in (GRAPH.features, GRAPH.labels, GRAPH.degrees, GRAPH.indices):
                    assert array.shape != other.shape or not np.allclose(array, other, atol=1e-3), name


TABLE = np.random.default_rng(1)
LABELS = np.arange(1300) % 3
SPARSE = sp.csr_array(
    np.where(TABLE.random((1300, 40)) < 0.15, 1 + TABLE.random((1300, 40)) + (LABELS[:, None] == np.arange(40) % 3), 0)
)
NARROW = TABLE.standard_normal((300, 5)) + LABELS[:300, None]
NARROW[0] = 1e3 + np.arange(5)  # rows that are like no other, which a group may be made of
NARROW[1] = -1e3 - np.arange(5)
TABLES = {
    "words": cb.Graph.from_edges(SPARSE, np.stack([np.arange(1299), np.arange(1, 1300)]), LABELS, num_classes=3),
    "numbers": cb.Graph.from_edges(NARROW, np.stack([np.arange(299), np.arange(1, 300)]), LABELS[:300], num_classes=3),
}
ROW_CASES = [
    *[(name, "numbers", {}) for name in METHODS],
    ("votes-edp", "numbers", {"alphabet": "code", "codes": 60}),
    ("votes-edp", "words", {}),
    ("mlp", "words", {}),
    ("mlp", "words", {"hidden": [8]}),
]


def stands_in(row: np.ndarray, values: np.ndarray, order: np.ndarray) -> bool:
    """Whether the values of a row stand one after the other in an array, to 1e-6. ``order``: sorts the array."""
    anchor = int(np.abs(row).argmax())
    first, last = (np.searchsorted(values, row[anchor] + side, sorter=order) for side in (-1e-6, 1e-6))
    starts = order[first:last] - anchor
    fit = starts[(starts >= 0) & (starts + len(row) <= len(values))]
    return any(np.allclose(values[at : at + len(row)], row, rtol=0, atol=1e-6) for at in fit)


def rows_in(arrays: dict[str, np.ndarray], graph: cb.Graph) -> list[str]:
    """Names of arrays in which a row of the table stands, in one of the forms in which learners see it."""
    labelled = np.concatenate([graph.split.train, graph.split.val])[:200]
    forms = [PublicRows.of(graph.features)(graph.features), unit_root_rows(graph.features), graph.features]
    dense = [np.asarray(x.todense() if sp.issparse(x) else x, dtype=np.float64)[labelled] for x in forms]
    rows = [row for x in dense for own in x for row in (own, own[own != 0]) if np.count_nonzero(row) > 2]
    found = []
    for name, array in arrays.items():
        for values in (np.ravel(array).astype(np.float64), np.ravel(array.T).astype(np.float64)):
            order = values.argsort()
            if any(stands_in(row, values, order) for row in rows):
                found.append(name)
                break
    return found


@pytest.mark.parametrize(("name", "table", "settings"), ROW_CASES)
def test_no_saved_array_holds_a_row_of_the_table(
    name: str, table: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    graph = TABLES[table].random_split(0)
    budget = cb.Budget(4.0 if METHODS[name].private else math.inf, 1e-5, METHODS[name].unit)
    model = Model(name, budget, **settings).fit(graph)
    model.save(tmp_path / "run")
    assert {part: rows_in(load_file(tmp_path / "run" / part), graph) for part in (runs.WEIGHTS, runs.RELEASED)} == {
        runs.WEIGHTS: [],
        runs.RELEASED: [],
    }


@pytest.mark.parametrize("table", TABLES)
def test_a_row_that_is_held_is_found(table: str) -> None:
    graph = TABLES[table].random_split(0)
    mine = sp.csr_array(graph.features)[[graph.split.train[3]]]
    held = {"dense": mine.toarray().repeat(2, axis=0), "entries": np.append([1.0, 2.0], mine.data), "none": np.eye(40)}
    assert rows_in({**held, "column": held["dense"].T.copy()}, graph) == ["dense", "entries", "column"]


def test_a_run_without_rows_knows_none_again(saved: Callable[[str], Saved], tmp_path: Path) -> None:
    model = saved("votes-edp").model
    model.save(tmp_path / "bare", rows=False)
    held = load_file(tmp_path / "bare" / runs.WEIGHTS)
    assert held["prior.known.digests"].size == held["prior.known.probabilities"].size == 0
    assert not (tmp_path / "bare" / runs.ROWS).exists()
    loaded = cb.load(tmp_path / "bare")
    assert np.array_equal(loaded.predict_proba(), model.predict_proba())
    other = cb.datasets.load("csbm", nodes=60, classes=3, features=6, seed=4)
    loaded.release(other)
    kept = [load_file(file) for file in (tmp_path / "bare").rglob(runs.WEIGHTS)]
    assert len(kept) == 2
    assert all(arrays["prior.known.digests"].size == 0 for arrays in kept)
    with pytest.raises(InputError, match="saved without rows, knows no row"):
        loaded.arrivals.require_same_people(GRAPH)
    with pytest.warns(UserWarning, match="cannot be compared with the rows of this graph"):
        cb.Votes(cb.Budget(4), encoder=tmp_path / "bare").fit(GRAPH)


def test_a_release_about_another_graph_keeps_no_digest(tmp_path: Path) -> None:
    """A folder that was saved without rows gets none later, from the model that still has them."""
    model = Model("mlp", cb.Budget(math.inf, 1e-5, "edge")).fit(GRAPH)
    model.save(tmp_path / "run", rows=False)
    model.release(cb.datasets.load("csbm", nodes=60, classes=3, features=6, seed=4))
    kept = [load_file(file) for file in (tmp_path / "run").rglob(runs.WEIGHTS)]
    assert [arrays["prior.known.digests"].size for arrays in kept] == [0, 0]


def test_digests_of_rows_follow_a_key_that_is_no_part_of_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whoever guesses a row has nothing to compare its digest with."""
    digests = []
    for owner in ("one", "another"):
        monkeypatch.setenv("CARIBOU_STATE", str(tmp_path / owner))
        state = cb.Votes(cb.Budget(4), max_rounds=1).fit(GRAPH, noise=NoiseSource.seeded(0)).state
        digests.append({*state.weights["prior.known.digests"].tolist(), *map(int, state.rows or ())})
        assert len(digests[-1]) == GRAPH.num_nodes
    assert not digests[0] & digests[1]


@every_case
def test_a_run_holds_no_seed_and_no_key(case: str, saved: Callable[[str], Saved]) -> None:
    key = NoiseSource.seeded(NOISE_SEED)._key
    numbers = [form for seed in (PUBLIC_SEED, NOISE_SEED) for form in forms(np.array(seed), ("<i8", "<f8"))]
    for file in saved(case).folder.iterdir():
        content = file.read_bytes()
        for secret in (key, key.hex().encode(), str(PUBLIC_SEED).encode(), str(NOISE_SEED).encode(), *numbers):
            assert secret not in content, file.name


def in_the_unit_ball(rows: np.ndarray) -> np.ndarray:
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)


@pytest.mark.parametrize("case", ["caribou-edp", "caribou-ndp"])
def test_a_run_holds_the_last_state_only(case: str, saved: Callable[[str], Saved]) -> None:
    states = saved(case).states
    assert len(states) == 3
    contents = [file.read_bytes() for file in saved(case).folder.iterdir()]
    last = load_file(saved(case).folder / runs.RELEASED)["state"]
    assert np.allclose(last, in_the_unit_ball(states[-1]))
    for hidden in states[:-1]:
        assert not np.allclose(last, in_the_unit_ball(hidden), atol=1e-2)
        for row in (*hidden[:20], *in_the_unit_ball(hidden)[:20]):
            assert not any(form in content for form in forms(row, ("<f4", "<f8")) for content in contents)


def test_the_files_of_a_run_at_each_unit(saved: Callable[[str], Saved]) -> None:
    usual = {"run.json", "weights.safetensors", "released.safetensors", "certificate.json", "certificate.md"}
    for case in CASES:
        # a graph without ids is known again by its public rows: at edge level alone
        rows = {"rows.json"} if saved(case).model.budget.unit is cb.PrivacyUnit.EDGE else set()
        assert {file.name for file in saved(case).folder.iterdir()} in (usual | rows, usual)


# -- damage --------------------------------------------------------------------------------------------------------


def edit(run: Path, **changes: Any) -> None:
    record = json.loads((run / "run.json").read_text())
    record.update(changes)
    (run / "run.json").write_text(json.dumps(record))


@pytest.mark.parametrize("name", ["weights.safetensors", "released.safetensors", "certificate.json", "certificate.md"])
def test_truncated_changed_and_missing_files(run: Path, name: str) -> None:
    content = (run / name).read_bytes()
    for damaged in (content[:-1], content[: len(content) // 2], b"", content[:-1] + bytes([content[-1] ^ 1])):
        (run / name).write_bytes(damaged)
        with pytest.raises(RunError, match=f"{name} is not what was saved"):
            cb.load(run)
    (run / name).unlink()
    with pytest.raises(RunError, match=f"{name}.* cannot be read"):
        cb.load(run)


def test_a_damaged_record(run: Path) -> None:
    whole = (run / "run.json").read_text()
    for text in (whole[: len(whole) // 2], "", "[]", "{}", '{"format": 2, "files": {}}', "[" * 100_000):
        (run / "run.json").write_text(text)
        with pytest.raises(RunError, match=r"run\.json must be"):
            cb.load(run)
    (run / "run.json").write_bytes(b"\xff\xfe")
    with pytest.raises(RunError, match=r"run\.json cannot be read"):
        cb.load(run)
    (run / "run.json").unlink()
    with pytest.raises(RunError, match=r"run\.json cannot be read: No such file"):
        cb.load(run)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "gcn"},
        {"method": "mlp-dp"},
        {"settings": {"hops": 0}},
        {"settings": None},
        {"epsilon": 8.0},
        {"delta": 2},
        {"unit": "node"},
        {"nodes": 131},
        {"classes": 3},
    ],
    ids=str,
)
def test_a_record_that_does_not_fit(run: Path, changes: dict[str, Any]) -> None:
    edit(run, **changes)
    with pytest.raises(RunError):
        cb.load(run)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "..", "a/../b", "", "a\0b", "\ud800"])
def test_a_record_that_names_other_paths(run: Path, name: str) -> None:
    (run.parent / "secret").write_text("secret")
    files = json.loads((run / "run.json").read_text())["files"]
    edit(run, files={**files, name: "0" * 64})
    with pytest.raises(RunError) as error:
        cb.load(run)
    assert "plain names" in str(error.value) or "cannot be read" in str(error.value)


def test_a_record_must_list_its_files(run: Path) -> None:
    files = json.loads((run / "run.json").read_text())["files"]
    for name in ("weights.safetensors", "released.safetensors", "certificate.json"):
        edit(run, files={key: value for key, value in files.items() if key != name})
        with pytest.raises(RunError, match=f"must list {name}"):
            cb.load(run)


def test_a_swapped_certificate(run: Path, saved: Callable[[str], Saved]) -> None:
    """Found with the old digest, and with a new one if it is about something else."""
    for case in ("sage-inf", "caribou-ndp"):
        shutil.copy(saved(case).folder / "certificate.json", run / "certificate.json")
        with pytest.raises(RunError, match=r"certificate\.json is not what was saved"):
            cb.load(run)
        files = json.loads((run / "run.json").read_text())["files"]
        edit(run, files={**files, "certificate.json": runs._digest(run / "certificate.json")})
        with pytest.raises(RunError, match=r"must be the same in run\.json and certificate\.json"):
            cb.load(run)
        edit(run, files=files)


# -- writing -------------------------------------------------------------------------------------------------------


def test_a_run_is_written_to_a_new_or_empty_folder_only(saved: Callable[[str], Saved], tmp_path: Path) -> None:
    model = saved("mlp-dp").model
    (tmp_path / "empty").mkdir()
    model.save(tmp_path / "empty")
    cb.load(tmp_path / "empty")
    before = {file.name: file.read_bytes() for file in (tmp_path / "empty").iterdir()}
    with pytest.raises(RunError, match="out must be a new or empty folder"):
        model.save(tmp_path / "empty")
    assert before == {file.name: file.read_bytes() for file in (tmp_path / "empty").iterdir()}
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="out must be a new or empty folder"):
        model.save(tmp_path / "file")
    with pytest.raises(RunError, match="in a folder that exists"):
        model.save(tmp_path / "missing" / "run")


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError(28, "No space left on device"), RuntimeError])
def test_an_interrupted_save_leaves_nothing(
    saved: Callable[[str], Saved], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: Any
) -> None:
    model, write = saved("mlp-dp").model, Certificate.save

    def interrupted(self: Certificate, path: Path) -> None:
        write(self, path)
        if path.suffix == ".md":
            raise stop

    monkeypatch.setattr(Certificate, "save", interrupted)
    with pytest.raises(RunError if isinstance(stop, OSError) else stop):
        model.save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    model.save(tmp_path / "run")
    assert [file.name for file in tmp_path.iterdir()] == ["run"]
