"""A saved run: weights, what was released, settings and certificate in one folder. Never the graph, a seed or a hidden state.

    run.json              method, settings, budget, sizes, names of classes and columns, and the SHA-256 of the other files
    weights.safetensors   parameters of the models: trained on public data, or privately
    released.safetensors  what the mechanisms released
    certificate.json/.md  the promise
    nodes.json            names of the nodes (edge level only, where the node set is public)
    rows.json             of a model that can be extended, and has no names: digests of its rows of features, which are public
    extended.json         made when a run is extended, with the certificate of the extension: it must not be extended twice
    predictions/          what was released about other graphs, one folder each

A run is written whole or not at all. Reading checks every digest and the certificate: that finds damage and careless edits, not a
forger, who would write new digests.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from caribou._files import atomic_folder, atomic_write
from caribou.errors import CaribouError, RunError
from caribou.metrics import Threshold
from caribou.privacy.budget import Budget, PrivacyUnit
from caribou.privacy.certificate import Certificate, json_number
from caribou.privacy.ledger import Ledger
from caribou.tables.rules import ColumnRules

FORMAT = 1
RECORD = "run.json"
WEIGHTS, RELEASED, CERTIFICATE = "weights.safetensors", "released.safetensors", "certificate.json"
NODES, ROWS = "nodes.json", "rows.json"
EXTENDED, PREDICTIONS = "extended.json", "predictions"


@dataclass(frozen=True, eq=False)
class SavedModel:
    """A fitted method as it is stored. ``classes``: names of the classes, in the order of the columns of probabilities;
    ``feature_names``: those of the feature columns, in their order; ``id_title``: what the column of ``node_ids`` is called;
    ``charged``: whether the fit was charged in a ledger; ``dataset``: under which name; ``batches``: how many nodes came with
    each batch, in the order of the rows: who has been asked; ``threshold``: from which probability on a node is flagged;
    ``column_rules``: how the node table was read, for the next one; ``extended``: whether the model was extended before it was
    saved; ``rows``: digests of the rows of features, by which nodes without names are known again."""

    method: str
    settings: Mapping[str, Any]
    budget: Budget
    certificate: Certificate
    weights: Mapping[str, np.ndarray]
    released: Mapping[str, np.ndarray]
    nodes: int
    columns: int
    classes: tuple[str, ...]
    node_ids: tuple[str, ...] | None = field(default=None)
    feature_names: tuple[str, ...] | None = field(default=None)
    id_title: str | None = field(default=None)
    charged: bool = False
    dataset: str | None = None
    batches: tuple[int, ...] = ()
    threshold: Threshold | None = None
    column_rules: ColumnRules | None = None
    extended: bool = False
    rows: tuple[str, ...] | None = None


def write_model(saved: SavedModel, folder: str | os.PathLike[str]) -> Path:
    """Write a run into a new folder (or an empty one); on any failure or interruption nothing is left behind."""
    target = check_target(folder)
    try:
        with atomic_folder(target) as temporary:
            _write_files(saved, temporary)
    except OSError as error:
        raise RunError(f"run cannot be written to {target}: {error.strerror or error}") from error
    return target


def check_target(folder: str | os.PathLike[str]) -> Path:
    """A folder that a run can be written to: new or empty, in a folder that exists. Checked before anything is spent."""
    target = Path(folder).absolute()
    if not target.parent.is_dir():
        raise RunError(f"out must lie in a folder that exists, got {str(folder)!r}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RunError(f"out must be a new or empty folder, got {str(folder)!r}")
    require_writable(target.parent, str(folder))
    return target


def require_writable(folder: Path, given: str, field: str = "out") -> None:
    """Try to write into ``folder``: permissions may not tell the whole truth. ``given``: for ``field``, as the user gave it."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise RunError(f"{field} must lie in a folder that can be written, got {given!r}: {error.strerror}") from error


class ExtensionMarker:
    """The note in the folder of a run that it is extended, and by which certificate: a journal of `caribou.release.execute`.

    It is written before anything is charged, and again before anything is asked. Of two processes one makes the file, and the
    other finds it. Whoever finds it is refused, with two exceptions. A ledger that holds the extension refuses by itself, and
    says which one it was. A process that was killed before its ledger was charged has asked nothing, so that ledger may go on.

    Args:
        folder: of the run.
        extends: the certificate of the run.
        dataset: the name under which a ledger is charged.
    """

    def __init__(self, folder: Path, extends: str, dataset: str) -> None:
        self.path, self._extends, self._dataset = folder / EXTENDED, extends, dataset
        self._own: dict[str, Any] | None = None

    def certificate(self, make: Callable[[], Certificate], ledger: Path | None) -> Certificate:
        """A new certificate, written down here before it is charged, or a refusal."""
        made = make()
        self.note(made.certificate_id, ledger)
        return made

    def note(self, certificate_id: str, ledger: Path | None) -> None:
        """Write down by which certificate the run is about to be extended, or refuse."""
        opened = None if ledger is None or not ledger.exists() else Ledger(ledger, create=False)
        # keyed: it says whether two ledgers are the same one, and tells nothing else about it
        same = None if opened is None else opened.fingerprint([b"extension", self._extends.encode()])
        own = {"extends": self._extends, "certificate": certificate_id, "ledger": same, "asked": False}
        try:
            with open(self.path, "x", encoding="utf-8") as file:
                file.write(json.dumps(own) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except FileExistsError:
            if not self._may_go_on(opened, same):
                raise RunError(
                    f"run {self.path.parent}: is extended already, or is being extended ({EXTENDED}): a second extension would "
                    "ask pairs of the same people twice; extend the run that was made from it, or charge this batch as a "
                    "release of its own (spend=True, --spend)"
                ) from None
        except OSError as error:
            raise self._not_writable(error) from error
        self._own = own

    @property
    def is_charged(self) -> bool:
        """Never: an extension is not resumed, because nobody can know what had left the machine."""
        return False

    def charged(self) -> None:
        """From here on pairs are asked."""
        self._own = {**(self._own or {}), "asked": True}
        try:
            atomic_write(self.path, json.dumps(self._own) + "\n")
        except OSError as error:
            raise self._not_writable(error) from error

    def refused(self) -> None:
        """Nothing was asked, so the run can still be extended. The note of another process stays."""
        if self._own is not None and self._read().get("certificate") == self._own["certificate"]:
            self.path.unlink(missing_ok=True)

    def _may_go_on(self, opened: Ledger | None, same: str | None) -> bool:
        if opened is None:
            return False
        stands = self._read()
        child = (self._dataset, stands.get("certificate"), self._extends)
        if any((entry.dataset, entry.certificate_id, entry.extends) == child for entry in opened.entries()):
            return True
        return stands.get("ledger") == same and stands.get("asked") is False

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _not_writable(self, error: OSError) -> RunError:
        return RunError(
            f"run {self.path.parent}: must be writable to note that it is extended ({EXTENDED}), got {error.strerror}"
        )


class ExtensionMarkers:
    """The notes in all folders that one model was saved to: each must know that it is extended.

    Args:
        markers: one for each folder.
    """

    def __init__(self, markers: Sequence[ExtensionMarker]) -> None:
        self._markers = tuple(markers)

    @classmethod
    def of(cls, folders: Sequence[Path], extends: str, dataset: str) -> ExtensionMarkers | None:
        """The notes of a model that lies in these folders; None if it lies nowhere."""
        return cls([ExtensionMarker(folder, extends, dataset) for folder in folders]) if folders else None

    def certificate(self, make: Callable[[], Certificate], ledger: Path | None) -> Certificate:
        """A new certificate, written down in every folder before it is charged, or a refusal that leaves no note."""
        made = make()
        try:
            for marker in self._markers:
                marker.note(made.certificate_id, ledger)
        except BaseException:
            self.refused()
            raise
        return made

    @property
    def is_charged(self) -> bool:
        """Never, as in `ExtensionMarker`."""
        return False

    def charged(self) -> None:
        """From here on pairs are asked."""
        for marker in self._markers:
            marker.charged()

    def refused(self) -> None:
        """Nothing was asked. Notes of others stay."""
        for marker in self._markers:
            marker.refused()


def is_run_of(folder: Path, certificate_id: str) -> bool:
    """Whether the run with this certificate still lies in the folder."""
    try:
        return bool(json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))["certificate_id"] == certificate_id)
    except (OSError, ValueError, KeyError, TypeError):
        return False


@dataclass(frozen=True, eq=False)
class KeptPrediction:
    """A release about another graph that is kept in a run: its arrays, its certificate, and a keyed fingerprint of the graph.

    The key lies elsewhere: whoever has the run alone cannot test guesses for the graph.
    """

    fingerprint: str
    certificate: Certificate
    weights: Mapping[str, np.ndarray]
    released: Mapping[str, np.ndarray]


def keep_prediction(kept: KeptPrediction, folder: str | os.PathLike[str]) -> Path:
    """Add a release about another graph to a run; it is written whole or not at all."""
    from safetensors.numpy import save

    target = Path(folder).absolute() / PREDICTIONS / kept.certificate.certificate_id
    try:
        target.parent.mkdir(exist_ok=True)
        with atomic_folder(target) as temporary:
            for name, arrays in ((WEIGHTS, kept.weights), (RELEASED, kept.released)):
                (temporary / name).write_bytes(save({k: np.asarray(v, order="C") for k, v in arrays.items()}))
            kept.certificate.save(temporary / CERTIFICATE)
            (temporary / "graph.json").write_text(json.dumps({"fingerprint": kept.fingerprint}), encoding="utf-8")
    except OSError as error:
        raise RunError(f"run {folder}: the release cannot be kept in it: {error.strerror or error}") from error
    return target


def kept_prediction(folder: str | os.PathLike[str], fingerprint: str) -> KeptPrediction | None:
    """The release about the graph with this fingerprint that a run keeps; the newest, if there are several."""
    found: list[KeptPrediction] = []
    for place in sorted((Path(folder) / PREDICTIONS).glob("*/graph.json")):
        try:
            own = json.loads(place.read_text(encoding="utf-8"))["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"run {folder}: {place} cannot be read: {error}") from error
        if own == fingerprint:
            base = place.parent
            certificate = Certificate.load(base / CERTIFICATE)
            found.append(KeptPrediction(own, certificate, _read_arrays(base / WEIGHTS), _read_arrays(base / RELEASED)))
    return max(found, key=lambda kept: kept.certificate.created, default=None)


def read_model(folder: str | os.PathLike[str]) -> SavedModel:
    """Read a run; a missing, truncated or changed file is an error that names it."""
    base = Path(folder)
    if not base.is_dir():
        raise RunError(f"run must be a folder, got {str(folder)!r}")
    record = _read_record(base)
    for name, digest in record["files"].items():
        if name != Path(name).name:
            raise RunError(f"run {base}: files must be plain names, got {name!r}")
        if _digest(base / name) != digest:
            raise RunError(f"run {base}: {name} is not what was saved (truncated or changed)")
    for name in (WEIGHTS, RELEASED, CERTIFICATE):
        if name not in record["files"]:
            raise RunError(f"run {base}: {RECORD} must list {name}, got {', '.join(record['files'])}")
    try:
        certificate = Certificate.load(base / CERTIFICATE)
        budget = Budget(_number(record["epsilon"]), record["delta"], PrivacyUnit.parse(record["unit"]))
        saved = SavedModel(
            method=str(record["method"]),
            settings=dict(record["settings"]),
            budget=budget,
            certificate=certificate,
            weights=_read_arrays(base / WEIGHTS),
            released=_read_arrays(base / RELEASED),
            nodes=int(record["nodes"]),
            columns=int(record["columns"]),
            classes=tuple(str(name) for name in record["classes"]),
            node_ids=_read_ids(base / NODES) if NODES in record["files"] else None,
            feature_names=_names(record.get("feature_names")),
            id_title=_word(record.get("id_title")),
            charged=record.get("charged") is True,
            dataset=_word(record.get("dataset")),
            batches=tuple(int(size) for size in record.get("batches", ())) or (int(record["nodes"]),),
            threshold=_threshold(record),
            column_rules=_rules(record.get("column_rules")),
            extended=record.get("extended") is True,
            rows=_read_ids(base / ROWS) if ROWS in record["files"] else None,
        )
    except (KeyError, TypeError, ValueError, CaribouError) as error:
        raise RunError(f"run {base} cannot be read: {error}") from error
    _check_agreement(saved, base)
    return saved


def _check_agreement(saved: SavedModel, base: Path) -> None:
    """Record and certificate must tell one story."""
    c = saved.certificate
    stated = {"epsilon": c.epsilon, "delta": c.delta, "unit": c.unit.value, "nodes": c.public_parameters.get("nodes")}
    budget = saved.budget
    wanted = {"epsilon": budget.epsilon, "delta": budget.delta, "unit": budget.unit.value, "nodes": saved.nodes}
    for name, value in wanted.items():
        if stated[name] != value:
            raise RunError(
                f"run {base}: {name} must be the same in {RECORD} and {CERTIFICATE}, got {value} and {stated[name]}"
            )
    if sum(saved.batches) != saved.nodes:
        raise RunError(f"run {base}: batches must add up to nodes = {saved.nodes}, got {list(saved.batches)}")
    if saved.feature_names is not None and len(saved.feature_names) != saved.columns:
        raise RunError(
            f"run {base}: feature_names must have columns = {saved.columns} entries, got {len(saved.feature_names)}"
        )


def _write_files(saved: SavedModel, folder: Path) -> None:
    from safetensors.numpy import save

    for name, arrays in ((WEIGHTS, saved.weights), (RELEASED, saved.released)):
        (folder / name).write_bytes(save({key: np.asarray(value, order="C") for key, value in arrays.items()}))
    saved.certificate.save(folder / CERTIFICATE)
    saved.certificate.save(folder / "certificate.md")
    for name, words in ((NODES, saved.node_ids), (ROWS, saved.rows)):
        if words is not None:
            (folder / name).write_text(json.dumps(list(words)), encoding="utf-8")
    record = {
        "format": FORMAT,
        "method": saved.method,
        "settings": dict(saved.settings),
        "epsilon": json_number(saved.budget.epsilon),
        "delta": saved.budget.delta,
        "unit": saved.budget.unit.value,
        "nodes": saved.nodes,
        "columns": saved.columns,
        "classes": list(saved.classes),
        "feature_names": None if saved.feature_names is None else list(saved.feature_names),
        "id_title": saved.id_title,
        "charged": saved.charged,
        "dataset": saved.dataset,
        "batches": list(saved.batches),
        "threshold": None if saved.threshold is None else _stated(saved.threshold, saved.classes),
        "column_rules": None if saved.column_rules is None else saved.column_rules.to_dict(),
        "extended": saved.extended,
        "files": {path.name: _digest(path) for path in sorted(folder.iterdir())},
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


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


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise RunError(f"{path.name} cannot be read: {error}") from error


def _read_ids(path: Path) -> tuple[str, ...]:
    return tuple(str(name) for name in json.loads(path.read_text(encoding="utf-8")))


def _stated(threshold: Threshold, classes: tuple[str, ...]) -> dict[str, Any]:
    return {"class": classes[threshold.positive], "value": threshold.value, "validation_f1": threshold.f1}


def _threshold(record: Mapping[str, Any]) -> Threshold | None:
    stated = record.get("threshold")
    if stated is None:
        return None
    place = list(record["classes"]).index(stated["class"])
    return Threshold(place, float(stated["value"]), float(stated["validation_f1"]))


def _names(value: Any) -> tuple[str, ...] | None:
    return None if value is None else tuple(str(name) for name in value)


def _rules(value: Any) -> ColumnRules | None:
    return None if value is None else ColumnRules.from_dict(value)


def _word(value: Any) -> str | None:
    return None if value is None else str(value)


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise RunError(
            f"run {path.parent}: {path.name!r} cannot be read: {getattr(error, 'strerror', error)}"
        ) from error


def _number(value: Any) -> float:
    return float("inf") if value == "inf" else value
