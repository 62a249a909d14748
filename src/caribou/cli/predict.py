"""``caribou predict`` and ``embed``: what a saved run is good for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from caribou._validate import unit_interval
from caribou.cli.command import argument, command, option, record, switch
from caribou.cli.engine_options import NO_ENGINE, EngineOptions, graph_like
from caribou.cli.options import NAME, PRIOR, FileOptions, LedgerOptions, require_takes_prior
from caribou.cli.output import TABLES, check_table, write_pieces, write_whole
from caribou.cli.spool import first_written
from caribou.errors import InputError
from caribou.privacy.budget import Budget, PrivacyUnit

if TYPE_CHECKING:
    from caribou.graph import Graph
    from caribou.methods import Fitted
    from caribou.metrics import Threshold
    from caribou.model.estimator import Model
    from caribou.release import NotedLedger

KEEP_FORMULAS = switch(
    "In .csv: ids and classes that a spreadsheet would run as formulas (=, +, -, @) stay as they are."
)
CERTIFICATE = ".certificate.json"
"""Ending of the certificate beside a table."""
RUN = argument("The folder that caribou train --out wrote.")


@record
class OtherGraphOptions:
    """Another graph than that of training, and on which terms it is released."""

    files: FileOptions
    name: str | None = NAME
    release: bool = switch("Make a release about --graph, which costs epsilon; nothing else here spends anything.")
    epsilon: float | None = option("Epsilon of the new release (default: that of the fit).", needs="--release")
    ledger: LedgerOptions
    spend: bool = switch("A release of its own, although the run keeps one about this graph.", needs="--release")

    @contextmanager
    def loaded(
        self, model: Model, out: Path, engine: EngineOptions = NO_ENGINE, prior: Path | None = None
    ) -> Iterator[Graph]:
        """It, read as the model's own was; at node level its classes are those of the model."""
        own = model.budget.unit is PrivacyUnit.NODE
        with graph_like(model, engine, self.files, self.name, prior, out, own_classes=own) as data:
            yield data

    def refuse_flags(self, *others: bool) -> None:
        """Flags about another graph, and ``others``, say nothing where none is named."""
        if self.files.says_how or self.name is not None or self.release or any(others):
            raise InputError("flags about another graph must go with --graph, got no --graph")


@record
class PredictOptions:
    """What caribou predict takes."""

    run: Path = RUN
    out: Path = option("Write the predictions to this new file: .csv or .parquet.", default=...)
    other: OtherGraphOptions
    engine: EngineOptions
    training_graph: bool = switch(
        "--graph is the training graph again, rows in any order: use what was released, spend nothing."
    )
    threshold: float | None = option(
        "Two classes: flag nodes from this probability of the positive class on (default: the run's own threshold)."
    )
    positive: str | None = option("The class that is flagged (default: that of the run).", needs="--threshold")
    prior: Path | None = PRIOR
    keep_formulas: bool = KEEP_FORMULAS


@command
def predict(given: PredictOptions) -> None:
    """Write the class of every node, with its probability. The column of ids keeps its title (node, where it has none).

    Without --graph: the nodes of the training graph, from the saved run; free. With --graph, or --edges for tables of any size:
    another graph. --release makes a release about it, which costs epsilon; its certificate is written beside OUT. The run keeps
    the release: the same graph again, here or in caribou embed, costs nothing. At node level a run holds no predictions: give the
    training graph with --training-graph, which is free.

    Where there are two classes the column flagged says whose probability of the positive class reaches the threshold. At edge
    level a run has the threshold with the best F1 on its validation nodes. In a run that caribou extend wrote, the column new
    says who arrived last.

    Example: caribou predict run --out predictions.csv
    """
    from caribou.model.estimator import load
    from caribou.model.frames import predictions_tables

    check_table(given.out)
    if given.threshold is not None:
        unit_interval(threshold=given.threshold)
    model, out = load(given.run), given.out
    require_takes_prior(model.method, model.takes_prior, given.prior)
    new = None
    if not (given.other.files.is_given or given.engine.is_given):
        given.other.refuse_flags(given.training_graph, given.prior is not None)
        probabilities, ids, title = model.predict_proba(), model.node_ids, model.state.id_title
        new = model.is_new if model.is_new.any() else None
    else:
        with given.other.loaded(model, out, given.engine, given.prior) as data:
            ids, title = _ids(data), data.id_title
            if given.training_graph:
                probabilities = model.predict_proba(data, training_graph=True)
            else:
                probabilities = _released(given.run, model, data, out, given.other).probabilities
    cut = _threshold_of(model, given.threshold, given.positive)
    write_pieces(predictions_tables(probabilities, model.classes, ids, title, cut, new), out, given.keep_formulas)
    typer.echo(f"wrote {len(probabilities)} predictions to {out}")
    if cut is not None:
        chosen = "the best F1 on validation nodes" if given.threshold is None else "as given"
        typer.echo(f"flagged: p_{model.classes[cut.positive]} >= {cut.value:.4g} ({chosen})")
    if model.budget.unit is PrivacyUnit.NODE:
        typer.echo(
            "do not publish them: each is computed from its node's own features, which no certificate covers", err=True
        )


@record
class EmbedOptions:
    """What caribou embed takes."""

    run: Path = RUN
    out: Path = option("Write X^(K) to this new file: .csv, .parquet or .npy.", default=...)
    other: OtherGraphOptions
    keep_formulas: bool = KEEP_FORMULAS


@command
def embed(given: EmbedOptions) -> None:
    """Write the embeddings X^(K) of a run, for any other task. They are already released: this costs nothing.

    With --graph: of another graph about which the run keeps a release; --release makes one, which costs epsilon. A run without
    privacy, or with a void certificate, is written with a warning.

    Example: caribou embed run --out embeddings.parquet
    """
    import numpy as np

    from caribou.model.estimator import load
    from caribou.model.frames import tables_with_ids

    out = given.out
    check_table(out, (*TABLES, ".npy"))
    model = load(given.run)
    state, ids, title = model.embeddings, model.node_ids, model.state.id_title
    warn_unprotected(model)
    if given.other.files.is_given:
        with given.other.loaded(model, out) as data:
            state = _released(given.run, model, data, out, given.other).released["state"]
            ids, title = _ids(data), data.id_title
    else:
        given.other.refuse_flags()
    if out.suffix == ".npy":
        write_whole(out, lambda path: np.save(path, state))
    else:
        tables = tables_with_ids(state, [f"x{i}" for i in range(state.shape[1])], ids, title)
        write_pieces(tables, out, given.keep_formulas)
    typer.echo(f"wrote {state.shape[0]} x {state.shape[1]} embeddings to {out}")


def _ids(data: Graph) -> tuple[str, ...] | None:
    return None if data.node_ids is None else tuple(str(i) for i in data.node_ids)


def warn_unprotected(model: Model) -> None:
    """Say on stderr if the certificate of a run promises nothing."""
    from caribou.models.released_rows import unprotected

    if not model.certificate.is_guarantee:
        typer.echo(f"warning: {unprotected(model.certificate)}", err=True)


def _released(run: Path, model: Model, data: Graph, out: Path, other: OtherGraphOptions) -> Fitted:
    """The release about another graph that the run keeps, or a new one, which the run keeps from then on."""
    from caribou.model.state import PREDICTIONS

    ledger = other.ledger.noted()
    is_new = other.release and (other.spend or model.known_release(data) is None)
    if is_new:
        found = _new_release(model, data, out, other, ledger)
    else:
        # either of them spends nothing here; a graph that was not released is refused
        found = model.release(data, epsilon=other.epsilon) if other.release else model.release_of(data)
    made = found.certificate
    if made.epsilon_spent == 0:
        entered = f"; entered in {ledger.path} at no cost" if is_new and ledger is not None else ""
        typer.echo(f"each prediction is made from a node's own features: nothing was released{entered}", err=True)
    elif is_new:
        if not (run / PREDICTIONS / made.certificate_id).is_dir():
            _spool(run, model, data, out)
        where = out.with_suffix(CERTIFICATE)
        made.save(where)
        charged = "charged in no ledger" if ledger is None else f"charged in {ledger.path}"
        paid = Budget(made.epsilon, made.delta, made.unit)
        typer.echo(f"a new release about {data.name!r}: {paid}, {charged}; certificate: {where}", err=True)
    else:
        known = f"the release about this graph of {made.created} (certificate {made.certificate_id})"
        typer.echo(f"{known}: nothing is spent", err=True)
        if ledger is not None and not _is_recorded(ledger, made.certificate_id):
            typer.echo(
                f"warning: {ledger.path} does not hold that release; if it is the ledger of these people, record it: caribou "
                f"ledger add {data.name} --certificate {run}/predictions/{made.certificate_id}/certificate.json",
                err=True,
            )
    return found


def _new_release(model: Model, data: Graph, out: Path, other: OtherGraphOptions, ledger: NotedLedger | None) -> Fitted:
    path = out.with_suffix(CERTIFICATE)
    if path.exists():
        raise InputError(f"certificate of the new release must be a new file, got {str(path)!r}, which exists")
    if model.node_ids is not None and data.node_ids is not None and set(model.node_ids) == set(map(str, data.node_ids)):
        typer.echo("warning: these are the nodes of the training graph; --training-graph would spend nothing", err=True)
    replaced = other.ledger.replace_fingerprint
    return model.release(data, epsilon=other.epsilon, ledger=ledger, replace_fingerprint=replaced, spend=other.spend)


def _is_recorded(ledger: NotedLedger, certificate_id: str) -> bool:
    from caribou.privacy.ledger import Ledger

    if not Path(ledger.path).exists():
        return False
    return any(entry.certificate_id == certificate_id for entry in Ledger(ledger.path, create=False).entries())


def _spool(run: Path, model: Model, data: Graph, out: Path) -> None:
    """Where the run cannot be written: what has been paid for is on a disk before any table is."""
    from caribou.model.state import PREDICTIONS, add_release, graph_fingerprint

    fingerprint = graph_fingerprint(data)
    where = first_written(out, lambda place: add_release(model.state.releases[fingerprint], fingerprint, place))
    words = f"the release is kept in {where}: move it to {run / PREDICTIONS}, or this graph costs again"
    lost = f"what is written to {out} is all that is left of this release"
    typer.echo(f"warning: {lost if where is None else words}", err=True)


def _threshold_of(model: Model, given: float | None, positive: str | None) -> Threshold | None:
    """The threshold of the run, with the value and the class that are given."""
    from caribou.metrics import Threshold

    own = model.threshold
    if given is None:
        return own
    if positive is not None and positive not in model.classes:
        raise InputError(
            f"positive must be one of the classes {', '.join(model.classes)}, got {positive!r} (--positive)"
        )
    if positive is None and own is None:
        raise InputError(
            f"positive must be given with --threshold: this run has no class that is flagged, got none "
            f"(--positive {model.classes[0]})"
        )
    place = own.positive if positive is None and own is not None else model.classes.index(str(positive))
    return Threshold(place, given, float("nan"))
