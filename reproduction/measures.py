"""What the paper's evaluation measures beside fits: attacks, sweeps, the noise of depth, downstream tasks on a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from caribou.errors import CaribouError, InputError
from caribou.experiments.measures import (
    Cell,
    Measure,
    Meter,
    budget_of,
    graph_of,
    noise_seed,
    settings_of,
)

if TYPE_CHECKING:
    from caribou.audit.linkteller import LinkTeller
    from caribou.audit.metrics import AttackResult
    from caribou.randomness import Streams
    from reproduction.gcn import PlainGcn

GCN = "gcn"
"""No method of the library: the model that LinkTeller was published for."""


ATTACK_RUNS = {"lira": 128}
"""Runs of an attack in a cell that does not name its ``fits``; otherwise 1, because seeds are an axis."""


def sweep_and_score(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> dict[str, Any]:
    """Fit a method once per settings of ``sweep``: lists of accuracies on test and validation nodes, in its order.

    One record for many small fits that share data, split and encoder. Each has noise of its own. Settings that the method refuses
    have no accuracy; ``refusals`` says why.
    """
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.model.estimator import Model, accuracy
    from caribou.models.encoder import kept_fits
    from caribou.privacy.documents import json_number

    graph = graph_of(cell, data_dir, folder)
    name, budget, seed = str(cell["method"]), budget_of(cell), int(cell["seed"])
    found: dict[str, list[Any]] = {"test_accuracies": [], "val_accuracies": [], "refusals": []}
    cost = Meter()
    with kept_fits():
        for settings in cell["sweep"]:
            one = {**{key: value for key, value in cell.items() if key != "sweep"}, "swept": settings}
            try:
                model = Model(name, budget, seed=seed, **{**settings_of(cell), **settings})
                probabilities = model.fit(graph, noise=NoiseSource.seeded(noise_seed(one))).predict_proba()
            except CaribouError as refusal:
                found["refusals"].append(str(refusal))
                scores: tuple[Any, ...] = (None, None)
            else:
                scores = tuple(json_number(accuracy(probabilities, graph, part)) for part in ("test", "val"))
            found["test_accuracies"].append(scores[0])
            found["val_accuracies"].append(scores[1])
    return {**found, "refusals": sorted(set(found["refusals"])), **cost.read()}


def release_and_use(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> dict[str, Any]:
    """Release, then do a downstream ``task``: "links" (AUC and average precision of hidden pairs) or "graphs" (test accuracy).

    The figure of the cell is that of the rows that stand for the method, with cosines or a linear head; ``by_rows`` has all.
    """
    task = str(cell.get("task"))
    if task not in TASKS:
        raise InputError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    return TASKS[task](cell, data_dir, folder)


def _links(cell: Cell, data_dir: Path | None, folder: Path) -> dict[str, Any]:
    """Hide edges, release what is left, score the hidden pairs."""
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods import fit
    from caribou.models.links import COSINE, hide_edges
    from caribou.randomness import Streams
    from reproduction.tasks import link_figures, rows_by_name

    streams = Streams(int(cell["seed"]))
    hidden = hide_edges(graph_of(cell, data_dir, folder), streams)
    cost, method = Meter(), _method_of(cell)
    fitted = fit(method, hidden.graph, budget_of(cell), streams, NoiseSource.seeded(noise_seed(cell)))
    rows = rows_by_name(fitted.released, fitted.weights, hidden.graph)
    figures = {name: link_figures(values, hidden.pairs, hidden.labels) for name, values in rows.items()}
    measured = {**next(iter(figures.values()))[COSINE], "by_rows": figures, "pairs": len(hidden.labels)}
    return {**measured, **_terms(method, fitted), **cost.read()}


def _graphs(cell: Cell, data_dir: Path | None, folder: Path) -> dict[str, Any]:
    """Classify graphs of the collection ``dataset``; with ``one -> other``, graphs of the other, by a release of its own."""
    from caribou.mechanisms.noise_source import NoiseSource
    from caribou.methods import fit, predict_graph
    from caribou.randomness import Streams
    from reproduction import tasks
    from reproduction.collections_of_graphs import load_collection

    streams, noise = Streams(int(cell["seed"])), NoiseSource.seeded(noise_seed(cell))
    name, arrow, second = str(cell["dataset"]).partition(" -> ")
    first = load_collection(name, seed=streams.seed)
    train = tasks.training_graphs(first, streams)
    first = first if arrow else first.with_training_graphs(train)
    cost, method, budget = Meter(), _method_of(cell), budget_of(cell)
    fitted = fit(method, first.graph, budget, streams, noise.stream("first"))
    rows = tasks.rows_by_name(fitted.released, fitted.weights, first.graph)
    if arrow:
        other = load_collection(second, seed=streams.child("another collection").seed)
        again = predict_graph(method, fitted.weights, other.graph, budget, streams, noise.stream("second"))
        theirs = tasks.rows_by_name(again.released, fitted.weights, other.graph)
        figures = {name: tasks.inductive_accuracy(rows[name], first, theirs[name], other) for name in rows}
        tested = len(other.labels)
    else:
        figures = {name: tasks.transductive_accuracy(values, first, train) for name, values in rows.items()}
        tested = len(first.labels) - len(train)
    measured = {"test_accuracy": next(iter(figures.values()))["linear"], "by_rows": figures, "test_graphs": tested}
    return {**measured, **_terms(method, fitted), **cost.read()}


def _method_of(cell: Cell) -> Any:
    from caribou.methods import method_info
    from caribou.models.encoder import HIDDEN

    info = method_info(str(cell["method"]))
    info.check(str(cell["method"]), budget_of(cell))
    settings = settings_of(cell)
    # its rows are the embeddings of an MLP
    return info.create(**({"hidden": HIDDEN, **settings} if cell["method"] == "mlp" else settings))


def _terms(method: Any, fitted: Any) -> dict[str, Any]:
    """What a release cost, and the settings it was made with."""
    from caribou.privacy.documents import json_number

    return {"epsilon_spent": json_number(fitted.certificate.epsilon_spent), "settings": dict(method.settings())}


def noise_of_depth(cell: Cell, data_dir: Path | None = None, folder: Path = Path()) -> dict[str, Any]:
    """The noise that K hops need: exact and Renyi accounting of the convergent bound, and linear composition."""
    from dataclasses import asdict

    from caribou.privacy.depth import plan_rows
    from caribou.privacy.sensitivity import declared_bounds, layer_sensitivity

    cost = Meter()
    budget = budget_of(cell)
    bounds = declared_bounds(
        budget.unit,
        nodes=cell.get("nodes"),
        degree_floor=cell.get("degree_floor"),
        degree_cap=cell.get("degree_cap"),
        declared_degree=cell.get("declared_degree"),
    )
    sensitivity = layer_sensitivity(
        budget.unit, contraction=cell["contraction"], alpha1=cell.get("alpha1", 1.0), beta=0.0, bounds=bounds
    )
    return {**asdict(plan_rows(budget, sensitivity, [int(cell["hops"])])[0]), **cost.read()}


def attack_and_score(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> dict[str, Any]:
    """Fit a method as often as the attack needs it and attack it: AUC, rates beside the allowed ones, how noise was handled.

    Noise follows from the seed of the cell alone: one split, public seed and noise key for all methods and budgets.
    ``attack``: a name in `caribou.audit.auditor.ATTACKS` of one that measures. Fields of the cell with the names of its settings
    (``nodes``, ``query_modes``) are given to it; ``fits``: its runs.
    """
    graph = graph_of(cell, data_dir, folder)
    cost = Meter()
    result, settings = _attacked(cell, graph)
    return {**result.to_json(), "settings": settings, **cost.read()}


def _attacked(cell: Cell, graph: Any) -> tuple[Any, dict[str, Any]]:
    """The result of the attack that a cell names, and the settings of the method."""
    from caribou.audit.attack import Terms
    from caribou.audit.audited_method import AuditedMethod
    from caribou.methods import method_info

    attack, seed = attack_of(cell), int(cell["seed"])
    name, budget = str(cell["method"]), budget_of(cell)
    info = method_info(name)
    info.check(name, budget)
    method = info.create(**settings_of(cell))
    runs = int(cell.get("fits", ATTACK_RUNS.get(attack.name, 1)))
    found = attack.run(AuditedMethod(name, method, budget, graph, seed), Terms(runs))
    return found.measured[attack.name], dict(method.settings())


def attack_of(cell: Cell) -> Any:
    """The attack that a cell names, with those of its settings that the cell has."""
    from dataclasses import fields, replace

    from caribou.audit.auditor import ATTACKS
    from caribou.audit.catalogue import Promise

    measuring: dict[str, Any] = {n: a for n, a in ATTACKS.items() if a.facts.promise in (Promise.RATES, Promise.NONE)}
    if (name := str(cell["attack"])) not in measuring:
        raise InputError(f"attack must be one of {', '.join(measuring)}, got {name!r}")
    attack = measuring[name]
    return replace(attack, **{field.name: cell[field.name] for field in fields(attack) if field.name in cell})


def attack_as_published(cell: Cell, data_dir: Path | None, folder: Path = Path()) -> dict[str, Any]:
    """Attack a method; in place of a method ``gcn``: LinkTeller as published, on a plain GCN without privacy."""
    if cell["method"] != GCN:
        return attack_and_score(cell, data_dir, folder)
    from caribou.audit.linkteller import LinkTeller
    from caribou.randomness import Streams
    from reproduction.gcn import SETTINGS, PlainGcn

    attack = attack_of(cell)
    if not isinstance(attack, LinkTeller):
        raise InputError(f"attack must be linkteller for {GCN}, got {cell['attack']!r}")
    graph, cost, streams = graph_of(cell, data_dir, folder), Meter(), Streams(int(cell["seed"]))
    box = PlainGcn.fit(graph, streams)
    result = black_box_attacked(replace(attack, entries="all"), box, streams)
    return {**result.to_json(), "settings": dict(SETTINGS), **cost.read()}


def black_box_attacked(attack: LinkTeller, box: PlainGcn, streams: Streams) -> AttackResult:
    """What LinkTeller finds in a model that is reached through predictions only; its own edges are the truth."""
    from caribou.audit.linkteller import draw_nodes
    from caribou.audit.metrics import FALSE_POSITIVE_RATES, summarise

    chosen = draw_nodes(box.graph, attack.nodes, streams.generator("linkteller nodes 0"))
    found = attack.scored(box.query, box.graph, chosen)
    return summarise(
        attack.name,
        [found],
        allowed=dict.fromkeys(FALSE_POSITIVE_RATES, 1.0),
        details=attack.figures("black box", {"black box": [found]}),
        note="LinkTeller on a black box: whether its noise is the same in all queries is up to the box.",
    )


TASKS: Mapping[str, Measure] = {"links": _links, "graphs": _graphs}
"""What is done with a release, by the ``task`` of a cell."""
KINDS: Mapping[str, Measure] = {
    "sweep": sweep_and_score,
    "audit": attack_as_published,
    "noise": noise_of_depth,
    "downstream": release_and_use,
}
"""By the ``kind`` of an experiment."""
