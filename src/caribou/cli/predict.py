"""``caribou predict``, ``embed`` and ``certificate``: what a saved run is good for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from caribou._files import atomic_file
from caribou.cli.options import (
    NO_TABLE_OPTIONS,
    ClassNames,
    Column,
    GraphSource,
    LedgerOption,
    Name,
    NodeTable,
    ReplaceFingerprint,
    TableOptions,
    with_table_options,
)
from caribou.errors import InputError
from caribou.privacy.budget import PrivacyUnit

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from caribou.estimators import Model
    from caribou.graph import Graph
    from caribou.privacy.certificate import Certificate

TABLES = (".csv", ".parquet")
_Run = Annotated[Path, typer.Argument(help="The folder that caribou train --out wrote.")]
_Graph = Annotated[Path | None, typer.Option(help="Another graph: .npz, .pt, .graphml, or an edge table.")]
_Training = Annotated[
    bool,
    typer.Option(
        "--training-graph",
        help="--graph is the training graph again, rows in any order: use what was released, spend nothing.",
    ),
]


@with_table_options
def predict(
    run: _Run,
    out: Annotated[Path, typer.Option(help="Write the predictions to this new file: .csv or .parquet.")],
    graph: _Graph = None,
    nodes: NodeTable = None,
    column: Column = None,
    classes: ClassNames = None,
    tables: TableOptions = NO_TABLE_OPTIONS,
    name: Name = None,
    training_graph: _Training = False,
    ledger: LedgerOption = None,
    replace_fingerprint: ReplaceFingerprint = False,
) -> None:
    """Write the class of every node, with its probability. The column of ids keeps its title (node, where it has none).

    Without --graph: the nodes of the training graph, from the saved run; free. With --graph: another graph, which costs a new
    release about it, and its certificate is written beside OUT. At node level a run holds no predictions: give the training
    graph with --training-graph, which is free.

    Example: caribou predict run --out predictions.csv
    """
    from caribou.estimators import load

    check_table(out)
    model = load(run)
    source = GraphSource(graph=graph, nodes=nodes, columns=column or (), name=name, classes=classes, tables=tables)
    if not source.is_given:
        own = nodes is not None or column or classes is not None or name is not None or tables.is_given
        if own or training_graph:
            raise InputError(
                "nodes, column, classes, name, rules of tables and training-graph must go with --graph, got no --graph"
            )
        probabilities, ids, title = model.predict_proba(), model.node_ids, model.id_title
    else:
        data = source.load(
            otherwise=model.classes if model.budget.unit is PrivacyUnit.NODE else None,
            unit=model.budget.unit,
            saved=model.column_rules,
        )
        ids = None if data.node_ids is None else tuple(str(i) for i in data.node_ids)
        title = data.id_title
        if training_graph:
            probabilities = model.predict_proba(data, training_graph=True)
        else:
            probabilities = _new_release(model, data, out, ledger, replace_fingerprint)
    write_table(_predictions(probabilities, model.classes, ids, title), out)
    typer.echo(f"wrote {len(probabilities)} predictions to {out}")
    if model.budget.unit is PrivacyUnit.NODE:
        typer.echo(
            "do not publish them: each is computed from its node's own features, which no certificate covers", err=True
        )


def embed(
    run: _Run,
    out: Annotated[Path, typer.Option(help="Write X^(K) to this new file: .csv, .parquet or .npy.")],
) -> None:
    """Write the embeddings X^(K) of a run, for any other task. They are already released: this costs nothing.

    A run without privacy, or with a void certificate, is written with a warning.

    Example: caribou embed run --out embeddings.parquet
    """
    import numpy as np

    from caribou.estimators import load

    check_table(out, (*TABLES, ".npy"))
    model = load(run)
    state = model.embeddings
    warn_unprotected(model)
    if out.suffix == ".npy":
        _write_whole(out, lambda path: np.save(path, state))
    else:
        write_table(_table(state, [f"x{i}" for i in range(state.shape[1])], model.node_ids, model.id_title), out)
    typer.echo(f"wrote {state.shape[0]} x {state.shape[1]} embeddings to {out}")


def warn_unprotected(model: Model) -> None:
    """Say on stderr if the certificate of a run promises nothing."""
    from caribou.models.released_rows import unprotected

    if not model.certificate.is_guarantee:
        typer.echo(f"warning: {unprotected(model.certificate)}", err=True)


def certificate(
    run: Annotated[Path, typer.Argument(help="The folder that caribou train --out wrote, or a certificate in JSON.")],
    markdown: Annotated[bool, typer.Option("--markdown", help="For people, instead of JSON.")] = False,
    sign: Annotated[
        Path | None,
        typer.Option(help="Sign it with this private key (PEM, Ed25519) and write the signature beside it."),
    ] = None,
) -> None:
    """Print the certificate of a run, or sign it. caribou verify RUN recomputes it and, with --key, checks the signature.

    The signature is written to certificate.json.sig. The passphrase of an encrypted key is taken from CARIBOU_KEY_PASSPHRASE. A
    certificate that does not verify is not signed.

    Example: caribou certificate run --markdown
    """
    from caribou.cli.verify import certificate_file, read_bytes
    from caribou.privacy.certificate import Certificate

    path = certificate_file(run)
    data = read_bytes(path)
    found = Certificate.from_json(data, source=str(path))
    if sign is None:
        typer.echo(found.to_markdown() if markdown else found.to_json(), nl=False)
        return
    if markdown:
        raise InputError("markdown must not go with --sign: the JSON is signed")
    _require_verified(found, path)
    from caribou.privacy.signature import write_signature
    from caribou.saved_model import RECORD

    if (
        run.is_dir()
    ):  # the record holds the digests of all arrays: a signed certificate beside other arrays would vouch for them
        record = run / RECORD
        write_signature(record, read_bytes(record), sign)
    target, signer = write_signature(path, data, sign)
    typer.echo(f"signed {path} as {signer}: {target}")


def _require_verified(found: Certificate, path: Path) -> None:
    """A signature vouches for a claim. What claims nothing (no privacy) may be signed, too."""
    from caribou.privacy.verify import verify

    failing = [check for check in verify(found).checks if not check.passed] if found.is_private else []
    if failing:
        raise InputError(
            f"certificate must verify to be signed, got {path}, in which {failing[0].name} fails; see caribou verify"
        )


def _new_release(model: Model, data: Graph, out: Path, ledger: Path | None, replace_fingerprint: bool) -> np.ndarray:
    certificate_path = out.with_suffix(".certificate.json")
    if certificate_path.exists():
        raise InputError(
            f"certificate of the new release must be a new file, got {str(certificate_path)!r}, which exists"
        )
    if ledger is None and model.charged:
        raise InputError(
            "ledger must be given (--ledger): this run was charged in one, and predictions for another graph are a new release; "
            "--training-graph predicts the graph of training again and spends nothing"
        )
    if model.node_ids is not None and data.node_ids is not None and set(model.node_ids) == set(map(str, data.node_ids)):
        typer.echo("warning: these are the nodes of the training graph; --training-graph would spend nothing", err=True)
    result = model.predict_graph(data, ledger=ledger, replace_fingerprint=replace_fingerprint)
    if result.certificate.epsilon_spent == 0:
        where = "" if ledger is None else f"; entered in {ledger} at no cost"
        typer.echo(f"each prediction is made from a node's own features: nothing was released{where}", err=True)
        return result.probabilities
    result.certificate.save(certificate_path)
    charged = "charged in no ledger" if ledger is None else f"charged in {ledger}"
    typer.echo(
        f"a new release about {data.name!r}: {model.budget}, {charged}; certificate: {certificate_path}", err=True
    )
    return result.probabilities


def _predictions(
    probabilities: np.ndarray, classes: tuple[str, ...], ids: tuple[str, ...] | None, title: str | None
) -> pd.DataFrame:
    taken = title in ("class", "probability")
    table = _table(probabilities, [f"p_{name}" for name in classes], ids, None if taken else title)
    best = probabilities.argmax(axis=1)
    table.insert(1, "class", [classes[k] for k in best])
    table.insert(2, "probability", probabilities.max(axis=1))
    return table


def _table(values: np.ndarray, columns: list[str], ids: tuple[str, ...] | None, title: str | None) -> pd.DataFrame:
    """The values with the ids before them, under their own title; ``node`` if they have none, or another column has it."""
    import pandas as pd

    table = pd.DataFrame(values, columns=columns)
    own = title is not None and ids is not None and title not in columns
    table.insert(0, title if own else "node", list(ids) if ids is not None else range(len(values)))
    return table


def check_table(out: Path, endings: tuple[str, ...] = TABLES) -> None:
    """A table that can be written: a known ending, a new file, in a folder that can be written."""
    from caribou.saved_model import require_writable

    if out.suffix not in endings:
        raise InputError(f"out must end in {' or '.join(endings)}, got {str(out)!r}")
    if not out.absolute().parent.is_dir() or out.is_dir():
        raise InputError(f"out must be a file in a folder that exists, got {str(out)!r}")
    if out.exists():
        raise InputError(f"out must be a new file, got {str(out)!r}, which exists")
    require_writable(out.absolute().parent, str(out))


def write_table(table: pd.DataFrame, out: Path) -> None:
    """By the ending of the file, whole or not at all."""
    if out.suffix == ".csv":
        _write_whole(out, lambda path: table.to_csv(path, index=False))
    else:
        _write_whole(out, lambda path: table.to_parquet(path, index=False))


def _write_whole(out: Path, write: Callable[[Path], object]) -> None:
    """Whole or not at all."""
    try:
        with atomic_file(out) as temporary:
            write(temporary)
    except OSError as error:
        raise InputError(f"out must be a file that can be written, got {str(out)!r}: {error.strerror}") from error
