"""Which cells of the paper's tables and figures have records, and why the others have none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from caribou.experiments.records import Record
from caribou.experiments.report.summary import MIN_SEEDS, value_of
from reproduction import paper
from reproduction.rows import AUTHORS, VALIDATED, expanded, row_label

Records = Sequence[Record]
DEGREES = (3, 5, 10, 15, 20, 50, 100)
"""The maximum degrees of the paper's CRV-D."""
CARIBOU = "caribou"
CHAINS = "pu-1 chains"
"""Chains at the paper's size, by the paper's rule."""


@dataclass(frozen=True)
class Wanted:
    """What a cell of the paper asks for.

    row: the row of our tables, or a method where any face of CARIBOU will do. dataset: the paper's name.
    settings: what the fit must have. seeds: how many records at least.
    """

    item: str
    row: str
    dataset: str
    epsilon: Any
    settings: tuple[tuple[str, Any], ...] = ()
    seeds: int = MIN_SEEDS

    def __str__(self) -> str:
        more = "".join(f", {name} {value:g}" for name, value in self.settings)
        return f"{self.item}: {self.row} on {self.dataset} at epsilon {self.epsilon}{more}"


@dataclass(frozen=True)
class Missing:
    """Cells that cannot be had here: which, why, and what would run them. Empty fields match everything."""

    reason: str
    command: str
    item: str = ""
    dataset: str = ""
    method: str = ""
    settings: tuple[tuple[str, Any], ...] = ()

    def covers(self, wanted: Wanted) -> bool:
        """Whether it names this cell."""
        method = wanted.row.partition(",")[0]
        pairs = ((self.item, wanted.item), (self.dataset, wanted.dataset), (self.method, method))
        return all(not own or own == other for own, other in pairs) and set(self.settings) <= set(wanted.settings)


MISSING = (
    Missing(
        "Reddit2's features cannot be had here; `larger` has generated graphs of its size and the edges of ogbn-arxiv",
        "caribou train caribou-edp --graph reddit2.npz --epsilon 4",
        item="larger",
        dataset="reddit2",
    ),
    Missing(
        "with alpha_1 = 0 the layer gives edges no weight, and a release that reads no edge is refused; the records say so",
        "caribou train caribou-edp --dataset cora --epsilon 4 --set alpha1=0",
        item="crv-h",
        settings=(("alpha1", 0.0),),
    ),
)
"""Cells of the paper that have no record, with the reason."""
STAND_INS = (
    Missing(
        "UIllinois20, the paper's Facebook graph, cannot be had here; Berkeley13, another school of Facebook100, stands in",
        "caribou train caribou-edp --graph uillinois20.npz --epsilon 4",
        dataset="facebook",
    ),
)
"""Cells that have records of another data set."""


def expected() -> list[Wanted]:
    """Every cell of PU-1, PU-2, PU-3, CRV, OV, AUD and of the table of Reddit2."""
    return [*_accuracies(), *_curves(), *_degrees(), *_heat_maps(), *_overheads(), *_audits(), *_reddit2()]


ENDINGS = {"edge": "-edp", "node": "-ndp", "none": "-inf"}


def our_method(theirs: str, unit: str) -> str:
    """Our name of a method of the paper at a unit.

    >>> our_method("gap", "node"), our_method("mlp", "none"), our_method("mlp", "node")
    ('gap-ndp', 'mlp', 'mlp-dp')
    """
    if theirs == "mlp":
        return "mlp-dp" if unit == "node" else "mlp"
    return theirs + ENDINGS[unit]


def _accuracies() -> Iterator[Wanted]:
    items = {"top1": "pu-1", "mean": "pu-3", "top1-small-degree": "pu-2"}
    for table, unit, epsilon, theirs, dataset in paper.accuracy_cells():
        method = our_method(theirs, unit)
        faces: tuple[str, ...] = ("",)
        if theirs == CARIBOU:
            faces = (f", {AUTHORS}",) if table == "top1-small-degree" else (f", {AUTHORS}", f", {VALIDATED}")
        for face in faces:
            yield Wanted(items[table], method + face, dataset, epsilon)
        if (table, theirs, unit) == ("top1", CARIBOU, "edge") and dataset.startswith("chain-"):
            yield Wanted(CHAINS, method, dataset, epsilon)


def _curves() -> Iterator[Wanted]:
    for dataset in ("chain-s", "chain-m", "chain-l"):
        for theirs in (CARIBOU, "gap"):
            at = {(p.epsilon, p.settings["hops"]): None for p in paper.points("depth", dataset, theirs)}
            for epsilon, hops in at:
                method = our_method(theirs, "none" if epsilon == "inf" else "edge")
                yield Wanted("crv-eps", method, dataset, epsilon, (("hops", hops),))


def _degrees() -> Iterator[Wanted]:
    for dataset in ("photo", "chain-s"):
        for epsilon in paper.EPSILONS:
            for degree in DEGREES:
                for theirs in (CARIBOU, "gap", "dpdgc", "sage"):
                    yield Wanted("crv-d", our_method(theirs, "node"), dataset, epsilon, (("degree_cap", degree),))


def _heat_maps() -> Iterator[Wanted]:
    for parameter, figure in (("contraction", "C_L"), ("alpha1", "alpha_1"), ("beta", "beta")):
        for dataset in ("chain-s", "cora"):
            for point in paper.points(f"heat map {figure}", dataset):
                value = ((parameter, point.settings[parameter]),)
                yield Wanted("crv-h", "caribou-edp", dataset, point.epsilon, value)


def _overheads() -> Iterator[Wanted]:
    for unit, theirs, dataset in paper.overhead_cells():
        method = our_method(theirs, unit)
        yield Wanted("ov-e" if unit == "edge" else "ov-n", method, dataset, "inf" if method == "mlp" else 1, seeds=1)


def _audits() -> Iterator[Wanted]:
    methods = {"linkteller": "caribou-edp", "g-mia": "caribou-ndp"}
    for attack, dataset, epsilon in paper.audit_cells():
        method = "caribou-inf" if epsilon == "inf" else methods[attack]
        yield Wanted(f"aud {attack}", method, dataset, epsilon, seeds=1)


def _reddit2() -> Iterator[Wanted]:
    for unit, values in paper.REDDIT2.items():
        for epsilon in values:
            yield Wanted("larger", our_method(CARIBOU, unit), "reddit2", epsilon, seeds=1)


# -- what is there -------------------------------------------------------------------------------------------------

SOURCES = {
    "pu-1": ("edge-accuracy", "node-accuracy"),
    CHAINS: ("chain-tops",),
    "pu-2": ("node-small-degree",),
    "pu-3": ("edge-accuracy", "node-accuracy"),
    "crv-eps": ("chain-depth",),
    "crv-d": ("degree",),
    "crv-h": ("heatmaps",),
    "ov-e": ("overhead",),
    "ov-n": ("overhead",),
    "aud linkteller": ("audit",),
    "aud g-mia": ("audit",),
    "larger": ("larger-graph",),
}
"""The experiments that the cells of an item are looked for in."""
ATTACKS = {"aud linkteller": "linkteller", "aud g-mia": "gmia"}


def absent(records: Mapping[str, Records]) -> list[Wanted]:
    """The cells of the paper that have too few records and no named reason."""
    seen = {item: _seeds_by_cell(item, records) for item in SOURCES}
    return [w for w in expected() if _found(w, seen[w.item]) < w.seeds and not any(m.covers(w) for m in MISSING)]


Seen = Mapping[tuple[str, str, str], Sequence[Record]]


def _seeds_by_cell(item: str, records: Mapping[str, Records]) -> Seen:
    """Records by row or method, the paper's data set, and epsilon."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in _of_item(item, records):
        dataset, epsilon = paper.paper_dataset(record.cell["dataset"]), str(record.cell["epsilon"])
        if record.cell["method"] == "mlp":  # without privacy and without the graph it is the same at every epsilon
            epsilon = "inf"
        for row in {row_label(record), str(record.cell["method"])}:
            found.setdefault((row, dataset, epsilon), []).append(record)
    return found


def _of_item(item: str, records: Mapping[str, Records]) -> Iterable[Record]:
    for name in SOURCES[item]:
        for record in expanded(records.get(name, ())):
            if item not in ATTACKS or record.cell["attack"] == ATTACKS[item]:
                yield record


def _found(wanted: Wanted, seen: Seen) -> int:
    """How many seeds the best matching settings have."""
    some = seen.get((wanted.row, wanted.dataset, str(wanted.epsilon)), ())
    matching = [r for r in some if all(value_of(r.cell, name) == value for name, value in wanted.settings)]
    return len({record.cell["seed"] for record in matching})
