"""The state of a fitted model: what is saved, loaded, copied, pickled and extended. Never the graph, a seed or a hidden state.

    run.json              method, settings, budget, sizes, names of classes and columns, and the SHA-256 of the other files
    weights.safetensors   parameters of the models: trained on public data, or privately
    released.safetensors  what the mechanisms released
    certificate.json/.md  the promise
    nodes.json            names of the nodes (edge level only, where the node set is public)
    rows.json             of a model that can be extended, and has no names: digests of its rows of features under the owner's key
    extended.json         made when a run is extended, with the certificate of the extension: it must not be extended twice
    predictions/          what was released about other graphs, one folder each
    metrics.json          metrics of the test nodes, for the release page; published-metrics.json: with noise, and its certificate

A run is written whole or not at all. Reading checks every digest and the certificate: that finds damage and careless edits, not a
forger, who would write new digests.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caribou.errors import CaribouError, RunError
from caribou.machine.files import atomic_folder, atomic_write
from caribou.machine.owner import owner_key
from caribou.methods.base import Arrays, Fitted
from caribou.metrics import Threshold
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate
from caribou.privacy.documents import json_number
from caribou.tables.rules import ColumnRules

if TYPE_CHECKING:
    from caribou.graph import Graph
    from caribou.models.published_metrics import PublishedMetrics

FORMAT = 1
RECORD = "run.json"
WEIGHTS, RELEASED, CERTIFICATE = "weights.safetensors", "released.safetensors", "certificate.json"
NODES, ROWS = "nodes.json", "rows.json"
PREDICTIONS = "predictions"
METRICS = "metrics.json"
PUBLISHED, PUBLISHED_CERTIFICATE = "published-metrics.json", "published-metrics.certificate.json"


@dataclass(frozen=True, eq=False)
class ModelState:
    """A fitted method, as it leaves the process.

    Args:
        method, settings, budget: what was fitted.
        certificate, weights, released: what came out.
        nodes, columns: the size of the training graph.
        classes: their names, in the order of the columns of probabilities.
        node_ids: the names of the nodes, at edge level, where they are public.
        feature_names: of the feature columns, in their order.
        id_title: what the user calls the column of ``node_ids``.
        charged: whether the fit was charged in a ledger.
        dataset: the name under which a ledger knows the graph.
        batches: how many nodes came with each batch, in the order of the rows: who has been asked.
        threshold: the probability from which on a node is flagged.
        column_rules: how the node table was read, for the next one.
        extended: whether the model was extended.
        rows: digests of the rows of features, by which nodes without names are known again.
        releases: what was released about other graphs, by their keyed fingerprints; of a saved run without probabilities.
            Whoever has the run alone cannot test guesses for a graph, because the key lies elsewhere.
    """

    method: str
    settings: Mapping[str, Any]
    budget: Budget
    certificate: Certificate
    weights: Arrays
    released: Arrays
    nodes: int
    columns: int
    classes: tuple[str, ...]
    node_ids: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    id_title: str | None = None
    charged: bool = False
    dataset: str | None = None
    batches: tuple[int, ...] = ()
    threshold: Threshold | None = None
    column_rules: ColumnRules | None = None
    extended: bool = False
    rows: tuple[str, ...] | None = None
    releases: Mapping[str, Fitted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.batches:
            object.__setattr__(self, "batches", (self.nodes,))


# -- writing -----------------------------------------------------------------------------------------------------------


def write_state(state: ModelState, folder: str | os.PathLike[str]) -> Path:
    """Write a run into a new folder (or an empty one); on any failure or interruption nothing is left behind."""
    target = check_target(folder)
    try:
        with atomic_folder(target) as temporary:
            _write_files(state, temporary)
            for number, (fingerprint, release) in enumerate(state.releases.items()):
                place = temporary / PREDICTIONS / release.certificate.certificate_id
                place.mkdir(parents=True)
                _write_release(release, fingerprint, number, place)
    except OSError as error:
        raise RunError(f"run cannot be written to {target}: {error.strerror or error}") from error
    return target


def check_target(folder: str | os.PathLike[str]) -> Path:
    """A folder that a run can be written to: new or empty, in a folder that exists. Checked before anything is spent."""
    target = Path(folder).absolute()
    try:
        if not target.parent.is_dir():
            raise RunError.of("out", "lie in a folder that exists", str(folder))
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise RunError.of("out", "be a new or empty folder", str(folder))
    except OSError as error:  # such as a name of 300 letters
        raise RunError(f"out must be a folder that can be looked for, got {str(folder)!r}: {error.strerror}") from error
    require_writable(target.parent, str(folder))
    return target


def require_writable(folder: Path, given: str, field: str = "out") -> None:
    """Try to write into ``folder``: permissions may not tell the whole truth. ``given``: for ``field``, as the user gave it."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RunError(f"{field} must lie in a folder that can be written, got {given!r}: {error.strerror}") from error


def add_release(release: Fitted, fingerprint: str, folder: str | os.PathLike[str]) -> Path:
    """Add a release about another graph to a run; it is written whole or not at all."""
    target = Path(folder).absolute() / PREDICTIONS / release.certificate.certificate_id
    try:
        target.parent.mkdir(exist_ok=True)
        number = 1 + max((number for number, *_ in _release_records(target.parent)), default=-1)
        with atomic_folder(target) as temporary:
            _write_release(release, fingerprint, number, temporary)
    except OSError as error:
        raise RunError(f"run {folder}: the release cannot be kept in it: {error.strerror or error}") from error
    return target


def _write_files(state: ModelState, folder: Path) -> None:
    _write_arrays(state, folder)
    state.certificate.save(folder / "certificate.md")
    for name, words in ((NODES, state.node_ids), (ROWS, state.rows)):
        if words is not None:
            (folder / name).write_text(json.dumps(list(words)), encoding="utf-8")
    threshold, rules, budget = state.threshold, state.column_rules, state.budget
    record = {
        "format": FORMAT,
        "epsilon": json_number(budget.epsilon),
        "delta": budget.delta,
        "unit": budget.unit.value,
        **{name: getattr(state, name) for name in _KINDS},
        "threshold": None if threshold is None else asdict(threshold) | {"positive": state.classes[threshold.positive]},
        "column_rules": None if rules is None else rules.to_dict(),
        "files": _digests(folder),
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _write_release(release: Fitted, fingerprint: str, number: int, folder: Path) -> None:
    """``number``: which of the releases of a run it is, in their order; times of files change when they are copied."""
    _write_arrays(release, folder)
    record = {"fingerprint": fingerprint, "number": number, "files": _digests(folder)}
    (folder / "graph.json").write_text(json.dumps(record), encoding="utf-8")


def _write_arrays(made: ModelState | Fitted, folder: Path) -> None:
    from safetensors.numpy import save

    for name, arrays in ((WEIGHTS, made.weights), (RELEASED, made.released)):
        (folder / name).write_bytes(save({key: np.asarray(value, order="C") for key, value in arrays.items()}))
    made.certificate.save(folder / CERTIFICATE)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: _digest(path) for path in sorted(folder.iterdir())}


# -- reading -----------------------------------------------------------------------------------------------------------


def read_state(folder: str | os.PathLike[str]) -> ModelState:
    """Read a run; a missing, truncated or changed file is an error that names it."""
    base = Path(folder)
    if not os.path.isdir(base):  # false also for a name that no folder can have
        raise RunError.of("run", "be a folder", str(folder))
    record = _read_record(base)
    _check_files(base, record["files"])
    try:
        state = ModelState(
            budget=Budget(_number(record["epsilon"]), record["delta"], PrivacyUnit.parse(record["unit"])),
            node_ids=_read_words(base / NODES) if NODES in record["files"] else None,
            rows=_read_words(base / ROWS) if ROWS in record["files"] else None,
            releases=_read_releases(base / PREDICTIONS),
            **_read_arrays(base),
            **{name: _field(name, record.get(name)) for name in _KINDS},
            threshold=_threshold(record),
        )
    except (KeyError, TypeError, ValueError, CaribouError) as error:
        raise RunError(f"run {base} cannot be read: {error}") from error
    _check_agreement(state, base)
    return state


def is_run_of(folder: Path, certificate_id: str) -> bool:
    """Whether the run with this certificate still lies in the folder."""
    try:
        return bool(json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))["certificate_id"] == certificate_id)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _read_record(base: Path) -> dict[str, Any]:
    try:
        record = json.loads((base / RECORD).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"run {base}: {RECORD} cannot be read: {getattr(error, 'strerror', error)}") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise RunError(f"run {base}: {RECORD} must be JSON (truncated?): {error}") from error
    if not isinstance(record, dict) or record.get("format") != FORMAT or not isinstance(record.get("files"), dict):
        raise RunError(f"run {base}: {RECORD} must be a record of format {FORMAT} with its files")
    return record


def _check_files(base: Path, files: Mapping[str, Any]) -> None:
    """Every file that a record lists is what was saved, and it lists those that must be there."""
    for name, digest in files.items():
        if name != Path(name).name:
            raise RunError(f"run {base}: files must be plain names, got {name!r}")
        if _digest(base / name) != digest:
            raise RunError(f"run {base}: {name} is not what was saved (truncated or changed)")
    for name in (WEIGHTS, RELEASED, CERTIFICATE):
        if name not in files:
            raise RunError(f"run {base}: {RECORD} must list {name}, got {', '.join(files)}")


def _check_agreement(state: ModelState, base: Path) -> None:
    """Record and certificate must tell one story."""
    c, budget = state.certificate, state.budget
    stated = {"epsilon": c.epsilon, "delta": c.delta, "unit": c.unit.value, "nodes": c.public_parameters.get("nodes")}
    wanted = {"epsilon": budget.epsilon, "delta": budget.delta, "unit": budget.unit.value, "nodes": state.nodes}
    for name, value in wanted.items():
        if stated[name] != value:
            raise RunError(
                f"run {base}: {name} must be the same in {RECORD} and {CERTIFICATE}, got {value} and {stated[name]}"
            )
    if sum(state.batches) != state.nodes:
        raise RunError(f"run {base}: batches must add up to nodes = {state.nodes}, got {list(state.batches)}")
    if state.feature_names is not None and len(state.feature_names) != state.columns:
        raise RunError(
            f"run {base}: feature_names must have columns = {state.columns} entries, got {len(state.feature_names)}"
        )


def _read_releases(folder: Path) -> dict[str, Fitted]:
    """What was released about other graphs; of several releases about one graph the newest."""
    found: dict[str, Fitted] = {}
    for _, place, fingerprint, files in _release_records(folder):
        _check_files(place, files)
        found[fingerprint] = Fitted(np.empty((0, 0)), **_read_arrays(place))
    return found


def _release_records(folder: Path) -> list[tuple[int, Path, str, dict[str, str]]]:
    """Number, folder, fingerprint of the graph and digests of the files of every kept release, in their order."""
    found = []
    for path in folder.glob("*/graph.json"):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            found.append((int(record["number"]), path.parent, str(record["fingerprint"]), dict(record["files"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} cannot be read: {error}") from error
    return sorted(found, key=lambda record: record[:2])


def _read_arrays(folder: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    found: dict[str, Any] = {"certificate": Certificate.load(folder / CERTIFICATE)}
    for name in (WEIGHTS, RELEASED):
        try:
            found[Path(name).stem] = dict(load_file(folder / name))
        except (SafetensorError, OSError) as error:
            raise RunError(f"{name} cannot be read: {error}") from error
    return found


def _read_words(path: Path) -> tuple[str, ...]:
    return tuple(str(name) for name in json.loads(path.read_text(encoding="utf-8")))


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise RunError(
            f"run {path.parent}: {path.name!r} cannot be read: {getattr(error, 'strerror', error)}"
        ) from error


def _number(value: Any) -> float:
    return float("inf") if value == "inf" else value


# -- metrics beside a run ---------------------------------------------------------------------------------------------


def keep_metrics(run: Path, certificate: Certificate, test_metrics: Mapping[str, Any]) -> None:
    """Store metrics beside a run, for its page: at edge level, where labels are public. At node level nothing is kept."""
    if certificate.unit is PrivacyUnit.EDGE:
        kept = {"certificate_id": certificate.certificate_id, "test_metrics": test_metrics}
        atomic_write(run / METRICS, json.dumps(kept, indent=2) + "\n")


def keep_published(run: Path, published: PublishedMetrics) -> None:
    """Store metrics with noise and their certificate beside a run, each whole or not at all."""
    published.certificate.save(run / PUBLISHED_CERTIFICATE)
    atomic_write(run / PUBLISHED, json.dumps(published.to_dict(), indent=2) + "\n")


# -- fields of the record ----------------------------------------------------------------------------------------------


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(name) for name in value)


_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "method": str,
    "settings": dict,
    "nodes": int,
    "columns": int,
    "classes": _names,
    "feature_names": _names,
    "id_title": str,
    "charged": lambda value: value is True,
    "dataset": str,
    "batches": lambda sizes: tuple(int(size) for size in sizes),
    "column_rules": ColumnRules.from_dict,
    "extended": lambda value: value is True,
}
"""Fields of the state that stand in run.json under their own names, and what they are made of there."""
_OPTIONAL = ("feature_names", "id_title", "dataset", "column_rules")


def _field(name: str, value: Any) -> Any:
    return None if value is None and name in _OPTIONAL else _KINDS[name](value)


def _threshold(record: Mapping[str, Any]) -> Threshold | None:
    """A record names the class."""
    stated = record["threshold"]
    if stated is None:
        return None
    return Threshold(**{**stated, "positive": list(record["classes"]).index(stated["positive"])})


# -- graphs that are known again ---------------------------------------------------------------------------------------


def graph_fingerprint(graph: Graph) -> str:
    """A keyed hash of the graph's content. The key never leaves the user's folder, so a run that holds the hash tells nothing."""
    from caribou.graph.fingerprint import whole_of

    return hmac.new(owner_key(), b"".join(whole_of(tuple(graph.content()))), hashlib.sha256).hexdigest()
