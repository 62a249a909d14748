"""The contract of every way out: certified and charged before the first draw, once, under one name, and nothing is lost."""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import pickle
import sqlite3
import warnings
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import caribou as cb
import caribou.layers as cb_layers
from caribou.cli import app
from caribou.engines import ray
from caribou.engines.pipeline import Request, release_files
from caribou.engines.ray import RayRunner
from caribou.errors import BudgetExceeded, CaribouError, InputError, LedgerError
from caribou.graph import Graph
from caribou.mechanisms.noise_source import BlockNoise, NoiseSource, RunKey
from caribou.methods import METHODS
from caribou.model.estimator import Model
from caribou.model.tuning import tune
from caribou.model.verify import verify
from caribou.privacy.certificate import Certificate
from caribou.privacy.events import EpsilonDelta
from caribou.privacy.ledger import ContentChange, Ledger
from caribou.privacy.mechanism_records import Mechanism, own_mechanism
from caribou.privacy.plan import ReleasePlan
from caribou.release import Account, Drawn, execute

pytestmark = pytest.mark.usefixtures("quick_learning")

BUDGET = cb.Budget(4.0, 1e-5, "edge")
GRAPH = cb.datasets.load("csbm", nodes=120, classes=3, features=6, average_degree=8, seed=2).renamed("survey")
FITTED = Model("gap-edp", BUDGET).fit(
    cb.datasets.load("csbm", nodes=120, classes=3, features=6, average_degree=8, seed=5), noise=NoiseSource.seeded(1)
)


Noise = NoiseSource | None


class NoNoiseToday(RuntimeError):
    pass


@dataclass(frozen=True)
class Door:
    """One way to release something about a graph: with a ledger, under the graph's name; it gives back the certificate."""

    name: str
    leave: Callable[..., Certificate]
    no_noise: Callable[[pytest.MonkeyPatch], None]


def refuse(*_: object, **__: object) -> Any:
    raise NoNoiseToday("no noise today")


def no_stream(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NoiseSource, "_next_stream", refuse)


def no_block(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BlockNoise, "_stream", refuse)


def no_worker(patch: pytest.MonkeyPatch) -> None:
    """On Ray the workers draw, and they are made with the key."""
    patch.setattr(RayRunner, "__init__", refuse)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens before the first draw needs no Ray, which is started before it."""
    monkeypatch.setattr(ray, "started", lambda *_: nullcontext())


def embeddings(graph: Graph, ledger: Any, _: Path, noise: Noise = None) -> Certificate:
    layer, bounds = cb.ContractiveGraphLayer(0.8), cb.Bounds(degree_floor=5)
    return cb.release(graph, layer, hops=2, budget=BUDGET, bounds=bounds, ledger=ledger, noise=noise).certificate


def fitted(graph: Graph, ledger: Any, _: Path, noise: Noise = None) -> Certificate:
    return Model("gap-edp", BUDGET).fit(graph, ledger=ledger, noise=noise).certificate


def predicted(graph: Graph, ledger: Any, _: Path, noise: Noise = None) -> Certificate:
    return FITTED.release(graph, ledger=ledger, noise=noise, spend=True).certificate


def tuned(graph: Graph, ledger: Any, _: Path, noise: Noise = None) -> Certificate:
    found = tune("gap-edp", graph, BUDGET, trials=2, space={"hops": [1, 2]}, ledger=ledger, noise=noise)
    assert found.fitted is not None
    return found.fitted.certificate


def from_files(engine: str) -> Callable[..., Certificate]:
    def leave(graph: Graph, ledger: Any, folder: Path, noise: Noise = None) -> Certificate:
        u, v = graph.edge_index
        folder = folder / f"files-{len(list(folder.iterdir()))}"
        folder.mkdir()
        np.save(folder / "edges.npy", np.stack([u[u < v], v[u < v]], axis=1))
        np.save(folder / "x.npy", np.asarray(graph.features, dtype=np.float32))
        request = Request(
            edges=folder / "edges.npy",
            features=folder / "x.npy",
            out=folder / "out.npy",
            budget=BUDGET,
            hops=2,
            degree_floor=5,
            engine=engine,
            memory=1 << 30 if engine == "outofcore" else None,
            name=graph.name,
        )
        key = RunKey.secure if noise is None else lambda: RunKey.seeded(1)
        return release_files(request, ledger=ledger, new_key=key).certificate

    return leave


DOORS = [
    Door("release", embeddings, no_stream),
    Door("fit", fitted, no_stream),
    Door("predict another graph", predicted, no_stream),
    Door("tune", tuned, no_stream),
    Door("propagate, local", from_files("local"), no_block),
    Door("propagate, out of core", from_files("outofcore"), no_block),
]
RAY = Door("propagate, Ray", from_files("ray"), no_worker)
every_door = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
every_door_and_ray = pytest.mark.parametrize("door", [*DOORS, RAY], ids=lambda door: door.name)
"""For what happens before the first draw."""


@pytest.fixture
def book(tmp_path: Path) -> Ledger:
    (tmp_path / "ledger").mkdir()
    return Ledger(tmp_path / "ledger" / "book.sqlite")


def fingerprint(ledger: Ledger, name: str) -> list[str]:
    return [change.fingerprint for change in ledger.history(name) if isinstance(change, ContentChange)]


@every_door
def test_certified_charged_and_known_by_its_number(door: Door, book: Ledger, tmp_path: Path) -> None:
    certificate = door.leave(GRAPH, book, tmp_path)
    assert verify(certificate).passed
    (entry,) = book.entries()
    assert (entry.certificate_id, entry.dataset, entry.status) == (certificate.certificate_id, "survey", "released")
    assert entry.events == certificate.cost
    assert entry.epsilon_total == pytest.approx(certificate.epsilon_spent, rel=1e-6)
    file = tmp_path / "certificate.json"
    certificate.save(file)
    with pytest.raises(LedgerError, match="already recorded"):
        run("ledger", "add", "survey", "--certificate", str(file), "--ledger", str(book.path))
    assert len(book.entries()) == 1


def test_one_graph_has_one_fingerprint_at_every_door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = Ledger(tmp_path / "book.sqlite")
    for door in DOORS:
        door.leave(GRAPH, book, tmp_path)
    RAY.no_noise(monkeypatch)  # a fingerprint is written with the charge, before Ray is started
    with pytest.raises(NoNoiseToday):
        RAY.leave(GRAPH, book, tmp_path)
    assert len(book.entries("survey")) == len(DOORS) + 1
    assert [f.partition(":")[0] for f in fingerprint(book, "survey")] == ["2", "2e", "2d", "2f"]


@every_door_and_ray
def test_a_second_name_is_refused_whichever_door_came_first(door: Door, book: Ledger, tmp_path: Path) -> None:
    embeddings(GRAPH, book, tmp_path)
    with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
        door.leave(GRAPH.renamed("other"), book, tmp_path)
    assert [entry.dataset for entry in book.entries()] == ["survey"]


@every_door
def test_a_look_alike_under_another_name_is_warned_of(door: Door, book: Ledger, tmp_path: Path) -> None:
    """Its nodes in another order: no fingerprint knows it, its degrees do."""
    embeddings(GRAPH, book, tmp_path)
    order = np.random.default_rng(7).permutation(GRAPH.num_nodes)
    alike = Graph.from_edges(
        GRAPH.features, order[GRAPH.edge_index], labels=GRAPH.labels, split=GRAPH.split, name="other"
    )
    with pytest.warns(UserWarning, match=r"'other'.*same degrees is known to this ledger as 'survey'.*--replace-"):
        door.leave(alike, book, tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*same degrees")
        embeddings(alike.without_edge(*map(int, alike.edge_index[:, 0])).renamed("third"), book, tmp_path)


@every_door_and_ray
def test_charged_in_full_before_the_first_draw(
    door: Door, book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A noise source that raises on its first draw leaves a complete entry and nothing else."""
    before = {path.name for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        door.no_noise(patch)
        with pytest.raises(NoNoiseToday):
            door.leave(GRAPH, book, tmp_path)
    (entry,) = book.entries()
    assert entry.status == "spent"
    assert entry.certificate_id
    assert entry.epsilon_total == pytest.approx(4.0, rel=1e-3)
    written = {path for path in tmp_path.rglob("*") if path.is_file() and path.name in ("out.npy", "certificate.json")}
    assert not written
    assert {path.name for path in tmp_path.iterdir()} - before <= {"files-1"}
    assert book.check() == ()


@every_door_and_ray
def test_refused_means_that_nothing_is_drawn_or_written(
    door: Door, book: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book.set_budget("survey", cb.Budget(1.0, 1e-5, "edge"))
    door.no_noise(monkeypatch)
    with pytest.raises(BudgetExceeded, match="survey"):
        door.leave(GRAPH, book, tmp_path)
    assert book.entries() == ()
    assert fingerprint(book, "survey") == []
    assert not list(tmp_path.rglob("out*"))
    assert not list(tmp_path.rglob(".out*"))


@every_door_and_ray
def test_a_refused_release_makes_no_ledger(door: Door, tmp_path: Path) -> None:
    missing = tmp_path / "no" / "folder" / "book.sqlite"
    with pytest.raises(LedgerError):
        door.leave(GRAPH, missing, tmp_path)
    assert not missing.parent.exists()


@every_door_and_ray
def test_a_crash_at_any_step_loses_no_entry(door: Door, tmp_path: Path) -> None:
    """Killed while it is charged, at the first draw, or when it is marked as released: the ledger is whole every time."""
    for place in ("charge", "draw") if door is RAY else ("charge", "draw", "mark"):
        path = tmp_path / f"{place}.sqlite"
        process = multiprocessing.get_context("fork").Process(target=_leave_and_die, args=(door, path, tmp_path, place))
        process.start()
        process.join(120)
        assert process.exitcode == 9, place
        book = Ledger(path, create=False) if path.exists() else None
        entries = () if book is None else book.entries()
        assert len(entries) == (0 if place == "charge" else 1), place
        assert all(entry.status == "spent" and entry.certificate_id for entry in entries)
        assert book is None or book.check() == ()


def _leave_and_die(door: Door, path: Path, folder: Path, place: str) -> None:
    def die(*_: object, **__: object) -> None:
        os._exit(9)

    if place == "charge":
        Ledger.charge = die  # type: ignore[method-assign]
    elif place == "mark":
        Ledger.annotate = die  # type: ignore[method-assign]
    else:
        NoiseSource._next_stream = RayRunner.__init__ = die  # type: ignore[method-assign]
        BlockNoise._stream = die  # type: ignore[method-assign]
    door.leave(GRAPH, path, folder)


@every_door
def test_reproducible_noise_and_a_ledger_exclude_each_other(door: Door, book: Ledger, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="noise must come from the operating system"):
        door.leave(GRAPH, book, tmp_path, NoiseSource.seeded(1))
    assert book.entries() == ()


# -- what spends nothing, and what protects nothing ----------------------------------------------------------------------

NO_PRIVACY = cb.Budget(math.inf, 1e-5, "edge")


@pytest.fixture(scope="module")
def encoder(quick_learning: None) -> Model:
    return Model("mlp", BUDGET).fit(GRAPH.without_edge(*map(int, GRAPH.edge_index[:, 0])))


def free_fit(graph: Graph, ledger: Any, _: Model) -> Certificate:
    return Model("mlp", BUDGET).fit(graph, ledger=ledger).certificate


def free_prediction(graph: Graph, ledger: Any, encoder: Model) -> Certificate:
    return encoder.release(graph, ledger=ledger, spend=True).certificate


def free_search(graph: Graph, ledger: Any, _: Model) -> Certificate:
    found = tune("mlp", graph, BUDGET, trials=2, space={"hidden": [[], [4]]}, ledger=ledger)
    assert found.fitted is not None
    return found.fitted.certificate


def open_fit(graph: Graph, ledger: Any, _: Model) -> Certificate:
    return Model("gap-inf", NO_PRIVACY, hops=1).fit(graph, ledger=ledger).certificate


def open_release(graph: Graph, ledger: Any, _: Model) -> Certificate:
    layer = cb.ContractiveGraphLayer(0.8)
    return cb.release(graph, layer, hops=1, budget=NO_PRIVACY, bounds=cb.Bounds(5), ledger=ledger).certificate


@pytest.mark.parametrize("leave", [free_fit, free_prediction, free_search, open_fit, open_release])
def test_what_costs_nothing_or_everything_is_checked_and_charged_too(
    leave: Callable[[Graph, Any, Model], Certificate], book: Ledger, tmp_path: Path, encoder: Model
) -> None:
    free = leave in (free_fit, free_prediction, free_search)
    certificate = leave(GRAPH, book, encoder)
    (entry,) = book.entries()
    assert (entry.certificate_id, entry.status) == (certificate.certificate_id, "released")
    assert entry.epsilon_total == (0 if free else math.inf)
    assert book.total("survey", "node").epsilon_spent == math.inf
    with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
        leave(GRAPH.renamed("other"), book, encoder)
    book.set_budget("nodes", cb.Budget(4.0, 1e-5, "node"))
    fewer = GRAPH.without_edge(*map(int, GRAPH.edge_index[:, 5])).renamed("nodes")
    with pytest.raises(BudgetExceeded, match="edge-level release makes features and labels public"):
        leave(fewer, book, encoder)
    with closing(sqlite3.connect(book.path)) as connection:
        connection.execute("DROP TRIGGER entries_update")
        connection.execute("UPDATE entries SET record = replace(record, 'survey', 'edited')")
        connection.commit()
    with pytest.raises(LedgerError, match="chain of records is broken"):
        leave(GRAPH, book, encoder)
    assert len(book.entries()) == 1


def test_predictions_for_another_graph_are_charged_where_the_fit_was(book: Ledger) -> None:
    """Also those that spend nothing: features and labels leave unprotected."""
    book.set_budget("nodes", cb.Budget(4.0, 1e-5, "node"))
    for name in ("survey", "fewer"):
        book.set_budget(name, cb.Budget(math.inf))
    model = Model("mlp", BUDGET).fit(GRAPH, ledger=book)
    fewer, others = (GRAPH.without_edge(*map(int, GRAPH.edge_index[:, place])) for place in (5, 7))
    model.release(fewer.renamed("fewer"))
    assert [(entry.dataset, entry.epsilon_total) for entry in book.entries()] == [("survey", 0), ("fewer", 0)]
    with pytest.raises(BudgetExceeded):
        model.release(others.renamed("nodes"))


# -- what is handed out ------------------------------------------------------------------------------------------------


def test_details_after_a_draw_cannot_change_what_was_charged() -> None:
    certificate = Model("sage-edp", BUDGET, epochs=2, hidden=4).fit(GRAPH).certificate
    (response,) = [m for m in certificate.mechanisms if m.mechanism is Mechanism.RANDOMIZED_RESPONSE]
    assert response.details["released_edge_count"] >= 0
    for details in ({"epsilon": 0.1}, {"keep_one": 0.5}, {"more": 1}):
        with pytest.raises(CaribouError, match="details must be open"):
            certificate.with_details(Mechanism.RANDOMIZED_RESPONSE, **details)
    with pytest.raises(CaribouError, match="mechanism must be one of the certificate"):
        certificate.with_details(Mechanism.EDGE_VOTES, epsilon=1.0)


def test_the_promise_of_a_search_is_that_of_its_weakest_setting() -> None:
    """The winner may read every edge; the search could have chosen a setting that cuts degrees."""
    budget = cb.Budget(8.0, 1e-5, "node")
    found = tune("caribou-ndp", GRAPH, budget, trials=2, space={"degree_cap": [None, 10, 20]})
    assert found.fitted is not None
    certificate = found.fitted.certificate
    assert (certificate.status, certificate.scope.limit) == ("private by degree", 10)
    assert {"order of pairs", "initial state"} <= {a.name.value for a in certificate.assumptions}
    (record,) = certificate.mechanisms
    assert [trial["settings"]["degree_cap"] for trial in record.details["trials"]] == [None, 10, 20]
    assert verify(certificate).passed


# -- the same edges, another file --------------------------------------------------------------------------------------


def test_the_same_edges_with_other_features_are_not_released_under_another_name(book: Ledger, tmp_path: Path) -> None:
    embeddings(GRAPH, book, tmp_path)
    x = np.asarray(GRAPH.features, dtype=np.float64)
    changed = [x / np.linalg.norm(x, axis=1, keepdims=True), x[:, :3], x[:, ::-1], x.astype(np.float16), np.round(x, 3)]
    for features in changed:
        graph = Graph.from_edges(features, GRAPH.edge_index, labels=GRAPH.labels, split=GRAPH.split, name="other")
        with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
            embeddings(graph, book, tmp_path)
        with pytest.raises(LedgerError, match="has changed since its last release"):
            embeddings(graph.renamed("survey"), book, tmp_path)
    assert len(book.entries()) == 1
    fewer = GRAPH.without_edge(*map(int, GRAPH.edge_index[:, 0])).edge_index
    for edges in (np.empty((2, 0), dtype=int), fewer):
        graph = Graph.from_edges(
            x[:, :2], edges, labels=GRAPH.labels, split=GRAPH.split, name=f"{edges.shape[1]} entries"
        )
        embeddings(graph, book, tmp_path)
    empty = Graph.from_edges(x[:, 1:3], np.empty((2, 0), dtype=int), name="another without edges")
    embeddings(empty, book, tmp_path)


def test_a_graph_is_known_as_its_owner_has_it_and_not_as_the_model_reads_it(book: Ledger) -> None:
    names = [f"column {k}" for k in range(GRAPH.num_features)]

    def named(order: list[str], name: str) -> Graph:
        graph = Graph.from_edges(
            GRAPH.features, GRAPH.edge_index, labels=GRAPH.labels, split=GRAPH.split, name=name, feature_names=names
        )
        return graph.with_columns(order)

    model = Model("gap-edp", BUDGET).fit(named(names, "first"), ledger=book)
    other = named(names[::-1], "first")
    own = other.without_edge(*map(int, other.edge_index[:, 0])).renamed("second")
    embeddings(own, book, Path())
    model.release(own, ledger=book)
    assert len(book.entries("second")) == 2
    assert (
        len([c for c in book.history("second") if isinstance(c, ContentChange) and c.fingerprint.startswith("2:")]) == 1
    )


def test_a_copy_of_a_charged_model_does_not_release_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy holds no ledger, and a relative path does not lead to another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    model = Model("gap-edp", BUDGET).fit(GRAPH, ledger="book.sqlite")
    model.save("run")
    book = Ledger("book.sqlite")
    book.set_budget("other", cb.Budget(1.0, 1e-5, "edge"))
    other = GRAPH.without_edge(*map(int, GRAPH.edge_index[:, 0])).renamed("other")
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(BudgetExceeded):
        model.release(other)
    assert not (tmp_path / "elsewhere" / "book.sqlite").exists()
    for copied in (
        copy.copy(model),
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        cb.load(tmp_path / "run"),
    ):
        with pytest.raises(InputError, match=r"ledger must be given for another release"):
            copied.release(other)
        with pytest.raises(InputError, match="predictions never spend"):
            copied.predict_proba(other)
        with pytest.raises(BudgetExceeded):
            copied.release(other, ledger=book)
    assert len(book.entries()) == 1


def test_a_used_noise_source_is_refused_before_anything_is_charged(book: Ledger) -> None:
    noise = NoiseSource.secure()
    Model("gap-edp", BUDGET).fit(GRAPH, noise=noise)
    with pytest.raises(InputError, match="noise must be a new source"):
        Model("gap-edp", BUDGET).fit(GRAPH, ledger=book, noise=noise)
    assert book.entries() == ()


def test_a_resumed_release_needs_its_own_entry(tmp_path: Path) -> None:
    """Interrupted after it was charged; then another ledger stands at the same place."""
    u, v = GRAPH.edge_index
    np.save(tmp_path / "edges.npy", np.stack([u[u < v], v[u < v]], axis=1))
    np.save(tmp_path / "x.npy", np.asarray(GRAPH.features, dtype=np.float32))
    request = Request(
        edges=tmp_path / "edges.npy", features=tmp_path / "x.npy", out=tmp_path / "out.npy", budget=BUDGET, hops=2
    )

    def stop(number: int, *_: int) -> None:
        if number == 2:
            raise KeyboardInterrupt

    path = tmp_path / "book.sqlite"
    with pytest.raises(KeyboardInterrupt):
        release_files(request, ledger=path, progress=stop)
    path.rename(tmp_path / "moved.sqlite")
    Ledger(path).set_budget("graph", cb.Budget(0.1, 1e-5, "edge"))
    with pytest.raises(LedgerError, match="does not hold certificate"):
        release_files(request, ledger=path)
    assert not request.out.exists()
    path.unlink()
    (tmp_path / "moved.sqlite").rename(path)
    certificate = release_files(request, ledger=path).certificate
    (entry,) = Ledger(path).entries()
    assert (entry.certificate_id, entry.status) == (certificate.certificate_id, "released")


def test_a_search_over_perturbed_graphs_can_be_made_and_public_data_takes_no_ledger(book: Ledger) -> None:
    found = tune("sage-edp", GRAPH, BUDGET, trials=2, space={"hidden": [4, 8], "epochs": [2]}, ledger=book)
    assert found.fitted is not None
    assert verify(found.fitted.certificate).passed
    assert len(book.entries()) == 1
    with pytest.raises(InputError, match="ledger must not be given for public data"):
        tune("gap-edp", GRAPH, BUDGET, trials=1, space={"hops": [1, 2]}, public=True, ledger=book)


@pytest.mark.parametrize("sharpness", [0.0, 2.0])
def test_no_public_row_makes_a_refusal_tell_of_an_edge(sharpness: float) -> None:
    rows = np.zeros((4, 1))
    rows[0] = 1e200
    layer = cb_layers.AttentionLayer(rows, sharpness=sharpness)
    for edges in ([[0], [1]], [[2], [3]]):
        operator = layer.operator(Graph.from_edges(np.eye(4), edges), cb.Bounds(degree_floor=1))
        assert np.isfinite(operator.matrix.to_dense().numpy()).all()


# -- a model never carries the graph ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["votes-edp", "mlp-dp"])
def test_a_model_that_leaves_the_process_holds_what_is_saved_and_no_graph(name: str, tmp_path: Path) -> None:
    unit = "edge" if name == "votes-edp" else "node"
    marked = np.array(GRAPH.features, dtype=np.float64)
    marked[:, 0] = 0.123456789012345
    public = {"split": GRAPH.split, "name": "survey", "classes": GRAPH.num_classes}
    graph = Graph.from_edges(marked, GRAPH.edge_index, labels=GRAPH.labels, **public)
    model = Model(name, cb.Budget(4.0, 1e-5, unit)).fit(graph, ledger=tmp_path / "book.sqlite")
    model.save(tmp_path / "run")
    for leave in (pickle.dumps, lambda m: pickle.dumps(copy.deepcopy(m)), lambda m: pickle.dumps(copy.copy(m))):
        stored = leave(model)
        assert graph.indices.tobytes() not in stored
        assert graph.features.tobytes() not in stored
        assert np.float64(0.123456789012345).tobytes() not in stored
        assert b"book.sqlite" not in stored
        again = pickle.loads(stored)
        assert again.certificate == model.certificate
        assert {k: v.tobytes() for k, v in again.released.items()} == {
            k: np.asarray(v).tobytes() for k, v in model.released.items()
        }
        if unit == "edge":
            assert np.array_equal(again.predict(), model.predict())
        else:
            with pytest.raises(InputError, match="holds no predictions"):
                again.predict()
            assert np.array_equal(again.predict(graph, training_graph=True), model.predict())
    loaded = cb.load(tmp_path / "run")
    assert loaded.certificate == model.certificate
    unfitted = pickle.loads(pickle.dumps(Model("mlp-dp", cb.Budget(4.0, 1e-5, "node"), seed=3, clip=0.2)))
    assert (unfitted.settings["clip"], unfitted._streams.seed) == (0.2, 3)


def test_a_model_without_privacy_does_not_carry_the_graph_either(tmp_path: Path) -> None:
    """GraphSAGE without noise is trained on the graph itself, which is what its private twin releases."""
    model = Model("sage-inf", NO_PRIVACY, hidden=4, epochs=2).fit(GRAPH)
    model.save(tmp_path / "run")
    u, v = GRAPH.edge_index
    edges = {(int(a), int(b)) for a, b in zip(u, v, strict=True) if a < b}
    for kept in (
        pickle.loads(pickle.dumps(model)).state,
        copy.deepcopy(model).state,
        cb.load(tmp_path / "run").state,
    ):
        for array in (*kept.released.values(), *kept.weights.values()):
            pairs = array if array.ndim == 2 and len(array) == 2 else np.empty((2, 0))
            assert not edges & {(int(a), int(b)) for a, b in pairs.T}


# -- the command line ------------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_spent_graph_is_not_released_again_under_another_name(tmp_path: Path) -> None:
    """In memory, then from files with the columns of the edge table swapped, in another order and another precision."""
    book = tmp_path / "book.sqlite"
    cb.release(
        GRAPH, cb.ContractiveGraphLayer(0.9), hops=1, budget=BUDGET, bounds=cb.Bounds(degree_floor=5), ledger=book
    )
    u, v = GRAPH.edge_index
    pairs = np.stack([v[u < v], u[u < v]], axis=1)[::-1]
    np.save(tmp_path / "edges.npy", np.concatenate([pairs, pairs[:7]]))
    for kind in (np.float32, np.float64):
        np.save(tmp_path / "x.npy", np.asarray(GRAPH.features, dtype=kind))
        with pytest.raises(LedgerError, match="known to this ledger as 'survey'"):
            run(
                *("propagate", "--edges", str(tmp_path / "edges.npy"), "--features", str(tmp_path / "x.npy")),
                *("--out", str(tmp_path / "out.npy"), "--hops", "1", "--degree-floor", "9", "--seed", "4"),
                *("--name", "other", "--ledger", str(book)),
            )
    assert len(Ledger(book).entries()) == 1
    assert not (tmp_path / "out.npy").exists()


# -- one ledger, one entry -------------------------------------------------------------------------------------------------


def test_a_new_ledger_is_not_made_without_a_word(tmp_path: Path) -> None:
    """A ledger that was deleted, or a path with a slip of the pen, would be a budget that starts afresh."""
    with pytest.warns(UserWarning, match=r"book.sqlite: is new, so it knows of no budget .* release of 'survey'"):
        embeddings(GRAPH, tmp_path / "book.sqlite", tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embeddings(GRAPH, tmp_path / "book.sqlite", tmp_path)
        with pytest.raises(UserWarning, match="is new"):
            embeddings(GRAPH, tmp_path / "bok.sqlite", tmp_path)
    assert not (tmp_path / "bok.sqlite").exists()


def test_a_number_alone_is_no_proof_that_a_release_was_charged(book: Ledger, tmp_path: Path) -> None:
    """An entry under another name, or at another cost, is not the entry of this certificate."""
    certificate = fitted(GRAPH, None, tmp_path)
    cheap = [EpsilonDelta(0.0)]
    book.charge("other", "edge", cheap, description="edited", certificate_id=certificate.certificate_id)
    account = Account(book, "survey")
    assert not account.holds(certificate)
    with pytest.raises(LedgerError, match="with another cost"):
        account.charge(certificate, GRAPH, "a fit", False, None)
    with pytest.raises(LedgerError, match="does not hold certificate"):
        account.mark_released(certificate)


def test_two_releases_at_once_do_not_share_the_last_of_a_budget(book: Ledger, tmp_path: Path) -> None:
    """Both have made their certificate and their fingerprint before either charges; one is refused, and draws nothing."""
    book.set_budget("survey", BUDGET)
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(2), context.Queue()

    def leave() -> None:
        original = Ledger.charge

        def wait(self: Ledger, *arguments: Any, **fields: Any) -> Any:
            barrier.wait(60)
            return original(self, *arguments, **fields)

        Ledger.charge = wait  # type: ignore[method-assign]
        try:
            results.put(embeddings(GRAPH, book.path, tmp_path).certificate_id)
        except BudgetExceeded:
            results.put("refused")

    writers = [context.Process(target=leave) for _ in range(2)]
    for writer in writers:
        writer.start()
    found = [results.get(timeout=60) for _ in writers]
    for writer in writers:
        writer.join(60)
    (entry,) = book.entries()
    assert sorted(found, key=len) == ["refused", entry.certificate_id]
    assert entry.status == "released"


def test_every_edge_level_plan_declares_its_features() -> None:
    """Of all methods: the features are listed as free of edges at edge level; at node level they are private and not."""
    graph = cb.datasets.load("csbm:nodes=60,features=4")
    named = cb.Graph.from_edges(
        graph.features, graph.edge_index, graph.labels, graph.split, classes=4, feature_names=["a", "b", "c", "d"]
    )
    for name, info in METHODS.items():
        budget = cb.Budget(4.0 if info.private else math.inf, 1e-5, info.unit)
        plan = cb.Model(name, budget).plan(named)
        stated = [a.parameters for a in plan.assumptions if a.name.value == "features without edges"]
        expected = [{"columns": 4, "names": ["a", "b", "c", "d"]}] if info.unit is cb.PrivacyUnit.EDGE else []
        assert stated == expected, name


def test_embeddings_declare_features_and_refuse_learned_columns_at_node_level() -> None:
    nodes = pd.DataFrame({"id": range(12), "age": range(12), "kind": ["x", "y"] * 6})
    edges = pd.DataFrame({"a": [0, 1], "b": [1, 2]})
    layer, seeded = cb.ContractiveGraphLayer(), cb.NoiseSource.seeded(1)
    learned = cb.Graph.from_tables(edges, nodes, rules=cb.ColumnRules(categories={"kind": None}))
    made = cb.release(learned, layer, hops=1, budget=cb.Budget(4, 1e-5, "edge"), noise=seeded).certificate
    (stated,) = [a for a in made.assumptions if a.name.value == "features without edges"]
    assert stated.parameters["names"] == ["age", "kind=x", "kind=y"]
    with pytest.raises(InputError, match=r"--range age=LOW:HIGH.*--category kind=a,b,c"):
        cb.release(learned, layer, hops=1, budget=cb.Budget(4, 1e-5, "node"), noise=cb.NoiseSource.seeded(1))
    rules = cb.ColumnRules(categories={"kind": ["x", "y"]}, ranges={"age": (0, 20)})
    declared = cb.Graph.from_tables(edges, nodes, rules=rules)
    made = cb.release(declared, layer, hops=1, budget=cb.Budget(4, 1e-5, "node"), noise=cb.NoiseSource.seeded(1))
    assert made.certificate.public_parameters["column_rules"] == rules.to_dict()


def test_words_of_an_entry_come_with_the_path_of_the_ledger(tmp_path: Path) -> None:
    """Wherever a ledger can be given; the certificate names the period, too."""
    noted = cb.NotedLedger(
        tmp_path / "book.sqlite", purpose="scores", person="ada", period="2026-11", reason="new edges"
    )
    with pytest.warns(UserWarning, match="is new"):
        certificate = embeddings(GRAPH, noted, tmp_path)
    stated = {key: certificate.public_parameters[key] for key in ("dataset", "purpose", "period")}
    assert stated == {
        "dataset": "survey",
        "purpose": "scores",
        "period": "2026-11",
    }
    fewer = GRAPH.without_edge(*map(int, GRAPH.edge_index[:, 5]))
    Model("gap-edp", BUDGET).fit(fewer, ledger=noted, replace_fingerprint=True)
    book = Ledger(tmp_path / "book.sqlite")
    assert [(e.purpose, e.person, e.period) for e in book.entries()] == [("scores", "ada", "2026-11")] * 2
    assert {
        (c.person, c.reason) for c in book.history("survey")[1:] if isinstance(c, ContentChange) and c.replaced
    } == {("ada", "new edges")}
    with pytest.raises(InputError, match="person must be 1 to 500 printable"):
        cb.NotedLedger("book.sqlite", person=" ")


def test_an_infinite_budget_does_not_let_a_known_seed_be_charged_as_noise(tmp_path: Path) -> None:
    """What a ledger counts are the events of the plan, so these must hold."""
    graph = cb.datasets.load("csbm:nodes=60", seed=0)
    plan = ReleasePlan(
        cb.Budget(math.inf), (own_mechanism("a", "moves by 1", "edge", EpsilonDelta(0.1)),), ("a",), "a test"
    )
    with pytest.raises(InputError, match="noise must come from the operating system"):
        execute(plan, graph, lambda _: Drawn(None), noise=NoiseSource.seeded(0), ledger=tmp_path / "ledger.sqlite")
    assert not (tmp_path / "ledger.sqlite").exists()
