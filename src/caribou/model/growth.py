"""Extending a model by nodes that arrived since: who may be extended, and the notes that it happens once.

A batch costs nothing more because every pair is asked once. So a model is extended once, by one process: in this process its
state says so, on disk a note in each of its folders, and a ledger knows of copies, too. A process that dies before the new model
is kept leaves the key of the noise in the private folder of the user: the same call then ends with the same answers.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from caribou.engines.folder import WorkFolder
from caribou.errors import InputError, RunError
from caribou.graph import Graph
from caribou.graph.arrivals import Grown
from caribou.machine.files import atomic_write, publish
from caribou.machine.owner import state_folder
from caribou.mechanisms.noise_source import NoiseSource, RunKey
from caribou.methods.base import GrowingMethod
from caribou.model.state import ModelState, graph_fingerprint, is_run_of
from caribou.privacy.assumptions import AssumptionName
from caribou.privacy.certificate import Certificate
from caribou.privacy.ledger import Ledger
from caribou.privacy.mechanism_records import Mechanism
from caribou.privacy.plan import Link
from caribou.release import Account, LedgerLike

if TYPE_CHECKING:
    from caribou.methods.base import Method

EXTENDED = "extended.json"


def require_extendable(state: ModelState, recipe: Method) -> None:
    """Refuse a model that does not ask every pair once, or whose old rows no guarantee covers."""
    if not isinstance(recipe, GrowingMethod):
        raise InputError(
            f"method must be votes-edp to be extended, because it asks every pair of nodes once, got {state.method}: fit it "
            "on the grown graph, or release the grown graph with a small epsilon (model.release); each is a release of its own"
        )
    used = [record.mechanism for record in state.certificate.mechanisms]
    if used != [Mechanism.EDGE_VOTES]:
        words = ", ".join(mechanism.value for mechanism in used)
        raise InputError(
            f"model must be a fit of votes alone to be extended, got one of: {words}; fit votes-edp with these settings"
        )
    if state.budget.is_private and not state.certificate.is_guarantee:
        why = "; ".join(state.certificate.void_reasons)
        raise InputError(
            f"certificate must be a guarantee to be extended, because the new model shows the old rows, too, got a void one: "
            f"{why}; fit again with noise from the operating system and without what voids it"
        )


def link_to(certificate: Certificate) -> Link:
    """This release as the batch just before the next one."""
    own = certificate.certificate_id
    first = next((a for a in certificate.assumptions if a.name is AssumptionName.ARRIVALS), None)
    return Link(release=own if first is None else str(first.parameters["release"]), extends=own)


def was_extended(state: ModelState, folders: Sequence[Path]) -> bool:
    """In this process, or by another one from one of its folders."""
    own = state.certificate.certificate_id
    return state.extended or any(is_run_of(folder, own) and (folder / EXTENDED).exists() for folder in folders)


def notes_of_extension(state: ModelState, folders: Sequence[Path], dataset: str, has_ledger: bool) -> ExtensionNotes:
    """The notes for all folders in which the model lies, or a refusal.

    A ledger knows of copies, too. Without one every folder that the model was saved to must still hold it.
    """
    if state.extended:
        raise InputError(
            "model must not be extended twice, because pairs of the same people would be asked twice: extend the model that "
            "extend() returned, or charge this batch as a release of its own (spend=True)"
        )
    own = state.certificate.certificate_id
    lost = [folder for folder in folders if not is_run_of(folder, own)]
    if lost and not has_ledger:
        raise RunError(
            f"run must lie where the model was saved, {lost[0]}, to note there that it is extended, got none: load it from "
            "where it lies now, or give a ledger that holds it (ledger=...)"
        )
    return ExtensionNotes([folder for folder in folders if folder not in lost], own, dataset)


class ExtensionNotes:
    """The notes in the folders of a model that it is extended, and by which certificate: a journal of `release.execute`.

    A note is written before anything is charged, and again before anything is asked. Of two processes one makes the file, and
    the other finds it. Whoever finds it is refused, with two exceptions. A ledger that holds the extension refuses by itself,
    and says which one it was. A process that was killed before its ledger was charged has asked nothing, so that ledger may go
    on.

    Args:
        folders: of the run.
        extends: the certificate of the run.
        dataset: the name under which a ledger is charged.
    """

    def __init__(self, folders: Sequence[Path], extends: str, dataset: str) -> None:
        self.paths = [folder / EXTENDED for folder in folders]
        self._extends, self._dataset = extends, dataset
        self._written: dict[Path, dict[str, Any]] = {}

    def certificate(self, make: Callable[[], Certificate], ledger: Path | None) -> Certificate:
        """A new certificate, written down in every folder before it is charged, or a refusal that leaves no note."""
        return self.noted(make(), ledger)

    def noted(self, made: Certificate, ledger: Path | None) -> Certificate:
        """The same with a certificate that is there."""
        try:
            for path in self.paths:
                self._note(path, made.certificate_id, ledger)
        except BaseException:
            self.refused()
            raise
        return made

    resumable = False
    is_charged = False  # never: without the key nobody can repeat what may have left the machine

    def noise(self, source: NoiseSource) -> NoiseSource:
        """As it was given."""
        return source

    def charged(self) -> None:
        """From here on pairs are asked."""
        for path, note in self._written.items():
            note["asked"] = True
            try:
                atomic_write(path, json.dumps(note) + "\n")
            except OSError as error:
                raise _not_writable(path, error) from error

    def failed(self, ledger: LedgerLike | None, dataset: str) -> None:
        """Whatever stopped it before anything was asked."""
        self.refused()

    def refused(self) -> None:
        """Nothing was asked, so the run can still be extended. The note of another process stays."""
        for path, note in self._written.items():
            if _read(path).get("certificate") == note["certificate"]:
                path.unlink(missing_ok=True)

    def _note(self, path: Path, certificate_id: str, ledger: Path | None) -> None:
        """Write down by which certificate the run is about to be extended, or refuse."""
        opened = None if ledger is None or not ledger.exists() else Ledger(ledger, create=False)
        # keyed: it says whether two ledgers are the same one, and tells nothing else about it
        same = None if opened is None else opened.fingerprint([b"extension", self._extends.encode()])
        note = {"extends": self._extends, "certificate": certificate_id, "ledger": same, "asked": False}
        draft = path.with_name(f".{certificate_id}.{EXTENDED}")
        self._written[path] = note
        try:
            try:
                atomic_write(draft, json.dumps(note) + "\n")
                publish(draft, path)  # whole: a run whose note cannot be read could never be extended
            finally:
                draft.unlink(missing_ok=True)
        except FileExistsError:
            if not self._may_go_on(path, opened, same, certificate_id):
                raise RunError(
                    f"run {path.parent}: is extended already, or is being extended ({EXTENDED}): a second extension would ask "
                    "pairs of the same people twice; extend the run that was made from it, or charge this batch as a release "
                    "of its own (spend=True)"
                ) from None
        except OSError as error:
            raise _not_writable(path, error) from error

    def _may_go_on(self, path: Path, opened: Ledger | None, same: str | None, certificate_id: str) -> bool:
        stands = _read(path)
        if stands.get("certificate") == certificate_id:  # a resumed extension, which alone has it
            return True
        if opened is None:
            return False
        child = (self._dataset, stands.get("certificate"), self._extends)
        if any((entry.dataset, entry.certificate_id, entry.extends) == child for entry in opened.entries()):
            return True
        return stands.get("ledger") == same and stands.get("asked") is False


class ResumableNotes:
    """The notes, and a private folder with key and certificate until the new model is kept: a journal that can be resumed.

    Args:
        notes: in the folders of the run.
        work: the private folder.
        use: all that decides what noise is added to. A run that is resumed with anything else is refused, so that no two answers
            with the same noise can be subtracted.
    """

    resumable = True

    def __init__(self, notes: ExtensionNotes, work: WorkFolder, use: bytes) -> None:
        self._notes, self._work, self._use = notes, work, use
        self.key = work.run_key() if self.is_charged else work.first_key(RunKey.secure)
        work.bind(self.key, use)

    def noise(self, source: RunKey) -> NoiseSource:
        """The same for the same use."""
        return source.source(self._use)

    def certificate(self, make: Callable[[], Certificate], ledger: Path | None) -> Certificate:
        """That of the interrupted extension, or a new one, written down everywhere before it is charged."""
        new = self._work.stage == "preparing"
        if new:
            self._work.update(stage="prepared")
        try:
            return self._notes.noted(self._work.certificate(make, ledger), ledger)
        except BaseException:
            if new:  # nothing is charged yet
                self._work.update(stage="preparing")
            raise

    @property
    def is_charged(self) -> bool:
        """Whether pairs may have been asked, here or by a process that died."""
        return self._work.is_charged

    def charged(self) -> None:
        """From here on pairs are asked."""
        self._work.charged()
        self._notes.charged()

    def refused(self) -> None:
        """Nothing was charged."""
        self._work.update(stage="preparing")
        self._notes.refused()

    def failed(self, ledger: LedgerLike | None, dataset: str) -> None:
        """Whatever stopped it: what its ledger does not hold was not charged."""
        if self._work.stage == "charging" and ledger is not None:
            made = Certificate.from_dict(self._work.record["certificate"])
            if not Account(ledger, dataset).holds(made):
                self.refused()


@contextmanager
def resumable_notes(notes: ExtensionNotes, model: ModelState, grown: Grown, private: Graph) -> Iterator[Any]:
    """The notes as a journal that can be resumed, until the block ends well; as they are where no private folder can be had.

    Args:
        notes: of the extension.
        model: of the batches before.
        grown: the graph in the order of arrival.
        private: the same as its owner has it.
    """
    own = model.certificate.certificate_id
    try:
        folder = state_folder() / "extensions"
        folder.mkdir(mode=0o700, exist_ok=True)
        request = {"extends": own, "dataset": private.name, "graph": graph_fingerprint(private)}
        work: WorkFolder | None = WorkFolder(folder / own, request)
        if work is not None and work.stage == "released":  # its model is kept, and the process died while it cleared up
            work.remove()
            work = None
    except (ImportError, OSError):  # Windows has no locks; nowhere to write
        work = None
    except RunError as error:
        raise RunError(
            f"an extension of this model was interrupted: finish it with the same graph, name and ledger, or charge this batch "
            f"as a release of its own (spend=True); {error}"
        ) from error
    if work is None:
        yield notes
        return
    kept = False
    try:
        yield ResumableNotes(notes, work, _use(model, grown))
        kept = True
    except OSError as error:
        raise RunError(f"the extension was not made: {error.strerror or error}; the same call ends it") from error
    finally:
        try:
            if kept:
                work.update(stage="released")
            if work.stage in ("preparing", "released"):
                work.remove()
        except OSError as error:
            warnings.warn(f"{work.path} cannot be removed, and holds a key: {error.strerror or error}", stacklevel=3)
        work.close()


def _use(model: ModelState, grown: Grown) -> bytes:
    """All that decides what is asked, and what noise is added to: of the graph, of the batches before, and of the library."""
    from caribou import __version__

    graph, digest = grown.graph, hashlib.sha256(__version__.encode())
    split = () if graph.split is None else (graph.split.train, graph.split.val, graph.split.test)
    arrays = {
        "present": grown.present,
        "labels": np.empty(0) if graph.labels is None else graph.labels,
        "prior": np.empty(0) if graph.prior is None else graph.prior,
        **{f"split {k}": part for k, part in enumerate(split)},
        **{f"weights {name}": array for name, array in model.weights.items()},
        **{f"released {name}": array for name, array in model.released.items()},
    }
    for part in graph.content():
        digest.update(part)
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.digest()


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _not_writable(path: Path, error: OSError) -> RunError:
    return RunError(
        f"run {path.parent}: must be writable to note that it is extended ({EXTENDED}), got {error.strerror}"
    )
