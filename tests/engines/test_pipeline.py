"""A release from files: charged once, the same noise after a crash, whole or not at all, nothing left behind."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caribou.engines import pipeline as module
from caribou.engines.blocks import Layout, StateFile
from caribou.engines.pipeline import Request, release_files
from caribou.errors import CaribouError, DataError, InputError, LedgerError, RunError
from caribou.mechanisms.noise_source import RunKey
from caribou.model.verify import verify
from caribou.privacy.budget import Budget
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from caribou.tables.ids import NodeIds
from caribou.tables.queries import Query
from caribou.tables.rules import ColumnRules
from engines_support import COLUMNS, NODES, Tables, dying_in, killed


def seeded() -> RunKey:
    return RunKey.seeded(5)


def leftovers(tables: Tables) -> set[str]:
    return {path.name for path in tables.folder.iterdir()} - {"edges.npy", "features.npy"}


@pytest.mark.parametrize("engine", ["local", "outofcore"])
def test_release_is_certified_and_leaves_nothing_else(tables: Tables, engine: str) -> None:
    request = tables.request(engine=engine)
    result = release_files(request)
    assert np.load(request.out).shape == (NODES, COLUMNS)
    assert leftovers(tables) == {"out.npy", "out.certificate.json"}
    stored = Certificate.load(request.certificate_path)
    assert stored == result.certificate
    assert verify(stored).passed
    assert stored.mechanisms[0].details["arithmetic"]["storage"] == "single"
    assert result.resumed_at is None


def test_single_storage_cannot_pass_as_double(tables: Tables) -> None:
    record = release_files(tables.request()).certificate.to_dict()
    record["mechanisms"][0]["details"]["arithmetic"]["storage"] = "double"
    assert not verify(Certificate.from_dict(record)).passed


def test_the_groups_of_a_parquet_file_do_not_tell_of_the_blocks(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are as large as edges and memory allow: one edge more can halve them."""
    import pyarrow.parquet as pq

    monkeypatch.setattr(module, "ROW_GROUP", 1500)
    found = []
    for shift in (10, 12, 16):
        monkeypatch.setattr(module.Memory, "layout", lambda _, nodes, columns, __, s=shift: Layout(nodes, columns, s))
        release_files(tables.request(f"{shift}.parquet"), new_key=seeded)
        file = pq.ParquetFile(tables.folder / f"{shift}.parquet")
        found.append([file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)])
    assert found == [[1500, 1500, 1500, NODES - 4500]] * 3


def test_a_run_is_not_finished_with_another_calibration_or_version(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same noise at two scales cancels out: two results would give the state away."""
    request = tables.request(engine="outofcore")
    killed(lambda: release_files(request, progress=dying_in(2)))
    original = module._calibrated
    with monkeypatch.context() as patch:
        patch.setattr(module, "_calibrated", lambda *a: louder(original(*a)))
        with pytest.raises(RunError, match="another noise"):
            release_files(request)
    with monkeypatch.context() as patch:
        patch.setattr(module, "__version__", "99")
        with pytest.raises(RunError, match="another version"):
            release_files(request)
    release_files(request)


# -- one key, two results -----------------------------------------------------------------------------------------------

VICTIM = 2000
SHALLOW = {"hops": 1, "alpha1": 1.0, "beta": 0.0, "degree_floor": 4000, "budget": Budget(0.01, 1e-6)}


def without_victim(tables: Tables) -> np.ndarray:
    """The edges of the neighbouring graph in which a node has none."""
    return tables.pairs[~(tables.pairs == VICTIM).any(axis=1)]


def few_hops(tables: Tables, out: str, **changes: Any) -> Request:
    """A request whose result depends on an edge in the rows of its two ends alone, but for the noise."""
    return tables.request(out, **{**SHALLOW, **changes})


def rows_that_differ(one: Path, other: Path) -> np.ndarray:
    """The attack: what two results have in common cancels out, the noise above all."""
    return np.flatnonzero((np.load(one) != np.load(other)).any(axis=1))


def neighbours(tables: Tables) -> np.ndarray:
    pairs = tables.pairs[(tables.pairs == VICTIM).any(axis=1) & (tables.pairs[:, 0] != tables.pairs[:, 1])]
    return np.unique(pairs)


def fixed_key() -> RunKey:
    """The same secret key again and again, as two processes with one key file have it."""
    return RunKey(bytes(range(32)), origin="the operating system", is_secret=True)


@pytest.mark.parametrize("engine", ["local", "outofcore"])
def test_two_results_under_one_key_do_not_show_the_neighbours_of_a_node(tables: Tables, engine: str) -> None:
    """At epsilon = 0.01 the rows in which two results differed once were a node and its neighbours, exactly."""
    requests = [few_hops(tables, f"{name}.npy", engine=engine) for name in ("with", "without", "again")]
    release_files(requests[0], new_key=fixed_key)
    np.save(tables.edges, without_victim(tables))
    release_files(requests[1], new_key=fixed_key)
    found = rows_that_differ(requests[0].out, requests[1].out)
    assert len(neighbours(tables)) < 100
    assert len(found) == NODES, "every row has other noise"
    np.save(tables.edges, tables.pairs)
    release_files(requests[2], new_key=fixed_key)
    assert len(rows_that_differ(requests[0].out, requests[2].out)) == 0, (
        "the same plan on the same graph is the same result"
    )


@pytest.mark.parametrize(
    "change",
    [
        {"budget": Budget(0.02, 1e-6)},
        {"budget": Budget(0.01, 1e-7)},
        {"contraction": 0.8},
        {"beta": 0.1},
        {"degree_floor": 4001},
        {"hops": 2},
    ],
)
def test_another_plan_under_one_key_has_other_noise(tables: Tables, change: dict[str, Any]) -> None:
    """Two budgets, one key: T / s - T' / s' would be free of noise. At this epsilon a row is its noise, projected."""
    one, other = few_hops(tables, "one.npy"), few_hops(tables, "other.npy", **change)
    for request in (one, other):
        release_files(request, new_key=fixed_key)
    first, second = np.load(one.out).ravel(), np.load(other.out).ravel()
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(first))


def test_other_start_rows_have_other_noise_however_small_the_difference(tables: Tables) -> None:
    """Features that a fingerprint in single precision takes for the same."""
    one, other = few_hops(tables, "one.npy"), few_hops(tables, "other.npy")
    for request in (one, other):
        release_files(request, new_key=fixed_key)
        np.save(tables.rows, tables.features.astype(np.float32))
    assert len(rows_that_differ(one.out, other.out)) == NODES


@pytest.mark.parametrize(
    ("change", "words"),
    [({"budget": Budget(2.0, 1e-6)}, "another plan"), ({"seed": 1}, "another plan or another graph")],
)
def test_a_run_is_bound_to_its_plan_even_if_its_request_is_forgotten(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], words: str
) -> None:
    """A record that names neither budget nor anything else: the key itself remembers what it was used for."""
    monkeypatch.setattr(module, "_identity", lambda *_: {})
    request = tables.request(engine="outofcore")
    killed(lambda: release_files(request, progress=dying_in(2)))
    with pytest.raises(RunError, match=words):
        release_files(tables.request(engine="outofcore", **change))
    release_files(request)


@pytest.mark.parametrize("file", ["block-000001.columns", "block-000000.starts", "x0.state", "round-1.state"])
def test_a_run_is_not_finished_on_other_blocks_or_another_state(tables: Tables, file: str) -> None:
    request = tables.request(engine="outofcore")
    killed(lambda: release_files(request, progress=dying_in(2)))
    path = request.work / file
    before = path.read_bytes()
    path.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(RunError, match="not those of the interrupted run"):
        release_files(request)
    path.write_bytes(before)
    release_files(request)


def louder(calibrated: Any) -> Any:
    return dataclasses.replace(calibrated, noise_std=1.01 * calibrated.noise_std)


@pytest.mark.parametrize("there", ["out.npy", "out.certificate.json"])
def test_a_finished_release_is_not_replaced_or_charged_again(tables: Tables, there: str) -> None:
    request, ledger = tables.request(), Ledger(tables.folder / "ledger.sqlite")
    release_files(request, ledger=ledger)
    for path in (request.out, request.certificate_path):
        if path.name != there:
            path.unlink()
    before = (tables.folder / there).read_bytes()
    with pytest.raises(InputError, match="out must be a new file"):
        release_files(request, ledger=ledger)
    assert (tables.folder / there).read_bytes() == before
    assert len(ledger.entries()) == 1
    assert leftovers(tables) == {there, "ledger.sqlite"}


@pytest.mark.parametrize(("engine", "every", "resumed"), [("local", 10, 0), ("local", 0, 2), ("outofcore", 10, 2)])
def test_a_killed_run_is_finished_with_the_same_noise(
    tables: Tables, engine: str, every: float, resumed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STORED_EVERY", every)
    whole = tables.request("whole.npy", engine=engine)
    release_files(whole, new_key=seeded)
    request = tables.request(engine=engine)
    killed(lambda: release_files(request, new_key=seeded, progress=dying_in(3)))
    assert not request.out.exists()
    assert stat.S_IMODE(request.work.stat().st_mode) == 0o700
    assert stat.S_IMODE((request.work / "key").stat().st_mode) == 0o600
    # another key is offered, and must not be taken
    result = release_files(request, new_key=RunKey.secure)
    assert result.resumed_at == resumed
    assert np.array_equal(np.load(request.out), np.load(whole.out))
    assert leftovers(tables) == {"out.npy", "out.certificate.json", "whole.npy", "whole.certificate.json"}


def _die_before_the_charge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "charge", lambda *_, **__: os._exit(9))


def _die_after_the_charge(patch: pytest.MonkeyPatch) -> None:
    charge = Ledger.charge

    def charge_and_die(*arguments: Any, **named: Any) -> None:
        charge(*arguments, **named)
        os._exit(9)

    patch.setattr(Ledger, "charge", charge_and_die)


def _die_with_the_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(module, "runner_of", lambda *_: os._exit(9))


def _die_after_the_result(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Certificate, "save", lambda *_: os._exit(9))


@pytest.mark.parametrize(
    "die", [_die_before_the_charge, _die_after_the_charge, _die_with_the_key, _die_after_the_result]
)
@pytest.mark.parametrize("engine", ["local", "outofcore"])
def test_a_killed_run_is_charged_once(
    tables: Tables, engine: str, die: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    request, path = tables.request(engine=engine), tables.folder / "ledger.sqlite"
    with monkeypatch.context() as patch:
        die(patch)
        killed(lambda: release_files(request, ledger=path))
    released = np.load(request.out) if request.out.exists() else None
    result = release_files(request, ledger=path)
    (entry,) = Ledger(path).entries()
    assert (entry.certificate_id, entry.status) == (result.certificate.certificate_id, "released")
    assert released is None or np.array_equal(released, np.load(request.out))
    assert not request.work.exists()


def test_a_refused_release_makes_no_ledger(tables: Tables) -> None:
    path, request = tables.folder / "ledger.sqlite", tables.request(engine="outofcore")
    with pytest.raises(InputError, match="dataset must be a name of 1 to 500 letters"):
        release_files(tables.request(name=" graph"), ledger=path)
    with pytest.raises(InputError, match="operating system"):
        release_files(request, ledger=path, new_key=seeded)
    with pytest.raises(LedgerError, match="in a folder that exists"):
        release_files(request, ledger=tables.folder / "nowhere" / "ledger.sqlite")
    np.save(tables.edges, [[0, NODES]])
    with pytest.raises(DataError, match="row 0"):
        release_files(request, ledger=path)
    assert leftovers(tables) == set()
    np.save(tables.edges, tables.pairs)
    killed(lambda: release_files(request, progress=dying_in(2)))
    with pytest.raises(RunError, match="ledger must be that of the interrupted run"):
        release_files(request, ledger=path)
    assert not path.exists()


def test_a_ledger_that_has_gone_is_not_made_anew(tables: Tables) -> None:
    request, path = tables.request(engine="outofcore"), tables.folder / "ledger.sqlite"
    killed(lambda: release_files(request, ledger=path, progress=dying_in(2)))
    path.unlink()
    with pytest.raises(LedgerError, match="does not exist"):
        release_files(request, ledger=path)
    assert not path.exists()


class _FullDisk:
    """Writing fails from some moment on, as on a full disk."""

    def __init__(self, write: Callable[..., None], after: int) -> None:
        self.write, self.left = write, after

    def __call__(self, *arguments: Any) -> None:
        if self.left == 0:
            raise OSError(errno.ENOSPC, "No space left on device", "somewhere")
        self.left -= 1
        self.write(*arguments)


def test_a_full_disk_leaves_no_partial_release(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    request, ledger = tables.request(engine="outofcore"), Ledger(tables.folder / "ledger.sqlite")
    full = _FullDisk(StateFile.write, 10)  # three blocks each of X^(0), y^(0) and the first round, one of the second
    with monkeypatch.context() as patch:
        patch.setattr(StateFile, "write", lambda self, first, rows: full(self, first, rows))
        with pytest.raises(RunError, match="No space left"):
            release_files(request, ledger=ledger)
    assert leftovers(tables) == {"ledger.sqlite", ".out.npy.work"}
    states = {path.name for path in request.work.glob("*.state")}
    assert states == {"x0.state", "round-1.state"}  # of the round that failed nothing is kept
    with monkeypatch.context() as patch:
        patch.setattr(module, "_write_npy", _FullDisk(lambda *_: None, 0))
        with pytest.raises(RunError, match="No space left"):
            release_files(request, ledger=ledger)
    assert not request.out.exists()
    release_files(request, ledger=ledger)
    assert len(ledger.entries()) == 1
    assert leftovers(tables) == {"ledger.sqlite", "out.npy", "out.certificate.json"}


def test_a_disk_too_small_is_refused_before_the_charge(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tables.folder / "ledger.sqlite")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    with pytest.raises(RunError, match="MB free"):
        release_files(tables.request(), ledger=ledger)
    assert leftovers(tables) == {"ledger.sqlite"}
    assert ledger.entries() == ()


def test_what_does_not_fit_is_named(tables: Tables) -> None:
    for change in ({"memory": 10**9}, {"address": "auto"}, {"engine": "spark"}, {"workers": 0}, {"hops": 0}):
        with pytest.raises(InputError) as refused:
            tables.request(**change)
        assert refused.value.field == next(iter(change))
    for out in ("out.csv", "nowhere/out.npy"):
        with pytest.raises(InputError) as refused:
            tables.request(out)
        assert refused.value.field == "out"


def test_no_edge_reaches_a_log_or_an_error(
    tables: Tables, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    secret = [[4321, 1234], [4321, 987654321]]
    with caplog.at_level(logging.DEBUG):
        np.save(tables.edges, np.array(secret[:1]))
        release_files(tables.request())
        np.save(tables.edges, np.array(secret))
        with pytest.raises(CaribouError) as problem:
            release_files(tables.request("refused.npy"))
    said = "".join(
        [*capfd.readouterr(), caplog.text, str(problem.value), Path(tables.request().certificate_path).read_text()]
    )
    # as a number of its own: the digits of a digest or of a clock may hold any four digits by chance
    assert not any(re.search(rf"(?<![\w.]){number}(?!\w)", said) for number in (4321, 1234))
    # what is no node is no end of an edge: it is named, with its row, and nowhere but in the error
    assert str(problem.value).endswith("got 987654321")
    assert said.count("987654321") == 1


def test_without_privacy_no_noise_is_added(tables: Tables) -> None:
    first, second = (tables.request(out, budget=Budget(float("inf"), 1e-6)) for out in ("one.npy", "two.npy"))
    assert release_files(first).certificate.status == "no privacy"
    release_files(second)
    assert np.array_equal(np.load(first.out), np.load(second.out))


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_twenty_releases_do_not_grow(tables: Tables) -> None:
    """Files, open descriptors, threads and memory after 20 releases are those after the first few."""
    import resource

    requests: list[Request] = [tables.request(engine=engine) for engine in ("local", "outofcore")]

    def release_and_take(request: Request) -> None:
        release_files(request)
        request.out.unlink()
        request.certificate_path.unlink()

    for request in requests * 2:
        release_and_take(request)
    before = (leftovers(tables), _open_files(), threading.active_count())
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for request in requests * 10:
        release_and_take(request)
    assert (leftovers(tables), _open_files(), threading.active_count()) == before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < memory + 30_000  # kB


# -- sources: the same graph from wherever it comes -----------------------------------------------------------------------

NAMES = [f"acc-{(k * 7919) % NODES:05d}" for k in range(NODES)]


def written(tables: Tables, names: list[Any]) -> dict[str, tuple[Any, Any]]:
    """The graph of the tables in every kind of source, nodes called by these names."""
    import duckdb
    import fsspec
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    ids = pa.array(names)
    features = {f"x{k:02d}": column for k, column in enumerate(tables.features.T)}
    edges = pa.table(
        {"source": ids.take(pa.array(tables.pairs[:, 0])), "target": ids.take(pa.array(tables.pairs[:, 1]))}
    )
    nodes = pa.table({"id": ids, **features})
    folder = tables.folder / "sources"
    for part in range(2):
        (folder / f"{part}").mkdir(parents=True)
    for name, table in (("edges", edges), ("nodes", nodes)):
        pq.write_table(table, folder / f"{name}.parquet")
        csv.write_csv(table, folder / f"{name}.csv")
        fsspec.filesystem("memory").pipe(f"/graph/{name}.csv", (folder / f"{name}.csv").read_bytes())
    half = len(edges) // 2
    pq.write_table(edges.slice(half), folder / "0/e.parquet")
    pq.write_table(edges.slice(0, half), folder / "0/f.parquet")
    with duckdb.connect(str(folder / "graph.duckdb")) as database:
        database.execute(f"CREATE TABLE nodes AS FROM '{folder}/nodes.parquet'")
        database.execute(f"CREATE TABLE edges AS FROM '{folder}/edges.parquet'")
    queries = [Query(f"FROM {word}", str(folder / "graph.duckdb"), word) for word in ("edges", "nodes")]
    return {
        "parquet": (folder / "edges.parquet", folder / "nodes.parquet"),
        "folder": (folder / "0", folder / "nodes.csv"),
        "csv": (folder / "edges.csv", folder / "nodes.csv"),
        "memory": ("memory://graph/edges.csv", "memory://graph/nodes.csv"),
        "address": (f"file://{folder}/edges.parquet", folder / "nodes.parquet"),
        "duckdb": (queries[0], queries[1]),
    }


@pytest.mark.parametrize("buckets", [1, 5])
def test_every_source_gives_the_same_bytes_and_the_same_fingerprint(
    tables: Tables, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(NodeIds, "groups", lambda self, room: buckets)
    contents, prepare = [], module.prepare

    def noted(*tables: Any, **how: Any) -> Any:
        contents.append(prepare(*tables, **how))
        return contents[-1]

    monkeypatch.setattr(module, "prepare", noted)
    plain = tables.request("plain.npy")
    release_files(plain, new_key=seeded)
    sources = written(tables, NAMES)
    chosen = sources if buckets == 1 else {"csv": sources["csv"]}
    results = set()
    for name, (edges, features) in chosen.items():
        request = dataclasses.replace(tables.request(f"{name}.parquet"), edges=edges, features=features)
        release_files(request, new_key=seeded)
        results.add(request.out.read_bytes())
        assert leftovers(tables) & {f".{name}.parquet.work"} == set()
    assert len(results) == 1
    assert {prepared.content for prepared in contents} == {contents[0].content}, (
        "what a ledger's fingerprint is made of"
    )
    table = pq.read_table(tables.folder / "csv.parquet")
    assert table["node"].to_pylist() == NAMES
    rows = np.stack([column.to_numpy() for column in table.columns[1:]], axis=1)
    assert np.array_equal(rows, np.load(plain.out))


def test_a_killed_run_with_ids_is_finished_with_the_same_bytes(tables: Tables) -> None:
    edges, features = written(tables, NAMES)["duckdb"]
    whole, half = (
        dataclasses.replace(tables.request(name, engine="outofcore"), edges=edges, features=features)
        for name in ("whole.parquet", "half.parquet")
    )
    release_files(whole, new_key=seeded)
    killed(lambda: release_files(half, new_key=seeded, progress=dying_in(2)))
    kept = {path.suffix for path in half.work.iterdir()}
    assert stat.S_IMODE(half.work.stat().st_mode) == 0o700
    assert not kept & {".parquet"}, "copies of the tables are gone"
    changed = dataclasses.replace(half, rules=ColumnRules(drop_unknown_ids=True))
    with pytest.raises(RunError, match="another rules"):
        release_files(changed)
    ids = half.work / "node.ids"
    stored = ids.read_bytes()
    ids.write_bytes(stored.replace(b"acc-00000", b"acc-99999"))
    with pytest.raises(RunError, match="the ids are not those of the interrupted run"):
        release_files(half)
    ids.write_bytes(stored)
    assert release_files(half).resumed_at == 1
    assert half.out.read_bytes() == whole.out.read_bytes()
    assert not half.work.exists()


def test_a_query_that_changes_between_two_readings_is_refused(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    edges, features = written(tables, NAMES)["duckdb"]
    request = dataclasses.replace(tables.request(), edges=edges, features=features)
    count = Query.count
    monkeypatch.setattr(Query, "count", lambda self: count(self) + (self.word == "nodes"))
    with pytest.raises(DataError, match=rf"must give the same rows twice, got {NODES + 1} and then {NODES}"):
        release_files(request)
    assert not request.work.exists()
