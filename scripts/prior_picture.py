"""The picture of docs/training.md: votes with the first prior and with the present one, from records. `make pictures`."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Mapping

from matplotlib.figure import Figure
from reproduction.pages import ROOT
from svg import save, use_style

from caribou.experiments.records import read_all
from caribou.experiments.report.summary import Mean, mean_of
from caribou.pages.palette import COLOURS, MARKERS

PANELS = {
    "cora": "Cora",
    "pubmed": "PubMed",
    "photo": "Amazon Photo",
    "computers": "Amazon Computers",
    "berkeley13": "Berkeley13",
    "chain-s:75": "chains of 8 nodes",
}
EPSILONS = (1, 2, 4, 8, 16, 32)
METHOD = "votes-edp"
Line = Mapping[float, Mean]


def first_prior() -> dict[str, Line]:
    """What the first version had: an MLP as prior, three splits, settings searched on Cora, PubMed and Photo."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (ROOT / "reproduction" / "results" / "edge-accuracy-first-prior.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["method"] == METHOD:
                found[row["dataset"]][float(row["epsilon"])].append(float(row["test_accuracy"]))
    return {name: {e: mean_of(values) for e, values in line.items()} for name, line in found.items()}


def present_prior() -> dict[str, Line]:
    """What the records have."""
    found: dict[str, dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in read_all(ROOT / "reproduction" / "results")[0]["edge-accuracy"]:
        if record.cell["method"] == METHOD and record.status == "ok":
            found[record.cell["dataset"]][float(record.cell["epsilon"])].append(record.measures["test_accuracy"])
    return {name: {e: mean_of(values) for e, values in line.items()} for name, line in found.items()}


def main() -> None:
    """One panel per data set, two lines each, with intervals."""
    use_style()
    before, after = first_prior(), present_prior()
    figure = Figure(figsize=(8.4, 5.0))
    places = figure.subplots(2, 3).flat
    said = []
    for place, (name, title) in zip(places, PANELS.items(), strict=True):
        for lines, style, label in ((before, "--", "first prior, searched"), (after, "-", "present prior, defaults")):
            line = lines[name]
            x = sorted(line)
            y = [100 * line[e].value for e in x]
            bars = [100 * line[e].half_width for e in x]
            colour = COLOURS["votes"] if style == "-" else COLOURS["mlp"]
            place.errorbar(
                x, y, bars, color=colour, linestyle=style, marker=MARKERS["votes"], markersize=3.5, label=label
            )
        place.set_title(title)
        place.set_xscale("log", base=2)
        place.set_xticks(EPSILONS, list(map(str, EPSILONS)))
        said.append(f"{title} {100 * before[name][1].value:.1f} and {100 * after[name][1].value:.1f}")
    figure.legend(*place.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    figure.supylabel("test accuracy in %", fontsize=9)
    figure.supxlabel("ε (edge level)", fontsize=9)
    text = f"Mean test accuracy of votes at epsilon 1 with the first and with the present prior: {', '.join(said)} %."
    save(figure, "prior", "Votes with the first prior and with the present one", text)


if __name__ == "__main__":
    main()
