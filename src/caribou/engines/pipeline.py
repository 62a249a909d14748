"""A release from files: prepare, charge, run the rounds, put the result in its place, and leave nothing else behind."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from caribou import __version__
from caribou._validate import MAX_ROUNDS, MAX_WORKERS, integer, one_of
from caribou.engines import kernels
from caribou.engines.blocks import BlockFiles, Layout, regrouped
from caribou.engines.folder import WorkFolder
from caribou.engines.preparation import Memory, joined_digest, prepare, require_space, sums_of_start
from caribou.engines.rounds import Progress, Runner, mean_of, steps_of
from caribou.errors import InputError, RunError
from caribou.machine.files import atomic_file
from caribou.mechanisms.noise_source import BlockNoise, RunKey
from caribou.privacy.assumptions import features_without_edges
from caribou.privacy.budget import Budget, PrivacyUnit, warn_of_large_delta
from caribou.privacy.calibration import CalibratedPropagation, budget_mu, calibrate_propagation
from caribou.privacy.certificate import Certificate
from caribou.privacy.plan import ReleasePlan
from caribou.privacy.sensitivity import declared_bounds, layer_sensitivity
from caribou.randomness import Streams
from caribou.release import Account, Drawn, LedgerLike, embeddings_plan, execute
from caribou.tables.edges import EdgeArray, EdgeTable, open_edges, with_row_numbers
from caribou.tables.ids import NodeIds
from caribou.tables.nodes import NodeArray, NodeTable, open_nodes
from caribou.tables.read import Titles
from caribou.tables.rules import ColumnRules
from caribou.tables.sources import Source, identity_of, stamp_of

ENGINES = ("local", "outofcore", "ray")
ENDINGS = (".parquet", ".npy")
STORED_EVERY = 10.0
"""Seconds of rounds that an interrupted run may repeat where states are in memory: to store a state costs half a round."""
ROW_GROUP = 1 << 16
"""Rows per group of a Parquet result, whatever the blocks were."""


@dataclass(frozen=True)
class Request:
    """What is to be released, from which sources, under which promise, by which engine.

    ``contraction``, ``alpha1`` and ``beta`` as in `ContractiveGraphLayer`; floor and cap as in `Bounds`. ``memory``: bytes for
    the whole process (out of core); ``workers``: threads, or actors of ``address``. ``name``: of the data set, in the ledger.
    ``titles`` and ``rules``: how tables are read.
    """

    edges: Source
    features: Source
    out: Path
    budget: Budget
    hops: int
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 0.0
    degree_floor: int | None = None
    degree_cap: int | None = None
    declared_degree: int | None = None
    seed: int = 0
    engine: str = "local"
    memory: int | None = None
    workers: int = 1
    address: str | None = None
    name: str = "graph"
    titles: Titles = field(default_factory=Titles)
    rules: ColumnRules = field(default_factory=ColumnRules)

    def __post_init__(self) -> None:
        check_engine(self.engine, self.memory, self.workers, self.address)
        integer(at_least=1, at_most=MAX_ROUNDS, hops=self.hops)
        if self.out.suffix not in ENDINGS:
            raise InputError(f"out must end in {' or '.join(ENDINGS)}, got {str(self.out)!r}")
        parent = self.out.absolute().parent
        if not parent.is_dir() or self.out.is_dir() or not os.access(parent, os.W_OK):
            raise InputError(f"out must be a file in a folder that can be written, got {str(self.out)!r}")

    @property
    def certificate_path(self) -> Path:
        """Where the certificate is written: beside the result."""
        return self.out.with_suffix(".certificate.json")

    @property
    def work(self) -> Path:
        """The private folder of the run: beside the result."""
        return self.out.absolute().with_name(f".{self.out.name}.work")

    def identity(self) -> dict[str, Any]:
        """What a resumed run must have in common with the one that was interrupted."""
        inputs = [(identity_of(source), stamp_of(source)) for source in (self.edges, self.features)]
        layer = (self.hops, self.contraction, self.alpha1, self.beta)
        numbers = (*layer, self.degree_floor, self.degree_cap, self.declared_degree, self.seed)
        return {
            "inputs": [list(entry) for entry in inputs],
            "out": str(self.out.absolute()),
            "budget": [str(self.budget.epsilon), self.budget.delta, self.budget.unit.value],
            "parameters": list(numbers),
            "engine": [self.engine, self.memory],
            "name": self.name,
            "titles": vars(self.titles),
            "rules": self.rules.to_dict(),
            "loops": kernels.name(),
        }


def check_engine(engine: str, memory: int | None, workers: int, address: str | None) -> None:
    """An engine by name, with options that belong to it."""
    one_of(ENGINES, engine=engine)
    integer(at_least=1, at_most=MAX_WORKERS, workers=workers)
    if engine != "outofcore" and memory is not None:
        raise InputError(f"memory must go with the engine outofcore, got {engine}")
    if engine != "ray" and address is not None:
        raise InputError(f"address must go with the engine ray, got {engine}")


def _require_new(request: Request, *, may_be_ours: bool) -> None:
    """A finished release is never replaced: it cannot be had again for free. An interrupted run may have put its own there."""
    for path in (request.out, request.certificate_path):
        if path.exists() and not may_be_ours:
            raise InputError(
                f"out must be a new file with a new certificate beside it, got {str(path)!r}, which exists"
            )


def _require_own_certificate(request: Request, folder: WorkFolder) -> None:
    """A certificate that lies there already must be that of this run: another release may have come between."""
    if request.certificate_path.exists():
        stored = Certificate.load(request.certificate_path).certificate_id
        if stored != folder.record["certificate"]["certificate_id"]:
            raise InputError(f"{request.certificate_path} must be that of this release, got the one of another")


def _identity(request: Request, calibrated: CalibratedPropagation) -> dict[str, Any]:
    """Also what this version makes of the request: the same noise at two scales, or under two roundings, would cancel out."""
    return {**request.identity(), "noise": calibrated.noise_std, "version": __version__}


def _use(request: Request, calibrated: CalibratedPropagation, plan: ReleasePlan, folder: WorkFolder) -> bytes:
    """All that decides what noise is added to, from which the key of the noise is derived: another plan has other noise.

    It holds the promise, every number of every round, the bounds and the sizes, the graph and the start rows by their digests,
    the order in which edges are cut, and the arithmetic. It does not hold the engine and its blocks, which change no byte.
    """
    digests = folder.record["digests"]
    parts = {
        "budget": request.identity()["budget"],
        "mechanisms": [record.to_dict() for record in plan.mechanisms],
        "steps": [vars(step) for step in steps_of(calibrated)],
        "cap order": request.seed,
        "content": folder.record["content"],
        "start": [digests["x0"], digests["start"]],
        "arithmetic": [__version__, kernels.name()],
    }
    return json.dumps(parts, sort_keys=True).encode()


@dataclass(frozen=True)
class ReleasedFile:
    """The certificate of a finished release, and from which round it was resumed (None: it was not)."""

    certificate: Certificate
    resumed_at: int | None


@contextmanager
def _disk_errors() -> Iterator[None]:
    """What the disk refuses, wherever it does, in one line."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise RunError(f"the release was not made: {error.strerror or error}{where}") from error


@_disk_errors()
def release_files(
    request: Request,
    *,
    ledger: LedgerLike | None = None,
    replace_fingerprint: bool = False,
    progress: Progress = lambda *_: None,
    new_key: Callable[[], RunKey] = RunKey.secure,
) -> ReleasedFile:
    """Release X^(K) of the graph in the files under the whole budget, or finish a release that was interrupted.

    Formal guarantee: that of `mechanisms.message_passing.propagate`, with the arithmetic error of `single_storage`. The cost is
    charged once, before any noise is drawn; a resumed run draws the same noise. On failure nothing is at ``out``, and the private
    folder keeps only what is needed to finish; it is removed with the release, and when it fails before anything was charged. A
    ``ledger`` that is given by its path and is not there is made when something is charged in it, not before.
    """
    edges = open_edges(request.edges, request.titles, request.rules)
    features = open_nodes(request.features, request.titles, request.rules)
    calibrated = _calibrated(request, features)
    memory = Memory(request.memory)
    if ledger is not None:
        Account(ledger, request.name)  # a damaged ledger is refused before any work is done
    _require_new(request, may_be_ours=request.work.exists())
    folder = WorkFolder(request.work, _identity(request, calibrated))
    resumed = folder.record["round"] if folder.stage in ("charging", "running", "released") else None
    try:
        _require_new(request, may_be_ours=folder.stage in ("running", "released"))
        _require_own_certificate(request, folder)
        if folder.stage == "released":  # all that is missing is the note in the ledger and the removal of the folder
            certificate = Certificate.from_dict(folder.record["certificate"])
            if ledger is not None:
                Account(ledger, request.name).mark_released(certificate)
            _finish(folder)
            return ReleasedFile(certificate, resumed)
        files = _prepared(request, edges, features, calibrated, memory, folder)

        def run(key: RunKey) -> Drawn[None]:
            use = _use(request, calibrated, plan, folder)
            folder.bind(key, use)
            _run(request, calibrated, folder, files, memory, key.noise(use), progress)
            Certificate.from_dict(folder.record["certificate"]).save(request.certificate_path)
            folder.update(stage="released")
            return Drawn(None)

        plan = embeddings_plan(request.budget, calibrated, start="features", resumable=True)
        if request.budget.unit is PrivacyUnit.EDGE:
            declared = features_without_edges(calibrated.arithmetic.columns, None)
            plan = replace(plan, assumptions=(declared,))
        with _cluster(request, files.layout):
            released = execute(
                plan,
                _FileContent(request.name, tuple(bytes.fromhex(part) for part in folder.record["content"])),
                run,
                noise=folder.first_key(new_key) if folder.stage == "prepared" else folder.run_key(),
                ledger=ledger,
                replace_fingerprint=replace_fingerprint,
                journal=folder,
            )
        _finish(folder)
    finally:
        if folder.stage in ("preparing", "prepared"):
            folder.remove()
        folder.forget_incomplete_round()
        folder.close()
    return ReleasedFile(released.certificate, resumed)


def _finish(folder: WorkFolder) -> None:
    """The result is in its place, whether its private folder can be removed or not."""
    try:
        folder.remove()
    except OSError as error:
        warnings.warn(f"{folder.path} is as secret as the graph, and cannot be removed: {error.strerror}", stacklevel=3)


@dataclass(frozen=True)
class _FileContent:
    """The graph of the files, as a ledger knows it."""

    name: str
    parts: tuple[bytes, ...]

    def content(self) -> tuple[bytes, ...]:
        """The digests that the preparation computed."""
        return self.parts


def _calibrated(request: Request, features: NodeArray | NodeTable) -> CalibratedPropagation:
    n, d = features.nodes, features.columns
    bounds = declared_bounds(
        request.budget.unit,
        nodes=n,
        degree_floor=request.degree_floor,
        degree_cap=request.degree_cap,
        declared_degree=request.declared_degree,
    )
    warn_of_large_delta(request.budget, n)
    sensitivity = layer_sensitivity(
        request.budget.unit,
        contraction=request.contraction,
        alpha1=request.alpha1,
        beta=request.beta,
        bounds=bounds,
    )
    arithmetic = sensitivity.arithmetic(nodes=n, columns=d, storage="single")
    return calibrate_propagation(sensitivity, hops=request.hops, mu=budget_mu(request.budget), arithmetic=arithmetic)


def _prepared(
    request: Request,
    edges: EdgeArray | EdgeTable,
    features: NodeArray | NodeTable,
    calibrated: CalibratedPropagation,
    memory: Memory,
    folder: WorkFolder,
) -> BlockFiles:
    if folder.stage != "preparing":
        files = BlockFiles(folder.path, Layout(**folder.record["layout"]))
        _require_unchanged(files, folder)
        return files
    layout = memory.layout(features.nodes, features.columns, edges.count)
    features = features.fixed(folder.path)
    ids = features.ids(folder.path, memory.for_ids)
    states = 5 * 4 * layout.nodes * layout.columns + 8 * layout.nodes
    require_space(folder.path, edges.count, states + (0 if ids is None else ids.space(edges.count, memory.for_ids)))
    files = BlockFiles(folder.path, layout)
    bounds = calibrated.sensitivity.bounds
    prepared = prepare(
        with_row_numbers(edges, ids, request.rules, folder=folder.path, room=memory.for_ids),
        features,
        files,
        degree_floor=bounds.degree_floor,
        degree_cap=bounds.degree_cap,
        cap_key=int(Streams(request.seed).sampling.integers(2**63)),
        memory=memory,
    )
    x0, start = (files.state(name).digest().hex() for name in ("x0", "round-0"))
    digests = {"blocks": prepared.blocks.hex(), "x0": x0, "start": start, "state": start}
    content = [part.hex() for part in prepared.content]
    (folder.path / "nodes.parquet").unlink(missing_ok=True)
    kept = None if ids is None else ids.record()
    folder.update(stage="prepared", layout=vars(layout), content=content, digests=digests, ids=kept)
    return files


def _ids(folder: WorkFolder) -> NodeIds | None:
    """The ids that were read with the tables."""
    kept = folder.record["ids"]
    return None if kept is None else NodeIds.of_record(kept, folder.path)


def _require_unchanged(files: BlockFiles, folder: WorkFolder) -> None:
    """A resumed run draws the noise that it drew before: it must be added to the same blocks and the same state."""
    stored, number = folder.record["digests"], folder.record["round"]
    found = {
        "blocks": joined_digest(files.digest(index) for index in range(files.layout.blocks)).hex(),
        "x0": files.state("x0").digest().hex(),
        "state": files.state(f"round-{number}").digest().hex(),
    }
    ids = _ids(folder)
    if ids is not None:
        stored, found = {**stored, "ids": folder.record["ids"]["digest"]}, {**found, "ids": ids.digest().hex()}
    for name, digest in found.items():
        if stored[name] != digest:
            raise RunError(
                f"{folder.path}: the {name} are not those of the interrupted run; remove it with --discard (what is "
                "charged stays charged)"
            )


def _run(
    request: Request,
    calibrated: CalibratedPropagation,
    folder: WorkFolder,
    files: BlockFiles,
    memory: Memory,
    noise: BlockNoise,
    progress: Progress,
) -> None:
    """The rounds that are still to be run, and the result in its place."""
    done = int(folder.record["round"])
    runner = runner_of(request, files, noise, memory)
    try:
        layout = files.layout
        runner.start(files.state(f"round-{done}").shards())
        sums = folder.load_sums(done) if done else sums_of_start(files)
        on_disk, stored = request.engine == "outofcore", time.monotonic()
        for step in steps_of(calibrated)[done:]:
            sums = runner.round(step, mean_of(sums, layout.nodes, step), progress)
            if on_disk or time.monotonic() - stored > STORED_EVERY:
                _checkpoint(step.number, folder, files, sums, None if on_disk else runner.shards())
                stored = time.monotonic()
        shards = runner.shards() if done < calibrated.hops else files.state(f"round-{done}").shards()
        write_rows(shards, layout, request.out, _ids(folder))
    finally:
        runner.close()


def _checkpoint(
    number: int, folder: WorkFolder, files: BlockFiles, sums: np.ndarray, shards: Iterator[np.ndarray] | None
) -> None:
    """A complete round becomes the place to resume from; the file of the one before serves the next. ``shards``: to be stored."""
    state, before = files.state(f"round-{number}"), folder.record["round"]
    if shards is not None:
        state.store(shards)
    folder.save_sums(number, sums)
    folder.update(round=number, digests={**folder.record["digests"], "state": state.digest().hex()})
    files.state(f"round-{before}").retire()
    (folder.path / f"sums-{before}.npy").unlink(missing_ok=True)


def _cluster(request: Request, layout: Layout) -> AbstractContextManager[None]:
    """The Ray of a request, if it wants one: it is started, or not found, before anything is charged."""
    if request.engine != "ray":
        return nullcontext()
    from caribou.engines import ray

    return ray.started(min(request.workers, layout.blocks), request.address)


def runner_of(request: Request, files: BlockFiles, noise: BlockNoise, memory: Memory) -> Runner:
    """The engine by name."""
    layout, residual = files.layout, request.beta > 0
    if request.engine == "local":
        from caribou.engines.local import LocalRunner

        blocks = [files.read(index) for index in range(layout.blocks)]
        x0 = files.state("x0").read(0, layout.nodes) if residual else None
        return LocalRunner(layout, blocks, x0, noise, request.workers)
    elif request.engine == "outofcore":
        from caribou.engines.out_of_core import OutOfCoreRunner

        return OutOfCoreRunner(files, noise, residual=residual, sum_rows=memory.sum_rows(layout.columns))
    elif request.engine == "ray":
        from caribou.engines.ray import RayRunner

        return RayRunner(files, noise, residual=residual, workers=request.workers, address=request.address)
    raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {request.engine!r}")


def write_rows(shards: Iterator[np.ndarray], layout: Layout, out: Path, ids: NodeIds | None = None) -> None:
    """Write the released rows, whole or not at all: .npy, or Parquet with the columns node, x0, x1, ...

    ``node`` holds the ids of the node table in its order, or row numbers. An array has rows alone.
    """
    with atomic_file(out) as temporary:
        if out.suffix == ".npy":
            _write_npy(shards, layout, temporary)
        else:
            _write_parquet(shards, layout, temporary, ids)


def _write_npy(shards: Iterator[np.ndarray], layout: Layout, path: Path) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": (layout.nodes, layout.columns)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for rows in shards:
            file.write(_plain(rows).data)


def _write_parquet(shards: Iterator[np.ndarray], layout: Layout, path: Path, ids: NodeIds | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["node", *(f"x{k}" for k in range(layout.columns))]
    kind = pa.int64() if ids is None or ids.is_plain else pa.string()
    schema = pa.schema([("node", kind), *((name, pa.float32()) for name in names[1:])])
    # Groups of a fixed size: blocks are as large as edges and memory allow, and their number would tell of the edges.
    # Noise does not compress, and its values do not repeat: both would only cost time
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=["node"]) as writer:
        for node, rows in zip(_nodes(layout, ids), regrouped(shards, ROW_GROUP), strict=True):
            columns = [pa.array(_plain(rows[:, k])) for k in range(layout.columns)]
            writer.write_table(pa.table([node, *columns], schema=schema))


def _nodes(layout: Layout, ids: NodeIds | None) -> Iterator[Any]:
    """What names the rows of every group: ids, or row numbers."""
    import pyarrow as pa

    if ids is None:
        parts = (np.arange(*layout.span(index)) for index in range(layout.blocks))
    else:
        parts = (batch.to_numpy(zero_copy_only=False) for batch in ids.batches())
    return (pa.array(part) for part in regrouped(parts, ROW_GROUP))


def _plain(values: np.ndarray) -> np.ndarray:
    """Contiguous single precision without a negative zero, whose sign noise would not hide."""
    return np.ascontiguousarray(values, dtype="<f4") + np.float32(0)
