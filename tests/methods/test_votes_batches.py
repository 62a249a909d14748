"""Later batches of votes: arrivals gain from the graph, old rows stay, and the whole stream asks every pair once."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

import caribou as cb
from caribou.errors import InputError
from caribou.mechanisms import edge_votes
from caribou.mechanisms.edge_votes import NoisyCounts, QueryOnceGuard, VoteBudget
from caribou.mechanisms.noise_source import NoiseSource
from caribou.methods.votes import VotesEdge
from caribou.model.verify import verify

pytestmark = pytest.mark.usefixtures("quick_learning")
SIZES = (130, 170, 200)
WHOLE = cb.datasets.load(
    "csbm", nodes=SIZES[-1], classes=3, average_degree=10.0, homophily=0.9, signal=0.6, features=6, seed=3
)
MONTHS = [WHOLE.first_nodes(n) for n in SIZES]


def stream(epsilon: float = 4.0, noise: str = "discrete_laplace") -> list[cb.Model]:
    model = cb.Votes(cb.Budget(epsilon), noise=noise).fit(MONTHS[0])
    return list(itertools.accumulate(MONTHS[1:], lambda m, graph: m.extend(graph), initial=model))


def test_arrivals_gain_from_the_graph_and_old_rows_stay() -> None:
    first, second, third = stream(8.0)
    p = third.predict_proba()
    assert p.shape == (200, 3)
    assert np.allclose(p.sum(axis=1), 1)
    assert np.array_equal(p[:170], second.predict_proba())
    assert np.array_equal(p[:130], first.predict_proba())
    encoder = cb.Model("mlp", cb.Budget(8.0)).fit(WHOLE).predict()
    arrived = WHOLE.split.test[WHOLE.split.test >= 130]
    right = [(q[arrived] == WHOLE.labels[arrived]).mean() for q in (p.argmax(axis=1), encoder)]
    assert right[0] > right[1] + 0.15


def test_a_released_batch_holds_counts_of_arrivals_alone() -> None:
    *_, third = stream()
    for batch, size in ((2, 40), (3, 30)):
        counts = [a for name, a in third.released.items() if name.startswith(f"batch_{batch}.")]
        assert counts
        assert {a.shape for a in counts} == {(size, 3)}


@pytest.mark.parametrize("noise", ["discrete_laplace", "gaussian"])
def test_certificates_name_the_release_that_they_belong_to(noise: str) -> None:
    models = stream(2.0, noise)
    first, second, third = (model.certificate for model in models)
    assert "arrivals" not in {a.name.value for a in first.assumptions}
    for batch, (before, own) in enumerate(((first, second), (second, third)), start=2):
        (link,) = (a for a in own.assumptions if a.name.value == "arrivals")
        assert link.parameters == {
            "release": first.certificate_id,
            "extends": before.certificate_id,
            "batch": batch,
        }
        assert own.cost == first.cost
        assert verify(own).passed
        assert cb.Certificate.from_json(own.to_json()) == own


class AsksOldPairsAgain(QueryOnceGuard):
    """The planted fault: nodes of earlier batches receive like everybody else."""

    def __init__(self, nodes: int, classes: int, present: np.ndarray | None = None) -> None:
        super().__init__(nodes, classes)


Recorded = list[tuple[np.ndarray, list[tuple[np.ndarray, ...]]]]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """What every batch of a stream asked: who was there before, and the arguments of its stages."""
    found: Recorded = []
    make, ask = NoisyCounts.__init__, NoisyCounts.ask

    def made(self: NoisyCounts, graph: cb.Graph, classes: int, *rest: object) -> None:
        present = rest[2] if len(rest) > 2 else np.zeros(graph.num_nodes, dtype=bool)
        found.append((present, []))  # type: ignore[arg-type]
        make(self, graph, classes, *rest)  # type: ignore[arg-type]

    def asked(self: NoisyCounts, *arguments: np.ndarray) -> np.ndarray:
        found[-1][1].append(arguments)
        return ask(self, *arguments)

    monkeypatch.setattr(NoisyCounts, "__init__", made)
    monkeypatch.setattr(NoisyCounts, "ask", asked)
    stream(2.0)
    monkeypatch.undo()
    return found


def counts_of(batch: tuple[np.ndarray, list[tuple[np.ndarray, ...]]], graph: cb.Graph) -> np.ndarray:
    present, stages = batch
    box = NoisyCounts(graph, 3, VoteBudget(math.inf), NoiseSource.secure(), present)
    return np.concatenate([box.ask(*stage).ravel() for stage in stages])


def toggled(graph: cb.Graph, u: int, v: int) -> cb.Graph:
    if max(u, v) >= graph.num_nodes:
        return graph
    return graph.without_edge(u, v) if graph.has_edge(u, v) else graph.with_edge(u, v)


def moves(recorded: Recorded, pairs: list[tuple[int, int]], history: tuple[bool, ...]) -> list[int]:
    """How far each pair moves the counts of the whole stream, in L1, if it differs in the months of this history."""
    exact = [counts_of(batch, graph) for batch, graph in zip(recorded, MONTHS, strict=True)]
    found = []
    for u, v in pairs:
        total = 0
        for batch, graph, counts, differs in zip(recorded, MONTHS, exact, history, strict=True):
            if differs and max(u, v) < graph.num_nodes:
                total += int(np.abs(counts_of(batch, toggled(graph, u, v)) - counts).sum())
        found.append(total)
    return found


def some_pairs(count: int = 60) -> list[tuple[int, int]]:
    rng = np.random.default_rng(5)
    drawn = [tuple(sorted(rng.choice(200, 2, replace=False).tolist())) for _ in range(count)]
    edges = WHOLE.edge_index[:, rng.integers(0, WHOLE.edge_index.shape[1], count // 2)].T.tolist()
    return [*drawn, *(tuple(sorted(edge)) for edge in edges)]  # type: ignore[list-item]


HISTORIES = {
    "from the start": (True, True, True),
    "appears later": (False, True, True),
    "appears at the end": (False, False, True),
    "disappears": (True, False, False),
    "for a while": (False, True, False),
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_one_edge_moves_one_entry_of_the_whole_stream_by_one(recorded: Recorded, history: tuple[bool, ...]) -> None:
    pairs = some_pairs()
    moved = moves(recorded, pairs, history)
    assert set(moved) <= {0, 1}
    for (u, v), total in zip(pairs, moved, strict=True):
        month = next(t for t, size in enumerate(SIZES) if max(u, v) < size)
        if not history[month]:
            assert total == 0, "an edge that is not there when its later end arrives is read by nothing"
    if all(history):
        assert sum(moved) > len(moved) // 2, "too few pairs are asked for this test to mean anything"


def test_a_stream_that_asks_an_old_pair_again_is_rejected(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    """A method that lets everybody receive is held back by the guard; without the guard the attack finds it."""
    careless = [
        (present, [(*stage[:3], np.ones(len(present), dtype=bool), *stage[4:]) for stage in stages])
        for present, stages in recorded
    ]
    assert max(moves(careless, some_pairs(), (True, True, True))) == 1
    monkeypatch.setattr(edge_votes, "QueryOnceGuard", AsksOldPairsAgain)
    assert max(moves(careless, some_pairs(), (True, True, True))) > 1


def test_a_new_label_of_an_old_node_is_what_it_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels are public at edge level, so those of the new month decide about messages; old rows stay."""
    model = cb.Votes(cb.Budget(4.0)).fit(MONTHS[0])
    grown = MONTHS[1]
    node = int(grown.split.test[0])
    train = np.sort(np.append(grown.split.train, node))
    test = grown.split.test[grown.split.test != node]
    sent: list[tuple[bool, int]] = []
    original = NoisyCounts.ask

    def asked(
        self: NoisyCounts, new: np.ndarray, rank: np.ndarray, message: np.ndarray, *rest: np.ndarray
    ) -> np.ndarray:
        sent.append((bool(new[node]), int(message[node])))
        return original(self, new, rank, message, *rest)

    monkeypatch.setattr(NoisyCounts, "ask", asked)
    wrong = (int(model.predict()[node]) + 1) % 3
    labels = np.array(grown.labels)
    labels[node] = wrong
    told = cb.Graph.from_edges(
        grown.features, grown.edge_index, labels=labels, split=cb.Split(train, grown.split.val, test), num_classes=3
    )
    later = model.extend(told)
    assert sent[0] == (True, wrong)
    assert np.array_equal(later.predict_proba()[node], model.predict_proba()[node])


def test_a_batch_with_other_noise_is_no_batch_of_the_release() -> None:
    """All batches cost one epsilon, because all of them have its noise; no ledger is needed to see that."""
    for change in ({"budget": cb.Budget(1.0)}, {"_recipe": VotesEdge(noise="gaussian")}):
        model = cb.Votes(cb.Budget(4.0), max_rounds=1).fit(MONTHS[0])
        vars(model).update(change)
        with pytest.raises(InputError, match=r"noise of a batch must be that of the batch before \(epsilon = 4\)"):
            model.extend(MONTHS[1])
        assert model.extend(MONTHS[1], spend=True).certificate.cost != model.certificate.cost


def test_a_batch_that_pays_for_itself_does_not_cover_what_is_older() -> None:
    first = cb.Votes(cb.Budget(4.0), max_rounds=1).fit(MONTHS[0])
    paid = first.extend(MONTHS[1], spend=True)
    for model in (paid, paid.extend(MONTHS[2])):
        own = model.certificate
        assert own.public_parameters["after_certificate"] == first.certificate.certificate_id
        assert f"since certificate {first.certificate.certificate_id}" in own.released[0]
        assert verify(own).passed
    assert "after_certificate" not in first.extend(MONTHS[1]).certificate.public_parameters


def test_rows_that_were_moved_are_refused_also_by_a_saved_model(tmp_path: Path) -> None:
    cb.Votes(cb.Budget(4.0), max_rounds=1).fit(MONTHS[0]).save(tmp_path / "run")
    order = np.array([*range(1, 130), 0, *range(130, 170)])
    u, v = np.argsort(order)[MONTHS[1].edge_index]
    moved = cb.Graph.from_edges(MONTHS[1].features[order], [u, v], MONTHS[1].labels[order])
    with pytest.raises(InputError, match="got row 0 with the features that row 1 had"):
        cb.load(tmp_path / "run").extend(moved)
    assert cb.load(tmp_path / "run").extend(MONTHS[1]).state.nodes == 170
