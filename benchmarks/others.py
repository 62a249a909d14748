"""What fits cost and reach beside those of others: ratios of CPU time measured in one run on one thread.

(a) Edge level, on Cora: votes-edp and caribou-edp with all stages, calibration included, against a plain two-layer PyG GCN of
200 epochs and against the published training of GAP and DPDGC (`Published`: their numbers, with where they stand). Their
loading, calibration, logs and files are left out, which is in their favour. (b) Node level, one step: our clipped and noisy
gradient against that of Opacus, for the same module and batch. (c) Node level, one budget: mlp-dp and votes-ndp against DP-SGD
by Opacus, CPU seconds of a fit and test accuracy. Opacus gets rows that were made before and what is best on validation nodes of
the first seed among two models, four learning rates and two lengths. Neither rows nor calibration nor search is counted, and
gradients are clipped in its fastest way.

Both sides have their libraries imported and are run once before. Needs the files of the data sets: set CARIBOU_DATA. Without
them, and with --quick, a generated graph stands in.

    python benchmarks/others.py
    python benchmarks/others.py --quick          (a small graph and a tenth of the epochs: does it run?)
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dp_accounting.pld  # noqa: F401  what accounting imports is not timed, as Opacus is not
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import caribou as cb
from caribou.mechanisms.noisy_descent import Adam, Descent, noisy_gradient_descent, train_privately
from caribou.model.estimator import accuracy
from caribou.models.features import unit_root_rows
from caribou.privacy.allocation import AllocatedPart, Part
from machine import cpu_seconds, described, machine

EPSILON, DELTA = 4.0, 1e-5
EDGE_METHODS = ("votes-edp", "caribou-edp")
DECLARED_AVERAGE_DEGREES = {"cora": 4, "pubmed": 4.5}
"""For votes-ndp, which is run on these graphs, with a declared degree of 70."""
GOALS = {
    "votes-edp / GCN": "<= 0.15",
    "votes-edp / GAP (GAP)": "<= 1.2",
    "caribou-edp / GCN": "<= 1",
    "one step, MLP 64, batch 1,024 / Opacus, ghost": "<= 1",
    "votes-ndp / Opacus": "<= 0.1",
}
BATCH = 256
NOISE_MULTIPLIER, CLIP = 1.0, 1.0
"""Where only time is measured: it does not depend on them."""


@dataclass(frozen=True)
class Published:
    """The numbers of a published training script."""

    source: str
    hidden: int
    rate: float
    dropout: float
    batch: int | None  # None: all training nodes in every step
    encoder_decay: float = 0.0
    encoder_epochs: int = 100
    epochs: int = 100
    hops: int = 2


GAP = Published("sisaman/GAP, test/train/gap-edp.sh", 16, 0.01, 0.0, None)
GAP_ON_CORA = Published("thupchnsky/dp-gnn, train_scripts/real/GAP-edge.sh", 64, 0.001, 0.5, None)
DPDGC = Published("thupchnsky/dp-gnn, train_scripts/real/DPDGC-edge.sh, cora", 64, 0.001, 0.5, 64, encoder_decay=1e-5)


@dataclass(frozen=True)
class Arrays:
    """A graph as others take it: dense features, and A as a sparse matrix without self loops."""

    x: Tensor
    y: Tensor
    adjacency: sparse.csr_array
    train: Tensor
    val: Tensor
    classes: int

    @classmethod
    def of(cls, graph: cb.Graph) -> Arrays:
        data = graph.to_pyg()
        x = (data.x.to_dense() if data.x.layout != torch.strided else data.x).float()
        source, target = data.edge_index.numpy()
        ones = np.ones(len(source), dtype=np.float32)
        adjacency = sparse.csr_array((ones, (source, target)), shape=(graph.num_nodes,) * 2)
        train, val = (torch.from_numpy(np.array(part)) for part in (graph.split.train, graph.split.val))
        return cls(x, data.y, adjacency, train, val, graph.num_classes)

    def rows(self, nodes: Tensor) -> Tensor:
        """Rows of A, dense."""
        return torch.from_numpy(self.adjacency[nodes.numpy()].toarray())


# -- (a) edge level ---------------------------------------------------------------------------------------------------


def gcn(graph: cb.Graph, epochs: int) -> None:
    """A two-layer GCN with 16 hidden units, as in its paper: dropout 1/2, Adam, weight decay."""
    from torch_geometric.nn import GCNConv

    arrays, edges = Arrays.of(graph), graph.to_pyg().edge_index
    first, second = GCNConv(arrays.x.size(1), 16), GCNConv(16, arrays.classes)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
    for _ in range(epochs):
        h = torch.relu(first(torch.dropout(arrays.x, 0.5, True), edges))
        out = second(torch.dropout(h, 0.5, True), edges)
        descend(optimizer, out[arrays.train], arrays.y[arrays.train])


def descend(optimizer: Any, logits: Tensor, labels: Tensor) -> None:
    loss = functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def keep_best(
    module: nn.Module, epochs: int, epoch: Callable[[], None], logits: Callable[[], Tensor], labels: Tensor
) -> None:
    """Epochs with the accuracy on validation nodes after each; the best state is loaded at the end."""
    best, state = -1.0, module.state_dict()
    for _ in range(epochs):
        module.train()
        epoch()
        module.eval()
        with torch.no_grad():
            correct = float((logits().argmax(1) == labels).float().mean())
        if correct > best:
            best, state = correct, copy.deepcopy(module.state_dict())
    module.load_state_dict(state)


def between(width: int, dropout: float) -> nn.Sequential:
    """What stands between two linear layers of both."""
    return nn.Sequential(nn.BatchNorm1d(width), nn.Dropout(dropout), nn.SELU())


class UnitRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return functional.normalize(x, dim=1)


def two_layers(columns: int, hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(columns, hidden), between(hidden, dropout), nn.Linear(hidden, hidden))


class OfHops(nn.Module):
    """GAP's classifier: a linear layer per hop, put side by side, and a head."""

    def __init__(self, hops: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.bases = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(hops + 1))
        width = (hops + 1) * hidden
        self.head = nn.Sequential(UnitRows(), between(width, dropout), nn.Linear(width, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.cat([base(x[..., hop]) for hop, base in enumerate(self.bases)], dim=1))


def gap(graph: cb.Graph, given: Published) -> None:
    """An encoder on the training nodes, K noisy sums over neighbours, a classifier on all of them; full batches."""
    data = Arrays.of(graph)
    embed = nn.Sequential(two_layers(data.x.size(1), given.hidden, given.dropout), UnitRows())
    encoder = nn.Sequential(embed, between(given.hidden, given.dropout), nn.Linear(given.hidden, data.classes))
    fit_on(encoder, data.x, data, given, given.encoder_epochs)
    with torch.no_grad():
        hops = [functional.normalize(embed(data.x), dim=1)]
        for _ in range(given.hops):
            sums = torch.from_numpy(data.adjacency @ hops[-1].numpy())
            hops.append(functional.normalize(sums + NOISE_MULTIPLIER * torch.randn_like(sums), dim=1))
    classifier = OfHops(given.hops, given.hidden, data.classes, given.dropout)
    fit_on(classifier, torch.stack(hops, dim=2), data, given, given.epochs)


def fit_on(module: nn.Module, x: Tensor, data: Arrays, given: Published, epochs: int) -> None:
    """Adam on the training nodes: all of them in each step, or whole batches in random order."""
    optimizer = torch.optim.Adam(module.parameters(), lr=given.rate)

    def epoch() -> None:
        for batch in shuffled(data.train, given.batch):
            descend(optimizer, module(x[batch]), data.y[batch])

    keep_best(module, epochs, epoch, lambda: module(x[data.val]), data.y[data.val])


def shuffled(nodes: Tensor, batch: int | None) -> Iterator[Tensor]:
    if batch is None:
        yield nodes
        return
    order = nodes[torch.randperm(len(nodes))]
    yield from (part for part in order.split(batch) if len(part) == batch)


class Decoupled(nn.Module):
    """DPDGC's classifier: features through an MLP, beside the released product, mixed with a way around the mixing."""

    def __init__(self, columns: int, hidden: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.columns = columns
        self.features = two_layers(columns, hidden, dropout)
        self.mix = nn.Sequential(between(2 * hidden, dropout), two_layers(2 * hidden, hidden, dropout))
        self.head = nn.Sequential(between(hidden, dropout), nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        own, product = self.features(x[:, : self.columns]), x[:, self.columns :]
        return self.head(self.mix(torch.cat([own, product], dim=1)) + own + product)


def dpdgc(graph: cb.Graph, given: Published) -> None:
    """DP-SGD of W on rows of A (by Opacus, as published), one noisy product A W, a classifier on features and product.

    W is brought to columns of length 1, as the paper says; the published code does so to a copy. The frozen head is random.
    """
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    data, batch = Arrays.of(graph), given.batch or len(graph.split.train)
    weights, head = nn.Linear(graph.num_nodes, given.hidden), nn.Linear(given.hidden, data.classes)
    head.requires_grad_(False)
    private = GradSampleModule(nn.Sequential(weights, nn.SELU(), head))
    adam = torch.optim.Adam(weights.parameters(), lr=given.rate, weight_decay=given.encoder_decay)
    optimizer = DPOptimizer(adam, noise_multiplier=2 * NOISE_MULTIPLIER, max_grad_norm=CLIP, expected_batch_size=batch)
    shape = (len(data.val), graph.num_nodes)
    coordinates = np.stack(data.adjacency[data.val.numpy()].nonzero())
    val_rows = torch.sparse_coo_tensor(torch.from_numpy(coordinates), torch.ones(coordinates.shape[1]), shape)

    def epoch() -> None:
        for _ in range(-(-len(data.train) // batch)):
            sample = data.train[torch.randperm(len(data.train))[:batch]]
            descend(optimizer, private(data.rows(sample)), data.y[sample])

    def logits() -> Tensor:
        return head(functional.selu(torch.sparse.mm(val_rows, weights.weight.T) + weights.bias))

    keep_best(private, given.encoder_epochs, epoch, logits, data.y[data.val])
    with torch.no_grad():
        unit = functional.normalize(weights.weight, dim=0).T.numpy()
        product = torch.from_numpy(data.adjacency @ unit) + weights.bias
    x = torch.cat([data.x, product + NOISE_MULTIPLIER * torch.randn_like(product)], dim=1)
    fit_on(Decoupled(data.x.size(1), given.hidden, data.classes, given.dropout), x, data, given, given.epochs)


def edge_level(graph: cb.Graph, share: float, repeats: int) -> dict[str, float]:
    """(a): CPU seconds of each fit."""
    rivals: dict[str, Callable[[], None]] = {"GCN": lambda: gcn(graph, int(200 * share))}
    for name, given, train in (("GAP (GAP)", GAP, gap), ("GAP (DPDGC)", GAP_ON_CORA, gap), ("DPDGC", DPDGC, dpdgc)):
        some = replace(given, epochs=int(given.epochs * share), encoder_epochs=int(given.encoder_epochs * share))
        rivals[name] = lambda train=train, some=some: train(graph, some)
    small = cb.datasets.load("csbm", nodes=2000, features=100, seed=0)
    gcn(small, 2)
    for name in EDGE_METHODS:
        cb.Model(name, cb.Budget(EPSILON, DELTA, "edge")).fit(small)
        rivals[name] = lambda name=name: cb.Model(name, cb.Budget(EPSILON, DELTA, "edge")).fit(graph)
    return {name: cpu_seconds(work, 1 if name == "DPDGC" else repeats) for name, work in rivals.items()}


# -- (b), (c) node level ----------------------------------------------------------------------------------------------


def network(columns: int, hidden: int, classes: int) -> nn.Module:
    if hidden == 0:
        return nn.Linear(columns, classes)
    return nn.Sequential(nn.Linear(columns, hidden), nn.SELU(), nn.Linear(hidden, classes))


def unit_rows(graph: cb.Graph) -> np.ndarray:
    """The rows of mlp-dp before they are centred, dense."""
    x = unit_root_rows(graph.features)
    return np.asarray(x.toarray() if sparse.issparse(x) else x)


def opacus_step(module: nn.Module, x: Tensor, y: Tensor, mode: str) -> Callable[[], None]:
    """One clipped and noisy step on a batch, by one of Opacus's ways; its loader is left out."""
    from opacus import PrivacyEngine

    parts = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=0.01),
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=len(y)),
        noise_multiplier=NOISE_MULTIPLIER,
        max_grad_norm=CLIP,
        grad_sample_mode=mode,
    )
    private, optimizer = parts[:2]
    criterion = parts[2] if mode == "ghost" else nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(private(x), y).backward()
        optimizer.step()

    return step


def our_steps(module: nn.Module, x: np.ndarray, y: np.ndarray, classes: int, steps: int) -> Callable[[], object]:
    """As many steps on a batch, with secure noise and in double precision; the linear model by its own loop."""
    part, noise = AllocatedPart(Part("training", steps=steps), NOISE_MULTIPLIER), cb.NoiseSource.secure()
    if isinstance(module, nn.Linear):
        schedule = Descent(steps, CLIP, 0.01 / len(y))
        return lambda: noisy_gradient_descent(x, y, classes=classes, schedule=schedule, calibrated=part, noise=noise)
    rule = Adam(0.01)
    return lambda: train_privately(
        module, x, y, clip=CLIP, divisor=len(y), optimizer=rule, calibrated=part, noise=noise
    )


def one_step(graph: cb.Graph, steps: int) -> dict[str, float]:
    """(b): CPU seconds of a step: ours in double precision with secure noise, Opacus's in single with that of torch."""
    rows, labels, train = unit_rows(graph), np.array(graph.labels), np.array(graph.split.train)
    found = {}
    for hidden, size in ((64, 256), (64, 1024), (0, len(train))):
        x, y = rows[train[:size]], labels[train[:size]]
        module = network(x.shape[1], hidden, graph.num_classes)
        kind = f"MLP 64, batch {len(y):,}" if hidden else f"linear, all {len(y):,} rows"
        found[f"{kind}: ours"] = cpu_seconds(our_steps(module, x, y, graph.num_classes, steps)) / steps
        for mode in ("hooks", "ghost"):
            step = opacus_step(copy.deepcopy(module), torch.from_numpy(x).float(), torch.from_numpy(y), mode)
            step()
            seconds = cpu_seconds(lambda step=step: [step() for _ in range(steps)])
            found[f"{kind}: Opacus, {mode}"] = seconds / steps
    return found


def opacus_noise(batches: int, epochs: int) -> float:
    """Its noise multiplier at the budget, by its tightest accountant; steps and rate as its engine counts them from a loader."""
    from opacus.accountants.utils import get_noise_multiplier

    return get_noise_multiplier(
        target_epsilon=EPSILON, target_delta=DELTA, sample_rate=1 / batches, steps=epochs * batches, accountant="prv"
    )


@dataclass(frozen=True)
class Choice:
    """What is searched for Opacus: hidden units (0: a linear model), learning rate, epochs."""

    hidden: int
    rate: float
    epochs: int


def opacus_fit(data: TensorDataset, classes: int, choice: Choice, *, noise_multiplier: float, seed: int) -> nn.Module:
    """DP-SGD by Opacus in its documented way: Poisson batches, clip 1, SGD; ghost clipping, which is its fastest."""
    from opacus import PrivacyEngine

    torch.manual_seed(seed)
    module = network(data.tensors[0].size(1), choice.hidden, classes)
    private, optimizer, criterion, batches = PrivacyEngine().make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=choice.rate),
        criterion=nn.CrossEntropyLoss(),
        data_loader=DataLoader(data, batch_size=BATCH),
        noise_multiplier=noise_multiplier,
        max_grad_norm=CLIP,
        grad_sample_mode="ghost",
    )
    for _ in range(choice.epochs):
        for x, y in batches:
            if len(y):
                optimizer.zero_grad()
                criterion(private(x), y).backward()
                optimizer.step()
    return private


def ours_at_budget(method: str, graphs: list[cb.Graph], **options: float) -> dict[str, Any]:
    """CPU seconds of a fit, all that it needs included (the least of the seeds), and mean test accuracy."""
    seconds, right = [], []
    for seed, graph in enumerate(graphs):
        model = cb.Model(method, cb.Budget(EPSILON, DELTA, "node"), seed=seed, **options)
        seconds.append(cpu_seconds(lambda model=model, graph=graph: model.fit(graph), 1))
        right.append(accuracy(model.predict_proba(), graph, "test"))
    return {"seconds": min(seconds), "accuracy": float(np.mean(right))}


def opacus_at_budget(graphs: list[cb.Graph], lengths: tuple[int, ...]) -> dict[str, Any]:
    """The same of Opacus, by what is best on the validation nodes of the first seed. ``lengths``: about how many steps."""
    batches = -(-len(graphs[0].split.train) // BATCH)
    noise = {epochs: opacus_noise(batches, epochs) for epochs in {-(-steps // batches) for steps in lengths}}

    def fitted(seed: int, choice: Choice) -> dict[str, float]:
        graph, models = graphs[seed], []
        rows, labels = torch.from_numpy(unit_rows(graph)).float(), torch.from_numpy(np.array(graph.labels))
        train = np.array(graph.split.train)
        data, options = (
            TensorDataset(rows[train], labels[train]),
            {"noise_multiplier": noise[choice.epochs], "seed": seed},
        )
        seconds = cpu_seconds(lambda: models.append(opacus_fit(data, graph.num_classes, choice, **options)), 1)
        with torch.no_grad():
            right = models[0].eval()(rows).argmax(1) == labels
        parts = {"val": graph.split.val, "test": graph.split.test}
        return {"seconds": seconds} | {
            name: float(right[np.array(part)].float().mean()) for name, part in parts.items()
        }

    choices = [Choice(*given) for given in itertools.product((0, 64), (0.5, 2.0, 8.0, 32.0), noise)]
    best = max(choices, key=lambda choice: fitted(0, choice)["val"])
    fits = [fitted(seed, best) for seed in range(len(graphs))]
    kind = f"{f'MLP {best.hidden}' if best.hidden else 'linear'}, rate {best.rate:g}, {best.epochs} epochs"
    seconds, right = ([fit[name] for fit in fits] for name in ("seconds", "test"))
    return {"seconds": min(seconds), "accuracy": float(np.mean(right)), "kind": kind}


def one_budget(name: str, graphs: list[cb.Graph], lengths: tuple[int, ...]) -> dict[str, Any]:
    """(c) on one data set."""
    found = {"mlp-dp": ours_at_budget("mlp-dp", graphs)}
    if name in DECLARED_AVERAGE_DEGREES:
        degrees = {"declared_degree": 70, "declared_average_degree": DECLARED_AVERAGE_DEGREES[name]}
        found["votes-ndp"] = ours_at_budget("votes-ndp", graphs, **degrees)
    return found | {"Opacus": opacus_at_budget(graphs, lengths)}


# -- what is printed --------------------------------------------------------------------------------------------------


def ratios_of(results: dict[str, Any]) -> dict[str, float]:
    """Ours over each of theirs: below 1 we are faster."""
    ratios = {}
    seconds = results["edge level"]
    for method in EDGE_METHODS:
        ratios |= {
            f"{method} / {name}": seconds[method] / seconds[name] for name in seconds if name not in EDGE_METHODS
        }
    steps = results["one step"]
    for key in (key for key in steps if "Opacus" in key):
        kind, _, rival = key.partition(": ")
        ratios[f"one step, {kind} / {rival}"] = steps[f"{kind}: ours"] / steps[key]
    for name, found in results["one budget"].items():
        for method in (m for m in found if m != "Opacus"):
            ratios[f"{method} / Opacus, {name}"] = found[method]["seconds"] / found["Opacus"]["seconds"]
    return ratios


def show(results: dict[str, Any]) -> None:
    console = Console(highlight=False, width=110)
    console.print(described(results["machine"]))
    table = Table(f"edge level, one fit on {results['graph']}", "CPU s", *(f"{name} / it" for name in EDGE_METHODS))
    seconds = results["edge level"]
    for name, value in seconds.items():
        table.add_row(name, f"{value:.2f}", *(f"{seconds[method] / value:.2f}" for method in EDGE_METHODS))
    console.print(table)
    table = Table(f"one step on {results['graph of steps']}", "CPU ms")
    for name, value in results["one step"].items():
        table.add_row(name, f"{1000 * value:.1f}")
    console.print(table)
    table = Table("node level", f"epsilon = {EPSILON:g}", "CPU s of a fit", "test accuracy", "Opacus's choice")
    for name, found in results["one budget"].items():
        for method, one in found.items():
            table.add_row(name, method, f"{one['seconds']:.2f}", f"{one['accuracy']:.1%}", one.get("kind", ""))
    console.print(table)
    table = Table("ratio of CPU time, ours / theirs", "measured", "to reach")
    for name, ratio in results["ratios"].items():
        table.add_row(name, f"{ratio:.3g}", next((goal for words, goal in GOALS.items() if name.startswith(words)), ""))
    console.print(table)


def save(results: dict[str, Any], out: Path) -> None:
    """After each part, so that a long run that is stopped has told something."""
    out.mkdir(exist_ok=True)
    (out / "others.json").write_text(json.dumps(results, indent=2) + "\n")


def draw(results: dict[str, Any], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    ratios = results["ratios"]
    figure, axes = plt.subplots(figsize=(9, 0.32 * len(ratios) + 1))
    axes.barh(list(ratios), list(ratios.values()), color="#546e7a")
    axes.axvline(1, color="#e64a19", linewidth=1)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("ratio of CPU time, ours / theirs")
    for at, value in enumerate(ratios.values()):
        axes.text(value, at, f" {value:.2g}", va="center", fontsize=8)
    axes.tick_params(axis="y", labelsize=8)
    axes.margins(x=0.15)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small generated graph and a tenth of the epochs")
    parser.add_argument("--seeds", type=int, default=3, help="of the accuracies at one budget")
    parser.add_argument("--out", type=Path, default=Path("bench-output"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", UserWarning)  # torch and Opacus warn of hooks, of sparse tensors and of fast noise
    real = "CARIBOU_DATA" in os.environ and not arguments.quick
    nodes, share = (500, 0.1) if arguments.quick else (2708, 1.0)

    def load(name: str, seed: int) -> cb.Graph:
        options = {} if real else {"nodes": nodes, "classes": 7, "features": 100}
        return cb.datasets.load(name, seed=seed, **options)

    names = ("cora", "pubmed", "photo") if real else ("csbm",)
    graph, stepped = load(names[0], 0), load(names[1 if real else 0], 0)
    results: dict[str, Any] = {"machine": machine(), "graph": graph.name, "graph of steps": stepped.name}
    results["edge level"] = edge_level(graph, share, 1 if arguments.quick else 3)
    save(results, arguments.out)
    results["one step"] = one_step(stepped, 2 if arguments.quick else 20)
    results["one budget"] = {}
    for name in names:
        graphs = [load(name, seed) for seed in range(arguments.seeds)]
        results["one budget"][name] = one_budget(name, graphs, (20,) if arguments.quick else (200, 1000))
        save(results, arguments.out)
    results["ratios"] = ratios_of(results)
    save(results, arguments.out)
    draw(results, arguments.out / "others.png")
    show(results)


if __name__ == "__main__":
    main()
